"""The notebooks of `examples/`: their cells run, and show what the files keep."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.tools.notebooks import DRAWN, NOTEBOOKS, make_outputs, read_cells, run_cell, show

ROOT = Path(__file__).parents[2]
MANY, FEW = "jobs=2000", "jobs=40"
SHORT = ("dispute", "market")
"""Notebooks that take seconds."""

QUESTIONS = ("cartel", "dilemma", "learner", "price", "redundancy", "spike")
"""Notebooks that answer a designer's question, in minutes."""

SMALLER = (
    (r"(?m)^JOBS, REPS, CORES = .*$", "JOBS, REPS, CORES = 400, 2, 1"),
    (r"(?m)^JOBS, REPS = .*$", "JOBS, REPS = 100, 2"),
    (r"(?m)^JOBS, REPS, RATES = .*$", "JOBS, REPS, RATES = 400, 2, (0.01, 0.1)"),
    (
        r"(?m)^MEMBERS, PROVIDERS, RATES = .*$",
        "MEMBERS, PROVIDERS, RATES = (2, 10), 12, (0.0, 0.5)",
    ),
    (r"(?m)^PERIOD, SPIKE, CAPS = .*$", "PERIOD, SPIKE, CAPS = 100, 30, (2.0, 12.0)"),
    (r"(?m)^PROVIDERS, ATTACKERS = .*$", "PROVIDERS, ATTACKERS = 20, (2, 14)"),
    (r"(?m)^SIZE, RATES = .*$", 'SIZE, RATES = "tiny", (0.1,)'),
)
"""What is replaced in the cells of a question, so that it is answered in seconds."""


def list_notebooks(names: tuple[str, ...]) -> list[Path]:
    """Return some of the notebooks."""
    return [notebook for notebook in NOTEBOOKS if notebook.stem in names]


def make_smaller(code: str) -> str:
    """Return a cell of a question about fewer, smaller markets."""
    for line, other in SMALLER:
        code = re.sub(line, other, code)
    return code


def test_all_notebooks_are_tested() -> None:
    """One notebook is about a dispute, one about a market, and six are a designer's questions."""
    assert [notebook.stem for notebook in NOTEBOOKS] == sorted([*SHORT, *QUESTIONS])
    page = (ROOT / "docs" / "how-to" / "questions.md").read_text()
    assert all(f"examples/{name}.ipynb" in page for name in QUESTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", list_notebooks(QUESTIONS), ids=lambda path: path.stem)
def test_questions_are_answered(notebook: Path) -> None:
    """All cells of a question run at small size, draw a plot, and print what follows from it."""
    cells = list(read_cells(notebook))
    smaller = [make_smaller(code) for code in cells]
    assert smaller != cells
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [run_cell(code, names) for code in smaller]
    drawn = [value for _, value in shown if hasattr(value, "savefig")]
    assert len(drawn) == 1
    assert show(drawn[0])[DRAWN][0].startswith("<?xml")
    assert shown[-1][0], "the last cell says what follows"


@pytest.mark.parametrize("notebook", list_notebooks(QUESTIONS), ids=lambda path: path.stem)
def test_files_keep_an_answer(notebook: Path) -> None:
    """The file of a question keeps a plot and what follows from the numbers."""
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    forms = {form for each in outputs for one in each for form in one.get("data", ())}
    assert DRAWN in forms
    assert outputs[-1], "run `python docs/tools/notebooks.py` with the notebook"
    assert cells[-1]["cell_type"] == "markdown"


def test_the_learner_of_the_notebook_is_the_file() -> None:
    """The strategy that the notebook shows is the one that the command line is given."""
    (notebook,) = list_notebooks(("learner",))
    own = (ROOT / "examples" / "own_learner.py").read_text()
    assert own.endswith(f"{next(read_cells(notebook))}\n")


@pytest.mark.parametrize("notebook", list_notebooks(SHORT), ids=lambda path: path.stem)
def test_cells_run(notebook: Path) -> None:
    """All cells run one after the other, with fewer jobs in a market, and show something."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [run_cell(code.replace(MANY, FEW), names) for code in read_cells(notebook)]
    assert any(printed for printed, _ in shown)
    assert hasattr(shown[-1][1], "_repr_html_")


def test_a_cell_that_fails_is_not_hidden() -> None:
    """An error in a cell is raised, and what a cell prints is not lost."""
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", {})
    assert run_cell("print(1)\n2", {}) == ("1\n", 2)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", list_notebooks(SHORT), ids=lambda path: path.stem)
def test_the_files_keep_what_cells_show(notebook: Path) -> None:
    """A file keeps what its cells show; `python docs/tools/notebooks.py` writes it."""
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for count, (code, cell) in enumerate(zip(read_cells(notebook), cells, strict=True), 1):
        assert make_outputs(*run_cell(code, names), count) == cell["outputs"], code
