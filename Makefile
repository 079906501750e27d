# Everything happens in a virtual environment that is made once, and again when the dependencies change.
PYTHON ?= python3
# Another release of torch than the pinned one, in an environment of its own: make test TORCH=2.14.1
TORCH ?=
VENV ?= .venv$(TORCH:%=-torch-%)
PIP_ARGS ?=
ARGS ?=
# Damaged files for each reader.
FUZZ_RUNS ?= 10000
# Processes that run the tests.
WORKERS ?= 2
# Slow tests wait for a quarter of their time: for processes that start, sleep and end.
SLOW_WORKERS ?= 3

# Hundreds of processes import perfkit in the tests: compiled once, even where the environment asks for it anew.
export PYTHONDONTWRITEBYTECODE =

CONSTRAINTS = $(if $(TORCH),$(VENV).constraints.txt,constraints.txt)
BIN = $(VENV)/bin
READY = $(VENV)/.ready
DEV = $(VENV)/.ready-dev
# Without torch, which is most of what an installation takes, and without other extras.
LIGHT_VENV ?= .venv-light
LIGHT = $(LIGHT_VENV)/.ready

.PHONY: help setup dev demo bench texts test test-light test-slow test-nightly test-examples test-all test-clusters fuzz fuzz-traces fuzz-memory fuzz-flight soak check lint types imports regressions docs-reference
.DEFAULT_GOAL := help

help:
	@echo 'make demo    set up without torch, then say where the time of a trace went that was recorded on an H100'
	@echo 'make bench   set up, then compare two techniques on a small GPT: perfkit bench --technique amp,ckpt'
	@echo 'make setup   set up only: perfkit, torch, and what draws PNG and SVG'
	@echo 'make dev     the same with everything that developing it needs, which the following do by themselves:'
	@echo 'make test    the tests that take no process of their own, in minutes'
	@echo 'make test-light  the tests of what needs no torch, in an environment without it'
	@echo 'make test-slow  the others: trainings, the command line, browsers, torch.compile; make test-nightly: the longest; make test-examples: quick ones with ten times the examples; make test-all: all'
	@echo 'make test-clusters  what takes a cluster of two nodes, which is started here: Ray, Slurm'
	@echo 'make check   the linters and the type checker'
	@echo 'make texts   write all texts that people see anew, into tests/texts: read their diff before you commit'
	@echo 'make fuzz    feed the readers of traces, memory and flight recorders with damaged bytes for a minute'
	@echo 'make soak    ranks that fail, fifty times in a row'
	@echo 'make regressions  hold a step of the built-in workloads against perfkit-baseline.json'
	@echo 'make docs-reference  write the pages of docs/ that are made of the code: commands, facts, JSON schemas, findings, techniques'
	@echo 'TORCH=2.14.1 takes that release of torch, in an environment of its own;'
	@echo 'PYTHON=... names another interpreter, PIP_ARGS=... is given to pip, ARGS=... to perfkit or pytest;'
	@echo 'WORKERS=... is how many processes run quick tests (2), SLOW_WORKERS=... the others (3);'
	@echo 'FUZZ_RUNS=... is how many damaged files each reader is fed (10000).'

setup: $(READY)

dev: $(DEV)

demo: $(LIGHT)
	$(LIGHT_VENV)/bin/perfkit analyze examples/h100_qwen1.5_forward.json.gz $(ARGS)

bench: $(READY)
	$(BIN)/perfkit bench --technique amp,ckpt $(ARGS)

# A thread for each: what is tested is small, and the workers share the cores. tests/tiers.py deals them.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist loadscope --no-loadscope-reorder

test: $(DEV)
	$(PYTEST) -n $(WORKERS) -m 'not slow' $(ARGS)

# What reads recordings, and what drives the commands in processes that cannot import torch.
LIGHT_TESTS = $(addprefix tests/unit/,analysis flight store check/test_stored_comparison.py) \
	tests/integration/test_without_torch.py

test-light: $(LIGHT)
	$(INSTALL) filelock hypothesis pytest pytest-timeout pytest-xdist
	@rm -rf perfkit.egg-info  # as below
	OMP_NUM_THREADS=1 $(LIGHT_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder \
		-m 'not slow or cold' $(LIGHT_TESTS) $(ARGS)

test-slow: $(DEV)
	$(PYTEST) -n $(SLOW_WORKERS) -m 'slow and not nightly' $(ARGS)

# Those of the slow tests that a change does not wait for.
test-nightly: $(DEV)
	$(PYTEST) -n $(SLOW_WORKERS) -m nightly $(ARGS)

# Quick tests that draw examples: ten times as many.
test-examples: $(DEV)
	$(PYTEST) -n $(WORKERS) -m 'hypothesis and not slow' --hypothesis-profile=many $(ARGS)

test-all: $(DEV)
	$(PYTEST) -n $(SLOW_WORKERS) $(ARGS)

# The Ray part takes minutes and is not in CI; the Slurm part is.
test-clusters: $(DEV)
	$(PYTEST) tests/clusters tests/integration/test_slurm.py $(ARGS)

texts: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.texts.write_texts

fuzz: fuzz-traces fuzz-memory fuzz-flight

fuzz-traces: $(DEV)
	PYTHONPATH=. $(BIN)/python tests/fuzz/fuzz_reader.py -runs=$(FUZZ_RUNS) -max_len=65536 -verbosity=0 -print_final_stats=1 $(ARGS)

fuzz-memory: $(DEV)
	$(BIN)/python tests/fuzz/fuzz_memory.py -runs=$(FUZZ_RUNS) -max_len=8192 -verbosity=0 -print_final_stats=1 $(ARGS)

fuzz-flight: $(DEV)
	$(BIN)/python tests/fuzz/fuzz_flight.py -runs=$(FUZZ_RUNS) -max_len=8192 -verbosity=0 -print_final_stats=1 $(ARGS)

# What ranks that fail leave, again and again: PERFKIT_SOAK is how often.
soak: $(DEV)
	PERFKIT_SOAK=$${PERFKIT_SOAK:-50} $(PYTEST) -n $(SLOW_WORKERS) --dist load tests/integration/test_rank_failures.py $(ARGS)

# One instruction set wherever it runs: with AVX512 oneDNN takes other algorithms, which need other workspaces.
regressions: $(READY)
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/perfkit check --exact $(ARGS)

docs-reference: $(READY)
	$(BIN)/python -m perfkit_cli.reference docs

# With -j2 side by side.
check: lint types imports

lint: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(DEV)
	$(BIN)/mypy

imports: $(DEV)
	$(BIN)/lint-imports

# By uv, which takes a tenth of pip's time, where `make dev` has installed that; but torch from where pip is told to look.
$(LIGHT) test-light: INSTALL = $$([ -x $(BIN)/uv ] && echo $(BIN)/uv pip install --python $(LIGHT_VENV) || \
	echo $(LIGHT_VENV)/bin/python -m pip install) --quiet -c $(CONSTRAINTS) $(PIP_ARGS)
$(READY): INSTALL = $(VENV)/bin/python -m pip install --quiet -c $(CONSTRAINTS) $(PIP_ARGS)
$(READY): EXTRAS = [torch,images]
$(VENV).constraints.txt: constraints.txt
	grep -v '^\(torch\|torchvision\)==' constraints.txt > $@
	echo 'torch==$(TORCH)' >> $@

$(READY) $(LIGHT): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("perfkit needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": name another one with make PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(@D)
	$(INSTALL) -e '.$(EXTRAS)'
	@touch $@

# Transformers and PEFT import torchao where it is installed, which fails with a torch before 2.10: without it they run.
# 150 packages, which pip takes minutes for. What setuptools leaves in the checkout says that all of perfkit is a plugin of
# pytest's, which would compile it a second time, for its assertions.
$(DEV): $(READY)
	$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) uv
	$(BIN)/uv pip install --quiet --python $(VENV) -c $(CONSTRAINTS) $(PIP_ARGS) -e '.[dev]'
	@$(BIN)/python -W ignore -c 'import torchao' >/dev/null 2>&1 || $(BIN)/uv pip uninstall --quiet --python $(VENV) torchao
	@rm -rf perfkit.egg-info
	@touch $@
