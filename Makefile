# make leaderboard, make test: each installs what it needs.
CORES ?= 2
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --quiet rules host --cores $(CORES)
PYTHON_SOURCES := src scripts tests benchmarks

.PHONY: setup leaderboard reports test lint format bench clean

setup: $(VENV)/installed

# Built anew only when the lock changes; half an installation leaves no mark.
$(VENV)/installed: envs/requirements.txt pyproject.toml
	rm -f $@
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python scripts/install_text_data.py
	touch $@

# `folds` asks for every fold file by name: one that was deleted comes back, although the board is newer.
leaderboard: setup
	$(SNAKEMAKE) results/leaderboard.json results/leaderboard.html folds
	$(BIN)/python scripts/show_leaderboard.py results/leaderboard.json

reports: setup
	$(SNAKEMAKE) all

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/lint-imports
	$(BIN)/snakemake --lint

format: setup
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/snakefmt Snakefile workflow

bench: setup
	$(BIN)/python benchmarks/cold_run.py

clean:
	rm -rf results/[!R]* .snakemake
