# make demo   train on digits with 40 % wrong labels, print accuracies, draw a picture, audit the labels; all in demo/
# make test   format check, lint, types, tests, and a smoke test of the built wheel
# make fuzz   an hour of the fuzzers, of which make test runs a minute
# All make .venv when there is none and are quick to start the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEEL_VENV := .venv-wheel
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
CHECKED := src tests examples benchmarks docs .ci

.PHONY: demo test lint types unit smoke fuzz bench format clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: lint types unit smoke

lint: $(VENV)/.dev
	$(BIN)/ruff format --check $(wildcard $(CHECKED))
	$(BIN)/ruff check $(wildcard $(CHECKED))

types: $(VENV)/.dev
	$(BIN)/mypy

# One thread for each worker: the workers share the cores already.
unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8

# The wheel, installed into an environment of its own and used from there.
smoke: $(VENV)/.dev $(WHEEL_VENV)/.dependencies
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation > /dev/null
	$(WHEEL_VENV)/bin/python $(PIP_INSTALL) --force-reinstall --no-deps dist/*.whl
	$(WHEEL_VENV)/bin/python -I .ci/smoke.py

# Four fuzzers: command lines, data files, tampered folders, the Python API. ANTIDOTE_FUZZ_SEED=1 makes other cases.
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 ANTIDOTE_FUZZ_SECONDS=900 $(BIN)/python -m pytest tests/fuzz -s

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/solver.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix $(wildcard $(CHECKED))
	$(BIN)/ruff format $(wildcard $(CHECKED))

clean:
	rm -rf $(VENV) $(WHEEL_VENV) dist demo .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +

# Environments. A stamp file says that the installation went through with the present requirements.
$(VENV)/.demo: $(REQUIREMENTS)
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --editable .
	touch $@

$(VENV)/.dev: $(REQUIREMENTS)
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/.demo

$(WHEEL_VENV)/.dependencies: $(REQUIREMENTS) $(VENV)/.dev
	rm -rf $(WHEEL_VENV) dist
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(BIN)/python -m build --wheel --no-isolation > /dev/null
	$(WHEEL_VENV)/bin/python $(PIP_INSTALL) dist/*.whl
	touch $@
