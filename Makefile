# Every target but help and clean works in .venv, which is made once from the two hashed locks.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header

.DEFAULT_GOAL := help
.PHONY: help demo test lint run bench proof openapi locks clean

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(STAMP) ## a daemon in a temporary folder: remember, recall, dream, forget, on screen
	@$(BIN)/python tests/demo/run.py

test: lint ## lint, then every test; ARGS="-k recall" goes to pytest
	@echo '==> pytest'
	@$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## ruff, its formatter and mypy, changing nothing
	@echo '==> ruff check'
	@$(BIN)/ruff check --quiet .
	@echo '==> ruff format --check'
	@$(BIN)/ruff format --quiet --check .
	@echo '==> mypy'
	@$(BIN)/mypy

run: $(STAMP) ## the daemon in the foreground, its state in ~/.local/state/dreamd; ARGS="..." are its flags
	@exec $(BIN)/dreamd --state-dir "$$HOME/.local/state/dreamd" $(ARGS)

bench: $(STAMP) ## the measures as JSON; BENCH="..." are its arguments
	@$(BIN)/python tests/bench/run.py $(BENCH)

proof: $(STAMP) ## fifty kills in the middle of nights, and a year of an active user; takes a quarter of an hour
	@echo '==> five stores, ten kills each; a year of nights'
	@PROOF=whole $(BIN)/python -m pytest --timeout 1800 tests/test_killed.py tests/test_year.py
	@echo '==> what was needed and forgotten in a year, three times under three workloads'
	@$(BIN)/python tests/bench/year.py

openapi: $(STAMP) ## write daemon/openapi.json again, after a change of any method
	@$(BIN)/python -m daemon.openapi

locks: $(STAMP) ## resolve the locks again within pyproject.toml; UPGRADE=--upgrade takes what is newest
	@echo '==> requirements.lock'
	@$(LOCK) $(UPGRADE) --all-extras --output-file requirements.lock pyproject.toml
	@echo '==> requirements-dev.lock'
	@$(LOCK) $(UPGRADE) --group dev --constraints requirements.lock --output-file requirements-dev.lock \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock)

clean: ## remove .venv and everything else that was made here
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so that a set-up that was cut short is done again.
$(STAMP): requirements.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dreamd needs Python 3.11 or newer and '$(PYTHON)' is not: install one (Debian 12: apt-get install python3)," \
			"or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	@echo '==> .venv, with all that the locks name; the first time this takes a minute or two'
	@$(PYTHON) -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock -r requirements-dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
