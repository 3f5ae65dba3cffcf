# make leaderboard, make test: each installs what it needs. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
CORES ?= 2
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What runs now and the time left on a terminal, a few lines elsewhere and in CI; a line per job that failed.
SNAKEMAKE := $(if $(filter true 1,$(CI)),TTY_INTERACTIVE=0 )$(BIN)/snakemake --logger emma --cores $(CORES)
PYTHON_SOURCES := src scripts tests benchmarks examples docs
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar off

.PHONY: help setup cluster leaderboard reports test test-code test-validity test-cluster lint types format docs freeze bench bench-scale clean

help:  ## list the targets
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/installed  ## install what is needed, into .venv

# A local index that a site adds to pip's, and that lacks a package, is no fault: pip's line of it, and no other, is left
# out. No flag of pip does that without hiding warnings.
UNTOLD := 2> >(grep --line-buffered -v "^WARNING: Location 'file:.*' is ignored: it is neither a file nor a directory" >&2)

# Of what pip tells, the package that it is at: one line on a terminal, a line per 25 packages elsewhere.
define TELL
{ n=0; while read -r word name rest; do \
	case $$word in Collecting) n=$$((n + 1)); told="package $$n of $$(grep -c == $<): $$name";; \
	Installing) told="installing what was fetched"; n=1;; *) continue;; esac; \
	if [ -t 1 ]; then printf '\r\033[K  %s' "$$told"; elif [ $$((n % 25)) = 1 ]; then echo "  $$told"; fi; \
done; [ ! -t 1 ] || printf '\r\033[K'; }
endef

# Built anew only when the lock changes; half an installation leaves no mark.
$(VENV)/installed: envs/requirements.txt pyproject.toml
	@rm -f $@
	@echo "1/4 a virtual environment: $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "2/4 the packages of $<: some minutes, about 5 GB"
	@$(PIP) -r $< $(UNTOLD) | $(TELL)
	@echo "3/4 EMMA itself"
	@$(PIP) --quiet --no-deps --no-build-isolation --editable . $(UNTOLD)
	@echo "4/4 the words of the text metrics"
	@$(BIN)/python scripts/install_text_data.py
	@touch $@
	@echo "installed; source $(BIN)/activate puts emma, snakemake and python on the path"

# The Slurm executor and the S3 storage stay out of the lock: the first makes every start of Snakemake ask for Slurm's
# tools, the second needs an older dateutil.
cluster: $(VENV)/installed-cluster  ## install the Slurm executor and the S3 storage too

$(VENV)/installed-cluster: envs/cluster.txt $(VENV)/installed
	@echo "the packages of $<"
	@$(PIP) -r $< $(UNTOLD) | $(TELL)
	@touch $@

# `folds` asks for every fold file by name: one that was deleted comes back, although the board is newer.
leaderboard: setup  ## run the default release: results/leaderboard.html
	$(SNAKEMAKE) results/leaderboard.json results/leaderboard.html folds
	$(BIN)/python scripts/show_leaderboard.py results/leaderboard.json
	@echo "With intervals, figures and run records: results/leaderboard.html"

reports: setup  ## run it with every report
	$(SNAKEMAKE) all

# Two processes, one per core of a small machine; each one's output comes whole.
test: setup  ## all tests
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target --keep-going test-code test-validity

test-code: setup
	$(BIN)/python -m pytest tests/unit tests/workflow

test-validity: setup
	$(BIN)/python -m pytest tests/validation

# Apart from `make test`: what it installs is not in the lock.
test-cluster: cluster  ## tests of Slurm and S3
	$(BIN)/python -m pytest -rs tests/workflow/test_slurm.py tests/workflow/test_s3.py

lint: setup  ## style, types and the order of imports
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/snakemake --lint

types: setup  ## types alone
	$(BIN)/mypy

format: setup  ## mend the style
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/snakefmt Snakefile workflow

# Strict: a dead link ends it. It opens from disk, and fetches nothing from the net.
docs: setup  ## build the documentation site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "The documentation: site/index.html"

# After a change of scenes, labels, specs or scoring that is meant: records the hashes of the releases that ship.
freeze: setup  ## record the hashes of changed releases
	$(BIN)/python scripts/freeze.py $(or $(RELEASES),tiny v0.1 v1.0)

bench: setup  ## measure speed and memory: ONLY="fits hashing" for some
	$(BIN)/python benchmarks/run_all.py $(if $(ONLY),--only $(ONLY))

bench-scale: setup  ## measure larger releases: some hours
	$(BIN)/python benchmarks/run_all.py --scale --out results/benchmarks_scale.json

# Asks before it deletes; YES=1 does not.
clean: setup  ## delete one release's results: RELEASE=v1.0, by default that of the config
	$(BIN)/emma clean $(if $(RELEASE),--release $(RELEASE)) $(if $(YES),--yes)
