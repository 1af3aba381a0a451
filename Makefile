# Two commands do everything: `make demo` and `make test`. Both set up .venv when it is not there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors only: pip's warnings are about the user's settings, and not about what is set up.
PIP := $(BIN)/pip install -qq --disable-pip-version-check --no-compile --constraint constraints.txt
# Modules are compiled apart from pip, which does it one after another. What few import is compiled
# when somebody does; and some packages bring templates, which are no modules.
RARE := /(tests?|testing|diffusers|mypyc?|networkx|pip|pygments|ray|setuptools)/|/models/|/graph_objs/
COMPILE := $(BIN)/python -m compileall -qq -x '$(RARE)' $(VENV)/lib
READY := $(VENV)/.ready
# What tests deploy most, of an arithmetic of its own where it says so; it is kept with what else is
# in the cache of Moot.
CONTRACTS := transcendental leaf legality referee availability delivery challenges service \
  exact/leaf exact/legality exact/referee
FILES := moot/*.py moot/command bench contracts offchain sim tests docs examples

# Tests start many processes: what these import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint style types quick docs clean

demo: $(READY)
	@$(BIN)/moot demo

# Types are checked on one core, and need it for half a minute: side by side with the tests.
test: $(READY) style
	@$(MAKE) --no-print-directory --jobs 2 types quick

# Assertions are as Python has them, since each worker would rewrite them for twelve seconds; what
# fails runs once more with pytest's, which say what the values were.
quick: $(READY)
	@$(BIN)/pytest -m "not slow" -n 2 --dist loadfile --assert=plain \
	  || { [ $$? != 1 ] || $(BIN)/pytest --last-failed --maxfail 4; false; }

test-all: $(READY) lint
	@$(BIN)/pytest -n 2 --dist loadfile

lint: style types

style: $(READY)
	@$(BIN)/ruff check --quiet $(FILES)
	@$(BIN)/ruff format --quiet --check $(FILES)

types: $(READY)
	@$(BIN)/mypy --no-error-summary

# A pip of this year needs half the time of the one that Python brings. torch first and pinned: an
# unpinned torch would bring gigabytes of CUDA with it. What there is then is compiled while the
# others are fetched.
$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV), 2 GB of it (once, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) pip
	@$(PIP) torch vyper
	@{ $(BIN)/python -m moot.contracts.compiler $(CONTRACTS); $(COMPILE); } & $(PIP) --editable ".[examples,test]" && wait
	@$(COMPILE) -j 0 || true
	@touch $@

# The pages as a site, in docs/_build; whatever Sphinx warns of is an error, links among pages too.
docs: $(READY)
	@$(BIN)/python -c "import furo, myst_parser" 2> /dev/null || $(PIP) --editable ".[docs]"
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build

clean:
	@rm -rf $(VENV) build docs/_build *.egg-info
