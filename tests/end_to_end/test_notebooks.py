"""The notebooks of `examples/`: their cells run, and show what the files keep."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.tools.notebooks import NOTEBOOKS, make_outputs, read_cells, run_cell

MANY, FEW = "jobs=2000", "jobs=40"


def test_there_are_two() -> None:
    """One notebook is about a dispute, the other about a market."""
    assert [notebook.stem for notebook in NOTEBOOKS] == ["dispute", "market"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
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
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_files_keep_what_cells_show(notebook: Path) -> None:
    """A file keeps what its cells show; `python docs/tools/notebooks.py` writes it."""
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for count, (code, cell) in enumerate(zip(read_cells(notebook), cells, strict=True), 1):
        assert make_outputs(*run_cell(code, names), count) == cell["outputs"], code
