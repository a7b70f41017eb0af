# make demo   train on digits with 40 % wrong labels, print accuracies, draw a picture, audit the labels; all in demo/
# make test   format check, lint, types, tests, and a smoke test of the built wheel
# make fuzz   an hour of the fuzzers, of which make test runs a minute
# make test-lowest   the tests of the package itself, with the lowest versions that pyproject.toml allows
# All make .venv (the last .venv-lowest) when there is none and are quick to start the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEEL_VENV := .venv-wheel
LOWEST_VENV := .venv-lowest
PIP := -m pip install --quiet --disable-pip-version-check
PIP_INSTALL := $(PIP) --constraint constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
CHECKED := src tests examples benchmarks docs .ci
# Left out: the encoders, which are extras, and whole compiled steps, over which torch 2.6 takes many minutes.
LOWEST_TESTS := tests/core tests/nn tests/methods tests/data tests/training tests/test_cli.py \
	--ignore tests/data/test_pictures.py --ignore tests/data/test_sentences.py --ignore tests/nn/test_compile.py

.PHONY: demo test test-lowest lint types unit smoke fuzz bench format clean
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

# The lowest torch brings gigabytes of libraries for GPUs: this is not a part of make test.
test-lowest: $(LOWEST_VENV)/.test
	OMP_NUM_THREADS=1 $(LOWEST_VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 $(LOWEST_TESTS)

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
	rm -rf $(VENV) $(WHEEL_VENV) $(LOWEST_VENV) dist demo .hypothesis .mypy_cache .pytest_cache .ruff_cache
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

$(LOWEST_VENV)/.test: pyproject.toml .ci/floors.py
	rm -rf $(LOWEST_VENV)
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python .ci/floors.py > $(LOWEST_VENV)/floors.txt
	$(LOWEST_VENV)/bin/python $(PIP) --constraint $(LOWEST_VENV)/floors.txt --editable '.[test]'
	touch $@
