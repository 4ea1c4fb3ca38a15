# Shortcuts for what CONTRIBUTING.md describes; on Windows, give its commands by themselves.
PYTHON ?= python

.PHONY: quick quick-tests check test all format

quick:  ## about two minutes on two cores: style, types, and the tests that start no processes and load no model
	$(MAKE) -j 2 check quick-tests

quick-tests:
	$(PYTHON) -m pytest --quick

check:
	$(PYTHON) -m ruff check StaICC tests examples docs/hooks
	$(PYTHON) -m ruff format --check StaICC tests examples docs/hooks
	$(PYTHON) -m mypy

test:  ## the README's test command
	$(PYTHON) -m pytest

all:  ## slow tests, too
	$(PYTHON) -m pytest -m ""

format:
	$(PYTHON) -m ruff check --fix StaICC tests examples docs/hooks
	$(PYTHON) -m ruff format StaICC tests examples docs/hooks
