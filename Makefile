# Two commands do everything: `make demo` and `make test`. Both set up .venv when it is not there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors only: pip's warnings are about the user's settings, and not about what is set up.
PIP := $(BIN)/pip install -qq --disable-pip-version-check
READY := $(VENV)/.ready
FILES := bench contracts offchain sim tests docs examples

.PHONY: demo test test-all lint clean

demo: $(READY)
	@$(BIN)/moot demo

test: $(READY) lint
	@$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

test-all: $(READY) lint
	@$(BIN)/pytest -n 2 --dist loadfile

lint: $(READY)
	@$(BIN)/ruff check --quiet $(FILES)
	@$(BIN)/ruff format --quiet --check $(FILES)
	@$(BIN)/mypy --no-error-summary

# torch first and pinned: an unpinned torch would bring gigabytes of CUDA with it.
$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV), 2 GB of it (once, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --constraint constraints.txt torch
	@$(PIP) --constraint constraints.txt --editable ".[examples,test]"
	@touch $@

clean:
	@rm -rf $(VENV) build *.egg-info
