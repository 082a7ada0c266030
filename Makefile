# SPDX-License-Identifier: Apache-2.0
# The main targets are `make run` and `make test`. They install their requirements, also in an empty environment.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# An empty environment has no search path, and its locale would make Python guess encodings.
ifeq ($(origin PATH),undefined)
export PATH := /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
endif
export PYTHONUTF8 := 1
# The tests start hundreds of processes. Without compiled files each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

CONF ?= etc/tonnage-standalone.conf
# Two workers for each processor, because tests wait half of their time, and at most four, because each worker starts
# its own servers. Workers take the files in the order of tests/conftest.py.
PROCESSORS := $(shell PATH='$(PATH)' nproc)
WORKERS ?= --numprocesses=$(if $(filter 1,$(PROCESSORS)),2,4) --dist=loadfile --no-loadscope-reorder
# `make test` does not import the suites of which it runs nothing.
OTHER_SUITES := $(addprefix --ignore=tests/,cinder clusters kubernetes tempest)
# INSTALL=no installs no packages of the distribution for the tests.
export INSTALL ?= yes
# More arguments for pytest: make test ARGS="tests/unit -k headroom"
ARGS ?=

BIN := .venv/bin

# Another release of Cinder for its tests, instead of the newest: make test-cinder CINDER=28
CINDER ?=
test-cinder: export CINDER := $(CINDER)

# Tests create volumes that use more space than a /tmp in memory should provide.
test test-heavy test-least test-kubernetes test-clusters test-tempest test-cinder coverage: export TMPDIR ?= $(if $(filter tmpfs,$(shell PATH='$(PATH)' stat -f -c %T /tmp)),/var/tmp,/tmp)

# Each of these runs one suite, so a suite that could not run is a failure.
test-kubernetes test-clusters test-tempest test-cinder: export CI := true

.PHONY: help install check-port run test test-heavy test-least test-kubernetes test-clusters test-tempest test-cinder lint format coverage docs sample-config board clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install:  ## Create .venv and install Tonnage in it
	@tools/setup.sh

check-port:
	@tools/check-port.sh $(CONF)

run: check-port install  ## Start Tonnage on this machine: scheduler, agent and REST API in one process
	@echo "==> Bringing the database up to date"
	@$(BIN)/tonnage-manage --config-file $(CONF) db sync
	@echo "==> Starting Tonnage"
	@exec $(BIN)/tonnage-standalone --config-file $(CONF)

test:  ## Run lint, then all tests except the heavy ones
	@tools/install-servers.sh & trap 'wait $$!' EXIT; tools/setup.sh test lint
	@# pytest compiles the tests meanwhile: otherwise each of its workers would compile all of them.
	@$(BIN)/pytest --collect-only --quiet >/dev/null 2>&1 & trap 'wait $$! || true' EXIT; $(MAKE) lint
	@echo "==> Running the tests"
	@exec $(BIN)/pytest $(WORKERS) $(OTHER_SUITES) -m "not heavy" $(ARGS)

test-heavy:  ## Run the tests that need minutes or much memory
	@tools/setup.sh test
	@tools/install-servers.sh
	@echo "==> Running the heavy tests"
	@$(BIN)/pytest -m heavy --timeout=3600 $(ARGS)
	@echo "==> Trying more examples of the properties"
	@exec $(BIN)/pytest tests/unit $(WORKERS) -m "hypothesis and not heavy" --hypothesis-profile=thorough --timeout=3600 $(ARGS)

# The compiler of the messages of CSI cannot be installed beside the least version of grpcio, and etc/*.sample have the
# options of the newest libraries.
LEAST_WITHOUT := --ignore=tests/unit/drivers/csi/test_csi_pb2.py \
	--deselect=tests/unit/test_sample_config.py::test_the_sample_configuration_shows_the_options_of_the_code \
	--deselect=tests/unit/cli/test_option_names.py::test_the_file_of_names_has_no_obsolete_names

test-least:  ## Run the unit tests with the least versions of all libraries, in an environment of their own (minutes)
	@tools/install-servers.sh
	@tools/install-least.sh
	@echo "==> Running the unit tests with the least versions"
	@exec .least/bin/pytest tests/unit $(WORKERS) -m "not heavy" --timeout=900 $(LEAST_WITHOUT) $(ARGS)

test-kubernetes:  ## Build kube-apiserver and kube-scheduler (slow), then run the tests with them
	@tools/setup.sh test
	@tools/install-kubernetes.sh
	@echo "==> Running the tests with Kubernetes"
	@exec $(BIN)/pytest tests/kubernetes -m kubernetes --timeout=1200 $(ARGS)

test-clusters:  ## Install Galera, HAProxy and etcd, then run the tests on clusters of servers (minutes, root)
	@tools/setup.sh test
	@tools/install-servers.sh
	@tools/install-clusters.sh
	@echo "==> Running the tests on clusters of servers"
	@exec $(BIN)/pytest tests/clusters -m clusters --timeout=1800 $(ARGS)

test-tempest:  ## Install Tempest, then run its tests of the Block Storage API with a real Keystone (minutes)
	@tools/setup.sh test
	@tools/install-openstack.sh
	@tools/install-tempest.sh
	@echo "==> Running the tests of Tempest"
	@exec $(BIN)/pytest tests/tempest -m tempest --timeout=1800 $(ARGS)

test-cinder:  ## Install Cinder, then run the tests beside, and in place of, its scheduler (minutes)
	@tools/setup.sh test
	@tools/install-servers.sh mmdebstrap
	@tools/install-openstack.sh
	@tools/install-openstack.sh cinder $(CINDER)
	@tools/install-tempest.sh
	@echo "==> Running the tests with Cinder"
	@exec $(BIN)/pytest tests/cinder -m cinder --timeout=1800 $(ARGS)

lint:  ## Check style, types and the imports between rooms
	@tools/setup.sh test lint
	@echo "==> Checking style (ruff)"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check --diff .
	@echo "==> Checking types (mypy)"
	@$(BIN)/mypy
	@echo "==> Checking the imports between rooms (import-linter)"
	@said=$$($(BIN)/lint-imports) || { echo "$$said"; exit 1; }; tail -n 1 <<<"$$said"

format:  ## Format the code and sort its imports
	@tools/setup.sh lint
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

coverage:  ## Run the tests and list the lines without coverage
	@tools/setup.sh test
	@tools/install-servers.sh
	@$(BIN)/pytest $(WORKERS) -m "not heavy" --cov --cov-report=term $(ARGS)

docs:  ## Build the documentation into docs/_build/html
	@tools/setup.sh docs
	@echo "==> Building the documentation"
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "==> docs/_build/html/index.html"

sample-config:  ## Generate etc/*.sample and cli/option_names.txt from the options and rules
	@tools/setup.sh
	@tools/sample-config.sh

board:  ## Write etc/grafana/tonnage.json, the board for Grafana, from tools/grafana_board.py
	@tools/setup.sh board
	@said=$$($(BIN)/python tools/grafana_board.py) && cat <<<"$$said" >etc/grafana/tonnage.json

clean:  ## Remove the files of the other targets, except ./var with its volumes
	rm -rf .venv .tox .lvm-guest .openstack .watcher .cinder .cinder-* .least .tempest .kubernetes build dist docs/_build *.egg-info .coverage .coverage.* htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -not -path './var/*' -exec rm -rf {} +
