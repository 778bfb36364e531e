# RoboMem's commands. `make demo` and `make test` bring all that they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup system demo test lint format lock clean

# A start is quick once bytecode is kept.
unexport PYTHONDONTWRITEBYTECODE

UV := $(or $(shell command -v uv),.uv/bin/uv)
BIN := .venv/bin
INSTALLED := .venv/.installed

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/python -m pip install --quiet uv

$(INSTALLED): requirements.lock pyproject.toml | $(UV)
	test -x $(BIN)/python || $(UV) venv --quiet --python 3.12 .venv
	$(UV) pip sync --python $(BIN)/python requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

setup: $(INSTALLED) ## Python 3.12 environment in .venv from requirements.lock

system: setup ## system libraries for software rendering (asks before using root)
	@bash sim/install_vulkan.sh $(BIN)/python

demo: setup system ## collect, train, evaluate, audit and report on one task
	$(BIN)/robomem quickstart

test: setup system ## all tests
	$(BIN)/python -m pytest

lint: setup ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: setup ## sort imports, format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: | $(UV) ## resolve pyproject.toml into requirements.lock
	$(UV) pip compile pyproject.toml --quiet --all-extras --python-version 3.12 --generate-hashes --no-emit-index-url \
		--no-header --output-file requirements.lock

clean: ## remove environments and caches, keep data and runs
	rm -rf .venv .uv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
