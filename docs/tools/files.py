"""The page `docs/reference/files.md`: the first sentence of every module, package by package."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("moot", "offchain", "contracts", "bench", "sim")
DOCSTRING = re.compile(r'^(?:#[^\n]*\n)*r?"""(.*?)(?:\n\n|""")', re.DOTALL)
HEAD = """# Packages and files

The first sentence of every module of the code, which is where to look for a subject. Generated from
docstrings by `python docs/tools/pages.py`.
"""


def read_sentence(path: Path) -> str:
    """Return what a module says of itself, up to the first blank line."""
    found = DOCSTRING.match(path.read_text())
    text = " ".join(found[1].split()) if found else ""
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def list_packages() -> Iterator[Path]:
    """Yield the folder of every package, an outer one before those inside it."""
    for name in PACKAGES:
        folders = {path.parent for path in (ROOT / name).rglob("*.py") if not _is_linked(path)}
        yield from sorted(folders)


def _is_linked(path: Path) -> bool:
    """Whether a file is reached by way of a link, under a name that is not its own."""
    return path.resolve() != path or "__pycache__" in path.parts


def describe(folder: Path) -> str:
    """Return the part of the page about a package."""
    start = folder / "__init__.py"
    rows = [
        f"| `{path.name}` | {read_sentence(path)} |\n"
        for path in sorted(folder.glob("*.py"))
        if path != start
    ]
    about = read_sentence(start) if start.exists() else ""
    table = f"\n| file | |\n|---|---|\n{''.join(rows)}" if rows else ""
    return f"## {folder.relative_to(ROOT)}\n\n{about}\n{table}"


def render() -> str:
    """Return the page."""
    return "\n".join([HEAD, *map(describe, list_packages())])
