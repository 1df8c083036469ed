PYTHON ?= python3
VENV ?= .venv
DEMO ?= build/demo
JOBS ?= 2
BIN := $(VENV)/bin
CONVT := $(BIN)/convt-onnx
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint typecheck pytest long clean

# Sets up what it needs, then rewrites a segmentation decoder twice and compares the results.
demo: $(VENV)/.cpu
	mkdir -p $(DEMO)
	$(CONVT) inspect models/fcn8s_tiny.onnx
	$(CONVT) optimize models/fcn8s_tiny.onnx -o $(DEMO)/fcn8s_cpu.onnx --force
	$(CONVT) optimize models/fcn8s_tiny.onnx -o $(DEMO)/fcn8s_portable.onnx --target portable --force
	$(CONVT) optimize models/hifigan_tiny.onnx -o $(DEMO)/hifigan_portable.onnx --target portable --force
	$(CONVT) verify models/fcn8s_tiny.onnx $(DEMO)/fcn8s_portable.onnx

# Sets up everything the tests need, then lint, types and tests.
test: lint typecheck pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The type checker sees passes/, plugins/ and models/ where they are imported from.
typecheck: $(VENV)/.test
	rm -rf .typecheck && mkdir .typecheck && cp -rs "$(CURDIR)/convt_onnx" .typecheck/
	ln -s "$(CURDIR)/passes" "$(CURDIR)/plugins" "$(CURDIR)/models" .typecheck/convt_onnx/
	$(BIN)/mypy

pytest: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

# The sweeps that are too long for every change.
long: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -q -m long

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cpu: $(BIN)/python pyproject.toml
	$(PIP) -e '.[cpu]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --constraint constraints.txt -e '.[test]'
	touch $@ $(VENV)/.cpu

clean:
	rm -rf $(VENV) build dist .typecheck
