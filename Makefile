# make demo | test   install everything and run it;   make help   lists all targets
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := bench/out/peers
# Ray, and what of its needs no other package brings; grpcio is for ray://HOST:PORT
RAY    := ray grpcio jsonschema jsonschema-specifications msgpack protobuf referencing rpds-py attrs
# a client of S3 and a server to test it with, 120 MB, without what the environment has
S3     := s3fs aiobotocore aiohttp aiohappyeyeballs aioitertools aiosignal attrs botocore frozenlist jmespath multidict propcache yarl \
          moto blinker boto3 cffi cryptography flask flask-cors pycparser responses s3transfer werkzeug xmltodict
GOLDEN_BASE ?= HEAD^
MEMORY := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
# cpu: PyTorch without CUDA, about 4 GB less (uv knows where those wheels are); cu126 and the like: another CUDA
TORCH  ?=

.PHONY: help setup system peers demo test check docs prove bench train-tiny clean

help:           ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(READY) system  ## create the virtual environment and install system packages

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
ifeq ($(TORCH),)
	@echo "installing into $(VENV): about 6 GB, a few minutes (about 4 GB less without CUDA: make $(MAKECMDGOALS) TORCH=cpu)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
else
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --python $(BIN)/python --torch-backend $(TORCH) --constraint constraints.txt --editable '.[dev,docs]'
endif
	@echo "downloading ctxr-lite, 101 MB: an encoder for machines without a model hub"
	@$(BIN)/python -c 'from ctxr.models.lite import lite_parts; lite_parts()' 2>/dev/null \
	|| echo "it cannot be downloaded here: build-sets falls back to a smaller one"
	@touch $@

system:         ## install tesseract, ffmpeg, chromium and postgresql if they are missing and permissions allow
	@sh scripts/system-packages

# beside the environment, not in it: the demo and `ctxr` run as they do without these extras
peers: setup
	@for peer in faiss-cpu tesserocr ray s3; do \
	  test -e $(PEERS)/.$$peer && continue; \
	  case $$peer in ray) wheels="$(RAY)";; s3) wheels="$(S3)";; *) wheels=$$peer;; esac; \
	  $(BIN)/python -m pip install --quiet --no-deps --only-binary :all: --constraint constraints.txt --target $(PEERS) $$wheels \
	  && touch $(PEERS)/.$$peer || echo "$$peer cannot be installed here: what uses it is not tested or timed"; \
	done

demo: setup     ## draw a small world, run the whole chain on it and compare the results with the truth
	$(BIN)/ctxr demo

# interpreters that tests start share what one has compiled, even where the environment forbids to keep it; files that tests write, a
# gigabyte of mostly small ones, lie in memory where there is room
test: peers     ## run the tests, without the long proofs
	PYTHONDONTWRITEBYTECODE= PYTHONPATH=$(CURDIR)/$(PEERS) PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(BIN)/python -m pytest -m "not prove" \
	  -n logical --maxprocesses 4 --dist loadscope --no-loadscope-reorder -o tmp_path_retention_count=1

check: setup    ## lint, check format, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: setup     ## build the documentation into docs/_build/html, which is read without a network
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto -d docs/_build/doctrees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

prove: peers    ## run the long proofs: kills, fuzzing, byte equality with GOLDEN_BASE (a commit; default the one before)
	PYTHONPATH=$(CURDIR)/$(PEERS) $(BIN)/python -m pytest -m prove
	$(BIN)/python -m scripts.golden $(GOLDEN_BASE)

bench: peers    ## run the benchmarks against lower bounds and peers
	PYTHONPATH=$(CURDIR)/$(PEERS) $(BIN)/python -m bench

train-tiny: setup  ## retrain the bundled encoder
	$(BIN)/python scripts/train_tiny.py

clean:          ## remove the output of demo, docs and bench
	rm -rf demo docs/_build bench/out
