# `make` alone lists the words.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

# Which build of PyTorch is installed: `make serve TORCH_INDEX=cpu` takes it from PyTorch's CPU index (gigabytes smaller,
# right where there is no GPU), any other value is the URL of an index, and unset leaves it to pip's own configuration.
# That index is asked for torch alone, in the version that pyproject.toml pins: it is trusted with no other package's name.
TORCH_INDEX ?=
TORCH_INDEX_URL := $(if $(filter cpu,$(TORCH_INDEX)),https://download.pytorch.org/whl/cpu,$(TORCH_INDEX))
TORCH := $(shell grep -oE 'torch==[0-9.]+' pyproject.toml)
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet
INSTALL_TORCH := $(if $(TORCH_INDEX_URL),$(PIP_INSTALL) --no-deps --index-url $(TORCH_INDEX_URL) $(TORCH),:)

KERNEL_SOURCES := $(wildcard kernels/cpu/*.cpp kernels/cpu/*.h) kernels/cpu/build.py

.DEFAULT_GOAL := help
.PHONY: help serve demo demo-batching test test-deep check bench bench-peers proto clean

help:  ## list these words
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/%/<name>/; s/:.*## /\t/' | expand -t 14
	@echo 'Flags go into ARGS, such as: make serve ARGS="--port 50061"; make test ARGS="-k chat". Without a GPU: TORCH_INDEX=cpu'

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Headway needs Python 3.11 or newer; $(PYTHON) is not. Choose another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Where they cannot be compiled, the rest serves without them, and the next `make` tries again.
$(VENV)/kernels.stamp: $(KERNEL_SOURCES) | $(BIN)/pip
	@echo "compiling the CPU kernels (half a minute)"
	@if $(BIN)/python -m kernels.cpu.build; then touch $@; fi

$(VENV)/serve.stamp: pyproject.toml setup.py | $(VENV)/kernels.stamp
	@echo "installing (the first time takes a few minutes)"
	@$(INSTALL_TORCH)
	@$(PIP_INSTALL) --editable '.[serve]'
	@touch $@

$(VENV)/demo.stamp: $(VENV)/serve.stamp
	@$(PIP_INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml setup.py | $(VENV)/kernels.stamp
	@echo "installing with test tools (the first time takes a few minutes)"
	@$(INSTALL_TORCH)
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/serve.stamp

serve: $(VENV)/serve.stamp  ## install, fetch the default model, serve it on 127.0.0.1
	@exec $(BIN)/headway serve $(ARGS)

demo: $(VENV)/serve.stamp  ## eight prompts at once, answers as they grow, a table of TTFT, TBT and tokens/s
	@exec $(BIN)/headway demo $(ARGS)

demo-batching: $(VENV)/demo.stamp  ## static against continuous batching: a table, and docs/images/batching.png
	@mkdir -p docs/images
	@exec $(BIN)/headway demo-batching --picture docs/images/batching.png $(ARGS)

test: $(VENV)/dev.stamp  ## install, run the tests with a seeded sample of the long matrices (under 10 minutes on 2 cores)
	$(BIN)/python -m pytest -m "not deep" $(ARGS)

test-deep: $(VENV)/dev.stamp  ## run all of the long matrices (under 40 minutes)
	$(BIN)/python -m pytest -m deep $(ARGS)

check: $(VENV)/dev.stamp  ## ruff, mypy --strict, import-linter, stale stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=.:proto $(BIN)/lint-imports
	$(BIN)/python proto/build.py --check

bench: $(VENV)/dev.stamp  ## run every benchmark; results in benchmarks/results
	$(BIN)/python -m benchmarks $(ARGS)

bench-%: $(VENV)/dev.stamp  ## run one benchmark: scheduler, engine, kernels, threads, stream or batching
	$(BIN)/python -m benchmarks $*

bench-peers: $(VENV)/dev.stamp  ## install the peers, measure them and Headway in alternation; results in benchmarks/results/peers.json
	$(BIN)/python -m benchmarks.peers $(if $(TORCH_INDEX_URL),--torch-index $(TORCH_INDEX_URL)) $(ARGS)

proto: $(VENV)/dev.stamp  ## make the stubs from proto/
	$(BIN)/python proto/build.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
