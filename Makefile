# The handful of commands. `make demo` needs Python 3.11+, Java 17+ and nothing else installed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test check soak clean

help:
	@echo "make demo   336,776 flights through JetStream and Spark, on this machine"
	@echo "make test   install everything, then all checks and tests"
	@echo "make check  formatting, lint, types, import rules; no tests"
	@echo "make soak   the demo again and again, SOAK_RUNS times (20)"
	@echo "make clean  remove what these commands made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp an extra, newer than the settings that it was installed from.
$(READY)-demo: $(BIN)/python pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(READY)-test: $(BIN)/python pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,test,dev]'
	@touch $@ $(READY)-demo

demo: $(READY)-demo
	@$(BIN)/python examples/flights.py

check: $(READY)-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if grep -q '^\[tool.importlinter\]' pyproject.toml; then $(BIN)/lint-imports; fi

test: check
	$(BIN)/python -m pytest

SOAK_RUNS ?= 20

soak: $(READY)-demo
	@for run in $$(seq $(SOAK_RUNS)); do \
	  echo "run $$run of $(SOAK_RUNS)"; $(BIN)/python examples/flights.py || exit 1; \
	done

clean:
	rm -rf $(VENV) .demo build dist *.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
