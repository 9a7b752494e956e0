# Two commands on a fresh machine: make demo, make test. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
CHECK = @$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; say which with make PYTHON=python3.12")'
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-gpu test-install dist lint docs bench bench-data bench-engine bench-estimators bench-remedy clean

demo: .venv/installed
	@$(BIN)/cu demo

test: lint
	@$(BIN)/python -m pytest -n auto

test-gpu: .venv/installed-dev
	@$(BIN)/python -m pytest -m gpu

test-install dist:
	$(CHECK)
	@$(PYTHON) tools/install.py $@

lint: .venv/installed-dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/installed-dev
	@$(BIN)/python docs/tables.py

bench: .venv/installed-dev
	@$(BIN)/python benchmarks/lanes.py

bench-data: .venv/installed-dev
	@$(PIP) --editable '.[bench]'
	@$(BIN)/python benchmarks/data.py $(DATA)

bench-engine: .venv/installed-dev
	@$(BIN)/python benchmarks/engine.py $(DATA)

bench-estimators: .venv/installed-dev
	@$(BIN)/python benchmarks/estimators.py

bench-remedy: .venv/installed-dev
	@$(BIN)/python benchmarks/remedy.py

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing class-uncertainty into .venv (once, a minute or two)"
	@$(PIP) --editable .
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing class-uncertainty and its test tools into .venv (once, a minute or two)"
	@$(PIP) --editable '.[dev]'
	@touch .venv/installed $@

.venv/bin/python:
	$(CHECK)
	@$(PYTHON) -m venv .venv

clean:
	rm -rf .venv
