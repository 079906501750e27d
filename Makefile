# Everything happens in a virtual environment that is made once, and again when the dependencies change.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
ARGS ?=
# Processes that run the tests, a file each at a time: a test that trains uses all cores by itself.
WORKERS ?= 2

BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: help setup bench test fuzz check regressions
.DEFAULT_GOAL := help

help:
	@echo 'make bench   set up, then compare two techniques on a small GPT: perfkit bench --technique amp,ckpt'
	@echo 'make test    set up, then run the tests'
	@echo 'make fuzz    set up, then feed the readers of traces and of memory with damaged bytes for a minute'
	@echo 'make check   set up, then run the linters and the type checker'
	@echo 'make regressions  set up, then hold a step of the built-in workloads against perfkit-baseline.json'
	@echo 'make setup   set up only'
	@echo 'PYTHON=... names another interpreter, PIP_ARGS=... is given to pip, ARGS=... to perfkit bench or pytest;'
	@echo 'WORKERS=... is how many processes run tests (2).'

setup: $(READY)

bench: $(READY)
	$(BIN)/perfkit bench --technique amp,ckpt $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

fuzz: $(READY)
	$(BIN)/python tests/fuzz/fuzz_reader.py -runs=10000 -max_len=65536 -print_final_stats=1 $(ARGS)
	$(BIN)/python tests/fuzz/fuzz_memory.py -runs=10000 -max_len=8192 -print_final_stats=1 $(ARGS)

regressions: $(READY)
	$(BIN)/perfkit check --exact $(ARGS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("perfkit needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": name another one with make PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt $(PIP_ARGS) -e '.[dev,hf]'
	@touch $@
