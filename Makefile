# One Trip, Many Tokens. `make help` lists what there is.
SHELL := /bin/sh
VENV  := .venv
BIN   := $(VENV)/bin
PAGES := index.md _config.yml _toc.yml references.bib CITATION.cff $(wildcard chapters/*.md)
CODE  := $(wildcard lib/*.py lib/data/* lib/static/* lib/templates/* measurements/*.json measurements/*/*.json) scripts/build_book.py scripts/execute_chapters.py
LOCK  := requirements.txt constraints.txt pyproject.toml

.PHONY: help book test measure serve bench lab clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' Makefile | awk -F ':.*## ' '{printf "make %-7s %s\n", $$1, $$2}'

book: _build/book.stamp ## Set up what is needed and build the book into _build/html
	@echo "The book is in _build/html/index.html"

test: _build/book.stamp $(VENV)/test.stamp ## Set up what is needed, build the book, run every test
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not alone"
	$(BIN)/python -m pytest -m alone

measure: $(VENV)/book.stamp ## Measure the decode step on this machine (3 minutes; DTYPE=bf16 for 16 bit)
	$(BIN)/python -m lib.measurement $(if $(DTYPE),--dtype $(DTYPE)) $(if $(RECORD),--output $(RECORD)) $(OPTIONS)

serve: $(VENV)/book.stamp ## Serve one workload static and continuous on this machine (15 minutes)
	$(BIN)/python -m lib.serving_run $(if $(RECORD),--output $(RECORD)) $(OPTIONS)

bench: $(VENV)/test.stamp ## Time the simulator beside SimPy and Ciw, and check its limits (1 minute)
	$(BIN)/python -m benchmarks $(OPTIONS)

lab: $(VENV)/lab.stamp ## Open JupyterLab; each chapter opens as a notebook
	$(BIN)/jupyter lab

clean: ## Remove the built book, the caches and the environment
	rm -rf _build $(VENV) .pytest_cache .ruff_cache .hypothesis

_build/book.stamp: $(VENV)/book.stamp $(PAGES) $(CODE)
	@$(BIN)/python scripts/build_book.py
	@touch $@

$(VENV)/book.stamp: $(LOCK) scripts/find_python.sh
	@python=$$(sh scripts/find_python.sh) && { test -x $(BIN)/python || "$$python" -m venv $(VENV); }
	@echo "Installing what the book needs (some minutes the first time)"
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -r requirements.txt
	@touch $@

$(VENV)/test.stamp: $(VENV)/book.stamp
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@

$(VENV)/lab.stamp: $(VENV)/book.stamp scripts/lab_settings.json
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[lab]"
	mkdir -p $(VENV)/share/jupyter/lab/settings
	cp scripts/lab_settings.json $(VENV)/share/jupyter/lab/settings/overrides.json
	@touch $@
