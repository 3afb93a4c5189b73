.DEFAULT_GOAL := help
PYTHON ?= python3
SUITE ?= quick
RUN := .venv/bin/python

.venv/ready: requirements.txt pyproject.toml
	@echo "Setting up .venv, once: packages of about 6 GB, PyTorch above all; minutes, by the connection."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python %d.%d is too old: make PYTHON=python3.12 $@, or another from 3.11" % sys.version_info[:2])'
	[ "$$($(RUN) -V 2>&1)" = "$$($(PYTHON) -V)" ] && $(PYTHON) -m venv .venv || $(PYTHON) -m venv --clear .venv
	@echo "Downloading and installing packages; pip shows how far it is."
	$(RUN) -m pip install --disable-pip-version-check --require-hashes -r requirements.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	mkdir -p .venv/typed && ln -sfn ../.. .venv/typed/smashbench
	touch $@

.PHONY: help bench test test-slow perf check format lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{printf "  %-12s%s\n", $$1, $$2}'

bench: .venv/ready  ## run a suite and report: make bench [SUITE=quick]
	.venv/bin/smashbench run $(SUITE)

test: .venv/ready  ## the tests, under three minutes
	$(RUN) -m pytest -n 2

test-slow: .venv/ready  ## the longer tests
	$(RUN) -m pytest -n 2 -m slow

perf: .venv/ready  ## measure what defenses and grid cost, minutes: results/perf.md
	OMP_NUM_THREADS=1 $(RUN) -m tests.perf

check: .venv/ready  ## lint, format and types, without changing anything
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: .venv/ready  ## lint and format, in place
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

lock: .venv/ready  ## renew requirements.txt from pyproject.toml
	$(RUN) -m pip install --quiet uv
	$(RUN) -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	    --python-version 3.11 --extra dev --upgrade --custom-compile-command "make lock" \
	    --output-file requirements.txt pyproject.toml

clean:  ## remove the environment and caches, not the results
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
