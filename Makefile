# `make` alone lists what can be made. Everything is installed into .venv/ in this folder; nothing outside is touched.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup run test check bench soak screenshots image lock clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-options \
	--strip-extras --allow-unsafe

help: ## list what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -e 's/:.*## /:/' | while IFS=: read -r name text; do \
		printf '  make %-11s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## create or refresh .venv/ from the pinned requirements

# Only when a list has changed; `pip` verifies every package against its hash.
$(STAMP): requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Hermes needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11'; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || \
		{ echo 'A virtual environment cannot be made; on Debian: apt-get install python3-venv'; exit 1; }
	@echo 'Installing the pinned requirements into $(VENV)/, which takes a minute ...'
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

run: setup ## start Hermes on this machine; ARGS="--port 9000" for its options
	@exec $(BIN)/python -m hermes serve $(ARGS)

test: setup ## run every test; ARGS="-k sse" for pytest's options
	$(BIN)/python -m pytest $(ARGS)

check: setup ## format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## run the benchmarks, one after another, but for the soak
	@for file in benchmarks/*.py; do \
		[ "$$file" != benchmarks/soak.py ] || continue; \
		echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

soak: setup ## mixed traffic with faults until something grows, or ten minutes; ARGS="--minutes 1440"
	@$(BIN)/python benchmarks/soak.py $(ARGS)

screenshots: setup ## pictures of every page of the dashboard, in build/screenshots/
	@$(BIN)/python scripts/screenshots.py $(ARGS)

image: setup ## the steps of deploy/Dockerfile on this machine, without a container engine
	@$(BIN)/python scripts/image.py

lock: setup ## compile the requirements anew; ARGS=--upgrade for newer versions
	$(COMPILE) --output-file=requirements.txt $(ARGS) requirements.in
	$(COMPILE) --output-file=requirements-dev.txt $(ARGS) requirements-dev.in

clean: ## remove .venv/ and all caches; data and configuration stay
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
