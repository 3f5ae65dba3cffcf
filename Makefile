# make leaderboard, make test: each installs what it needs.
CORES ?= 2
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One bar per rule on a terminal, a few lines elsewhere and in CI; the log of a job that failed in any case.
SNAKEMAKE := $(if $(filter true 1,$(CI)),TTY_INTERACTIVE=0 )$(BIN)/snakemake --logger rich --cores $(CORES)
PYTHON_SOURCES := src scripts tests benchmarks examples

.PHONY: setup cluster leaderboard reports test test-code test-validity test-cluster lint types format freeze bench clean

setup: $(VENV)/installed

# Built anew only when the lock changes; half an installation leaves no mark.
$(VENV)/installed: envs/requirements.txt pyproject.toml
	rm -f $@
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python scripts/install_text_data.py
	touch $@

# The Slurm executor and the S3 storage stay out of the lock: the first makes every start of Snakemake ask for Slurm's
# tools, the second needs an older dateutil.
cluster: $(VENV)/installed-cluster

$(VENV)/installed-cluster: $(VENV)/installed envs/cluster.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/cluster.txt
	touch $@

# `folds` asks for every fold file by name: one that was deleted comes back, although the board is newer.
leaderboard: setup
	$(SNAKEMAKE) results/leaderboard.json results/leaderboard.html folds
	$(BIN)/python scripts/show_leaderboard.py results/leaderboard.json
	@echo "With intervals, figures and run records: results/leaderboard.html"

reports: setup
	$(SNAKEMAKE) all

# Two processes, one per core of a small machine; each one's output comes whole.
test: setup
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target --keep-going test-code test-validity

# The folders of unit tests that take longest go with the shorter half.
LONG_UNIT := $(addprefix tests/unit/,core/ rfgen/)

test-code: setup
	$(BIN)/python -m pytest $(filter-out $(LONG_UNIT),$(wildcard tests/unit/*/)) tests/workflow

test-validity: setup
	$(BIN)/python -m pytest $(LONG_UNIT) tests/validation

# Apart from `make test`: what it installs is not in the lock.
test-cluster: cluster
	$(BIN)/python -m pytest -rs tests/workflow/test_slurm.py tests/workflow/test_s3.py

lint: setup
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/snakemake --lint

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/snakefmt Snakefile workflow

# After a change of scenes, labels, specs or scoring that is meant: records the hashes of the releases that ship.
freeze: setup
	$(BIN)/python scripts/freeze.py $(or $(RELEASES),tiny v0.1 v1.0)

bench: setup
	$(BIN)/python benchmarks/run_all.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf results/[!R]* .snakemake
