# `make` alone lists the words.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# PyTorch's wheel index: set it to choose a build (for example PyTorch's CPU index on a machine without a GPU);
# unset means pip's own index.
TORCH_INDEX ?=
PIP_INSTALL := $(BIN)/pip install --disable-pip-version-check --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help serve demo test test-deep check bench proto clean

help:  ## list these words
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/serve.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing (the first time takes a few minutes)"
	@$(PIP_INSTALL) --editable '.[serve]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing with test tools (the first time takes a few minutes)"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/serve.stamp

serve: $(VENV)/serve.stamp  ## install, fetch the default model, serve it on 127.0.0.1
	@exec $(BIN)/headway serve

demo: $(VENV)/serve.stamp  ## eight prompts at once, answers as they grow, a table of TTFT, TBT and tokens/s
	@exec $(BIN)/headway demo

test: $(VENV)/dev.stamp  ## install, run the tests with a seeded sample of the long matrices (under 10 minutes on 2 cores)
	$(BIN)/python -m pytest -m "not deep"

test-deep: $(VENV)/dev.stamp  ## run all of the long matrices (under 40 minutes)
	$(BIN)/python -m pytest -m deep

check: $(VENV)/dev.stamp  ## ruff, mypy --strict, import-linter, stale stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=.:proto $(BIN)/lint-imports
	$(BIN)/python proto/build.py --check

bench: $(VENV)/dev.stamp  ## run every benchmark; results in benchmarks/results
	$(BIN)/python -m benchmarks

proto: $(VENV)/dev.stamp  ## make the stubs from proto/
	$(BIN)/python proto/build.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
