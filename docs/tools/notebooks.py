"""Runs the notebooks of `examples/` and keeps what their cells show, for whoever reads them.

`python docs/tools/notebooks.py` runs all, or those that are named. A cell shows what it prints, and
its last expression: as HTML or SVG if it has that form and is not too large, and as text.
"""

import argparse
import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
NOTEBOOKS = tuple(sorted((ROOT / "examples").glob("*.ipynb")))
LARGEST = 1_000_000
"""Bytes of a picture that is kept; a reader who runs the cell sees larger ones, too."""
CHANGING = re.compile(
    r"(?<= at )0x[0-9a-f]+|(?<=PosixPath\(')[^']+|(?<=seconds=)[\d.]+|(?<=peak_mib=)[\d.]+"
)
"""What of a value's text is another in every run: addresses, folders, times."""
DRAWN = "image/svg+xml"
FORMS = {DRAWN: "_repr_svg_", "text/html": "_repr_html_"}


def read_cells(notebook: Path) -> Iterator[str]:
    """Yield the code of the cells of a notebook."""
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def run_cell(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell; return what it prints, and the value of a last line that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            line = compile(ast.Expression(last.value), "<cell>", "eval")
            value = eval(line, names)  # noqa: S307 - likewise
    return printed.getvalue(), value


def draw(figure: Any) -> str:
    """Return a figure of matplotlib as SVG, the same bytes each time."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes half a second

    file = io.StringIO()
    with rc_context({"svg.hashsalt": "moot", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def show(value: Any) -> dict[str, list[str]]:
    """Return the forms of a value that a notebook keeps."""
    shown = {"text/plain": CHANGING.sub("…", repr(value))}
    for form, method in FORMS.items():
        text = getattr(value, method)() if hasattr(value, method) else ""
        text = draw(value) if form == DRAWN and hasattr(value, "savefig") else text
        if text and len(text) <= LARGEST:
            shown[form] = text
    return {form: text.splitlines(keepends=True) for form, text in shown.items()}


def make_outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell, as the notebook's format has them."""
    outputs: list[dict[str, Any]] = []
    if printed:
        lines = printed.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        kept = {"data": show(value), "execution_count": count, "metadata": {}}
        outputs.append({**kept, "output_type": "execute_result"})
    return outputs


def rewrite(notebook: Path) -> None:
    """Run a notebook's cells in turn, and write it with what they show."""
    content = json.loads(notebook.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["execution_count"] = count
        cell["outputs"] = make_outputs(*run_cell("".join(cell["source"]), names), count)
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Rewrite the notebooks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="NOTEBOOK")
    for notebook in parser.parse_args().paths or NOTEBOOKS:
        rewrite(notebook)


if __name__ == "__main__":
    main()
