# make demo | test   set everything up and run it;   make help   lists the rest
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := bench/out/peers
GOLDEN_BASE ?= HEAD

.PHONY: help setup system demo test check prove bench train-tiny clean

help:           ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(READY) system  ## virtual environment and system packages

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV): about 6 GB, a few minutes"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

system:         ## tesseract, ffmpeg, chromium and postgresql, if they are missing and can be installed
	@sh scripts/system-packages

demo: setup     ## draw a small world, build and filter sets, show them next to the truth
	$(BIN)/ctxr demo

test: setup     ## the tests, without the long proofs
	$(BIN)/python -m pytest -m "not prove" -n logical --maxprocesses 4 --dist loadscope

check: setup    ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

prove: setup    ## the long proofs: many kills, fuzzing, the same bytes as GOLDEN_BASE writes (a commit; HEAD)
	$(BIN)/python -m pytest -m prove
	$(BIN)/python -m scripts.golden $(GOLDEN_BASE)

bench: setup    ## measure, side by side, against floors and peers
	@test -d $(PEERS) || $(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt --target $(PEERS) faiss-cpu tesserocr \
	  || echo "faiss-cpu and tesserocr cannot be installed: their rows will be missing"
	PYTHONPATH=$(PEERS) $(BIN)/python -m bench

train-tiny: setup  ## train the embedded encoder again
	$(BIN)/python scripts/train_tiny.py

clean:          ## remove what the demo and the bench wrote
	rm -rf demo bench/out
