# What a person does with this repository. `make` alone prints this list.
PYTHON ?= python3
RUN := .venv/bin/
# Trust what the machine trusts (a company's proxy, say), where it says what that is.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

help:                ## print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: .venv/ready    ## generate two streams, join them on a two-dimensional band, show the result
	@$(RUN)python -m eddyline.cli.demo

test: lint           ## lint, then every test that takes seconds
	$(RUN)pytest -q -n 2 -m "not slow"

test-all: lint       ## lint, then every test
	$(RUN)pytest -q -n 2

lint: .venv/ready    ## style, format and types
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy

formal: .venv/ready  ## prove the stream blocks and a small chain
	$(RUN)pytest -q -n 2 tests/formal

mutants: .venv/ready ## show that every bench notices a broken design
	$(RUN)pytest -q -n 2 tests/sim/test_mutants.py

synth: .venv/ready   ## place the operators on an ECP5: clock, size, critical path
	$(RUN)python -m eddyline_sim.synthesis handshake-lockstep-4 handshake-asynchronous-4 \
	  splitjoin-lutram-4 splitjoin-lutram-8 splitjoin-bram-4 splitjoin-bram-8

waves: .venv/ready   ## join a few rows on a simulated chain and write waves.fst
	$(RUN)python -m eddyline.cli.waves

bench: .venv/ready   ## measure, as ratios against a peer in the same run
	$(RUN)python -m bench

dist: .venv/ready    ## build the wheel into dist/
	$(RUN)uv build --quiet --wheel --out-dir dist

clean:               ## remove what make has made
	rm -rf .venv build dist demo waves.fst .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv is pinned by the lock like everything else; pip only brings the first copy of it. Bytecode is
# made here: where Python is told not to write any, every start of a process would take seconds.
.venv/ready: uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eddyline needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	@echo "installing the locked packages into .venv (about 1.5 GB the first time)"
	@test -x .venv/bin/uv || { $(PYTHON) -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check uv; }
	@.venv/bin/uv sync --quiet --frozen --all-extras --compile-bytecode --python .venv/bin/python
	@touch $@

.PHONY: help demo test test-all lint formal mutants synth waves bench dist clean
