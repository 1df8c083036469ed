# 3.11 or later; `make demo PYTHON=python3.12` where python3 is older.
PYTHON ?= python3
VENV ?= .venv
DEMO ?= build/demo
JOBS ?= 2
BIN := $(VENV)/bin
CONVT := $(BIN)/convt-onnx
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

TOO_OLD := "error: $(PYTHON) is Python %d.%d, and 3.11 or later is needed\n\
help:  make $(MAKECMDGOALS) PYTHON=python3.12" % sys.version_info[:2]
# "old" below 3.11; nothing where it does not run.
version = $(shell $(1) -c 'import sys; v = sys.version_info; \
	print("%d.%d" % v[:2] if v >= (3, 11) else "old")' 2>/dev/null)
# The environment is made anew where it is old, or of another version than a PYTHON asked for.
HAS := $(if $(wildcard $(BIN)/python),$(call version,$(BIN)/python))
ASKED := $(filter command environment,$(origin PYTHON))
WANTED := $(or $(filter-out old,$(if $(ASKED),$(call version,$(PYTHON)),$(HAS))),any)
ifneq ($(HAS),$(WANTED))
.PHONY: $(BIN)/python
endif

.PHONY: demo test lint typecheck pytest long clean

# Sets up what it needs, then inspects, rewrites and verifies a segmentation decoder and a vocoder.
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
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit($(TOO_OLD))'
	$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.cpu: $(BIN)/python pyproject.toml
	$(PIP) -e '.[cpu]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --constraint constraints.txt -e '.[test]'
	touch $@ $(VENV)/.cpu

clean:
	rm -rf $(VENV) build dist .typecheck
