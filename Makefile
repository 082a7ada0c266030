# SPDX-License-Identifier: Apache-2.0
# Two commands matter: `make run` and `make test`. They set themselves up, also from an empty environment.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# An empty environment has no search path, and its locale would make Python guess encodings.
ifeq ($(origin PATH),undefined)
export PATH := /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
endif
export PYTHONUTF8 := 1
# Hundreds of processes start while the tests run, which would otherwise translate each file of Tonnage again.
unexport PYTHONDONTWRITEBYTECODE

CONF ?= etc/tonnage-standalone.conf
# Two workers for each processor, as tests wait half of their time, and at most four: each starts the servers that its
# tests need. Files go to workers in their order, so that those that take long (functional) come before the many short.
PROCESSORS := $(shell PATH='$(PATH)' nproc)
WORKERS ?= --numprocesses=$(if $(filter 1,$(PROCESSORS)),2,4) --dist=loadfile --no-loadscope-reorder
# More arguments for pytest: make test ARGS="tests/unit -k headroom"
ARGS ?=

BIN := .venv/bin

# Tests make volumes that take real space: more than a /tmp in memory should have to give.
test test-heavy test-kubernetes coverage: export TMPDIR ?= $(if $(filter tmpfs,$(shell PATH='$(PATH)' stat -f -c %T /tmp)),/var/tmp,/tmp)

.PHONY: help install run test test-heavy test-kubernetes lint format coverage docs sample-config clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install:  ## Create .venv and install Tonnage in it
	@tools/setup.sh

run: install  ## Start Tonnage on this machine: scheduler, agent and REST API in one process
	@echo "==> Bringing the database up to date"
	@$(BIN)/tonnage-manage --config-file $(CONF) db sync
	@echo "==> Starting Tonnage"
	@exec $(BIN)/tonnage-standalone --config-file $(CONF)

test:  ## Lint, then run all tests but the heavy ones
	@tools/install-servers.sh & trap 'wait $$!' EXIT; tools/setup.sh test lint
	@$(MAKE) lint
	@echo "==> Running the tests"
	@exec $(BIN)/pytest $(WORKERS) -m "not heavy" $(ARGS)

test-heavy:  ## Run the tests that take minutes or much memory
	@tools/setup.sh test
	@tools/install-servers.sh
	@echo "==> Running the heavy tests"
	@exec $(BIN)/pytest -m heavy --timeout=3600 $(ARGS)

test-kubernetes:  ## Run the tests in front of a real kube-scheduler, which is built first: that takes long
	@tools/setup.sh test
	@tools/install-kubernetes.sh
	@echo "==> Running the tests with Kubernetes"
	@exec $(BIN)/pytest tests/kubernetes -m kubernetes --timeout=1200 $(ARGS)

lint:  ## Check style, types and the arrows between rooms
	@tools/setup.sh test lint
	@echo "==> Checking style (ruff)"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check --diff .
	@echo "==> Checking types (mypy)"
	@$(BIN)/mypy
	@echo "==> Checking the arrows between rooms (import-linter)"
	@said=$$($(BIN)/lint-imports) || { echo "$$said"; exit 1; }; tail -n 1 <<<"$$said"

format:  ## Format the code and sort its imports
	@tools/setup.sh lint
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

coverage:  ## Run the tests and show which lines none of them reached
	@tools/setup.sh test
	@tools/install-servers.sh
	@$(BIN)/pytest $(WORKERS) -m "not heavy" --cov --cov-report=term $(ARGS)

docs:  ## Build the documentation into docs/_build/html
	@tools/setup.sh docs
	@echo "==> Building the documentation"
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "==> docs/_build/html/index.html"

sample-config:  ## Write etc/*.sample and cli/option_names.txt anew from the options and rules
	@tools/setup.sh
	@tools/sample-config.sh

clean:  ## Remove what the other targets made, ./var with its volumes excepted
	rm -rf .venv .tox .lvm-guest .openstack .kubernetes build dist docs/_build *.egg-info .coverage .coverage.* htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -not -path './var/*' -exec rm -rf {} +
