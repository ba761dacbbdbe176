# Every target first makes sure of .venv (tools/bootstrap.py); when it is in place that takes 0.1 s.
# PYTHON names the Python that .venv is made with; ARGS is handed on: make test ARGS="-k tape".

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup serve hub test quick doctor book bench lint format types lock release clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*##/  make \1\t/' | expand -t 18

setup:  ## .venv with the locked requirements; every other target does this first
	@$(PYTHON) tools/bootstrap.py

serve: setup  ## JupyterLab with the labs, the site and your grades, on 127.0.0.1
	@$(BIN)/python tools/serve.py $(ARGS)

hub: setup  ## JupyterHub for a class, with the grading service, on 127.0.0.1
	@$(BIN)/python tools/hub.py $(ARGS)

test: setup  ## the whole test suite, the solution notebooks included
	$(BIN)/python tools/test.py $(ARGS)

quick: setup  ## the tests that take under a minute together
	$(BIN)/python tools/test.py quick $(ARGS)

doctor:  ## what this machine can do, and how to get what is missing
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m autograder.doctor $(ARGS); else $(PYTHON) -m autograder.doctor $(ARGS); fi

book: setup  ## the site, warnings as errors, into book/_build/html
	$(BIN)/python book/build.py $(ARGS)

bench: setup  ## side by side with torch, autograd, DeZero and tinygrad
	$(BIN)/python -m benchmarks $(ARGS)

lint: setup  ## ruff and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: setup  ## put the source in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## mypy
	$(BIN)/mypy

lock: setup  ## write requirements.lock anew (ARGS=--upgrade: take newer versions)
	$(BIN)/python tools/lock.py $(ARGS)

release: setup  ## write labs/*.ipynb from labs/solutions/*.ipynb
	$(BIN)/autograder release $(ARGS)

clean:  ## remove what was built; keeps .venv and your grades
	rm -rf book/_build .jupyter_cache .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .benchmarks .run build dist
	find internals autograder classroom tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
