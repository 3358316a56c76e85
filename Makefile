# make demo   installs the library and shows it on real votes and animals
# make quick  the tests that find most mistakes, in less than a minute
# make test   installs what the tests need, then runs every check
# Everything goes into .venv; it is installed again only when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --root-user-action=ignore

# Compiled Python is kept: otherwise each of the many processes of the tests compiles it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo quick test lint plain format bench quality figures stale docs dist fuzz clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/demo.stamp  ## hidden votes of the 107th Senate completed, a zoo explained
	$(BIN)/boolweave demo

# What every answer goes through, from model to estimator, and the stored answers. Kernels
# are compiled once and kept; after a change of theirs the first run takes longer.
QUICK := tests/model tests/engine/test_*.py tests/estimator/test_estimator.py tests/golden \
    tests/stored tests/metrics tests/test_*.py

quick: .venv/dev.stamp  ## the core in less than a minute (kernels compiled): no browser, no cluster
	$(BIN)/python -m pytest $(QUICK) -n 2 --dist loadfile -q -m "not slow and not browser" -k "not cluster"

# Lint and the kernels as plain Python are a process beside those of the tests: it has work while these
# wait for one of them to compile a kernel. What it says is shown at the end. Tests of killed workers
# and of Ctrl-C can fail on a busy machine: the few that failed get one more chance, alone.
test: .venv/dev.stamp  ## lint, the kernels as plain Python, all tests
	@$(MAKE) --no-print-directory lint plain COVERAGE= > .venv/checks.log 2>&1 & checks=$$!; \
	trap 'kill $$checks' INT TERM; \
	$(BIN)/python -m pytest -n auto --dist worksteal --durations=25; tested=$$?; \
	wait $$checks; checked=$$?; cat .venv/checks.log; \
	if [ $$tested -eq 1 ] && $(BIN)/python scripts/few_failed.py; then \
	    echo "Some tests failed; each of them is run again, alone."; \
	    $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; tested=$$?; fi; \
	exit $$((checked + tested))

# Counting lines takes longer than the tests themselves, so that `make test` leaves it out.
COVERAGE := --cov=boolweave.engine.kernels --cov=boolweave.search.kernels \
    --cov=boolweave.covering.kernels --cov=src/boolweave/completion/kernels --cov-report=term-missing

plain: .venv/dev.stamp  ## the kernels as plain Python, with coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/engine/kernels tests/search/kernels \
	    tests/covering/kernels tests/completion/kernels -q -p no:cacheprovider \
	    --ignore=tests/engine/kernels/test_jit.py $(COVERAGE)

lint: .venv/dev.stamp  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp  ## put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/bench.stamp  ## time, error and memory beside other programs
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/clusters.py
	@if [ -n "$$BOOLWEAVE_DATA" ]; then $(BIN)/python benchmarks/decoding.py; \
	    else echo "benchmarks/decoding.py reads codes from BOOLWEAVE_DATA: not set, left out"; fi

quality: .venv/bench.stamp  ## error on planted problems beside what is asked; takes an hour
	$(BIN)/python benchmarks/quality.py

figures: .venv/bench.stamp  ## the paper's figures and tables: minutes; QUICK=0 its sizes; DATA=... MovieLens
	@set -e; for script in $(filter-out experiments/common.py,$(sort $(wildcard experiments/*.py))); do \
	    $(BIN)/python $$script $(if $(filter 0,$(QUICK)),--full,--quick) \
	        $(if $(DATA),$$(test $$script != experiments/movielens.py || echo --data $(DATA))); done
	$(BIN)/python scripts/paper_tables.py

stale:  ## stored results that are older than the code they measure
	@$(PYTHON) scripts/provenance.py --stale

# Random cases of four kinds, until there were CASES or SECONDS have passed.
CASES ?= 50000
SECONDS ?= 900

fuzz: .venv/dev.stamp  ## random files, tables, models and calls: counts of what they end in
	$(BIN)/python tests/fuzz/campaigns.py --cases $(CASES) --seconds $(SECONDS)

docs: .venv/docs.stamp  ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: .venv/dev.stamp  ## wheel and sdist, built twice and compared, and a wheel with compiled kernels, into dist/
	$(BIN)/python scripts/build_dist.py --compiled

clean:  ## remove everything that was made, .venv included
	rm -rf .venv .bench .tutorials site dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
	    .hypothesis .coverage .coverage.* htmlcov
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- the environment: one stamp for each set of packages

.venv/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "boolweave needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one with: make PYTHON=/path/to/python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	    echo "$(PYTHON) cannot make environments. On Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/demo.stamp: .venv/made.stamp pyproject.toml
	$(PIP) -e '.[plot,report]'
	@touch $@

.venv/dev.stamp: .venv/made.stamp pyproject.toml
	$(PIP) -e '.[test,lint,docs]'
	@touch $@ .venv/demo.stamp .venv/docs.stamp

.venv/bench.stamp: .venv/made.stamp pyproject.toml
	$(PIP) -e '.[bench]'
	@touch $@

.venv/docs.stamp: .venv/made.stamp pyproject.toml
	$(PIP) -e '.[docs]'
	@touch $@
