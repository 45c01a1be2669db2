# Everything works in a fresh clone with Python 3.11 or later; `make help` lists the targets.
# Set-up talks on stderr only: standard output belongs to what a target runs (`make demo ARGS=--json | jq`).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
RUN := $(VENV)/bin
PYTEST := $(RUN)/python -m pytest
PIP_INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --editable

# The suites in the order in which they run. A directory that is missing is left out.
SERVERLESS := $(wildcard $(addprefix tests/, unit golden properties simulation))
EMBEDDED := tests/contract/test_every_sink.py tests/integration/lab/test_embedded_postgres.py
SUITES := $(SERVERLESS) $(wildcard $(addprefix tests/, contract integration lives acceptance browser))

# How many workers run tests side by side, each with servers of its own; most of the time tests wait. 0: the tests run one
# after the other, as they must if they share a server that somebody else runs (tests/servers/choose.py).
WORKERS ?= $(if $(WALRELAY_TEST_POSTGRES_DSN)$(WALRELAY_TEST_KAFKA),0,4)

# How many rows a transaction has, in the backlogs of `make throughput`.
ROWS ?= 10 1 1000 all

# The tests start walrelay thousands of times, and Python would compile its modules again each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test slow check bench throughput peers chaos lives life servers clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*  ## (.*)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(VENV)/demo.stamp  ## the two-minute tour (ARGS="--json" for machines)
	@exec $(RUN)/walrelay demo $(ARGS)

quick: $(VENV)/dev.stamp  ## the tests whose servers come with the package: a minute, no root, no Java
	@exec $(PYTEST) -n 2 --max-worker-restart=0 -m 'not chaos and not slow and not java' $(ARGS) $(SERVERLESS) $(EMBEDDED)

test: $(VENV)/dev.stamp servers  ## every test but the long ones, with real servers (WORKERS=0: one after the other)
	@exec $(PYTEST) -n $(WORKERS) --max-worker-restart=0 $(ARGS) $(SUITES)

slow: $(VENV)/dev.stamp servers  ## the tests with servers that take long to install, to start or to answer
	@tests/servers/install $(RUN)/python slow >&2
	@exec $(PYTEST) -n $(WORKERS) --max-worker-restart=0 -m slow $(ARGS) $(SUITES)

check: $(VENV)/dev.stamp  ## format, lint, types and the layers of the imports
	@$(RUN)/ruff format --check .
	@$(RUN)/ruff check .
	@$(RUN)/mypy --strict walrelay tests
	@$(RUN)/lint-imports

bench: $(VENV)/dev.stamp servers  ## latency and cost beside polling, a quarter of an hour, with a page in build/bench (ARGS="--quick")
	@exec $(RUN)/walrelay bench latency --report build/bench $(ARGS)

throughput: $(VENV)/dev.stamp servers  ## a backlog drained, beside what PostgreSQL can give, half an hour (ROWS=10 ARGS="--quick")
	@for rows in $(ROWS); do $(RUN)/walrelay bench throughput --rows-per-transaction $$rows --report build/bench/rows-$$rows $(ARGS); done
	@$(RUN)/walrelay bench throughput --socket --only limit,null,mock --report build/bench/socket $(ARGS)

peers: $(VENV)/dev.stamp servers  ## other relays on the same rows
	@exec $(RUN)/python -m tests.bench.peers $(ARGS)

chaos: $(VENV)/dev.stamp servers  ## the long tests that break things at random
	@exec $(PYTEST) -m chaos $(ARGS) tests

lives: $(VENV)/dev.stamp  ## whole lives against a model, for as long as ARGS="--seconds 3600 --seed 1" says
	@exec $(RUN)/python -m tests.lives $(ARGS)

life: $(VENV)/dev.stamp  ## one of them, step by step, and minimised if it fails: SEED=17
	@exec $(RUN)/python -m tests.lives --life $(SEED) $(ARGS)

servers: $(VENV)/dev.stamp  ## install what the tests' servers need
	@tests/servers/install $(RUN)/python >&2

clean:  ## delete what the other targets made in the work tree
	@rm -rf $(VENV) build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find walrelay tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/demo.stamp: pyproject.toml
	@$(call make-venv) >&2
	@$(PIP_INSTALL) '.[demo]' >&2
	@touch $@

$(VENV)/dev.stamp: pyproject.toml
	@$(call make-venv) >&2
	@$(PIP_INSTALL) '.[dev]' >&2
	@touch $@ $(VENV)/demo.stamp

# A Python on PATH may not run (pyenv has shims for versions that are not active), or may be too old.
define make-venv
if ! $(RUN)/python -m pip --version >/dev/null 2>&1; then \
	for python in python3.13 python3.12 python3.11 python3 none; do \
		if [ $$python = none ]; then echo 'walrelay needs Python 3.11 or later' >&2; exit 1; fi; \
		if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi; \
	done; \
	echo "making $(VENV) with $$($$python --version)"; \
	$$python -m venv --clear $(VENV); \
fi
endef
