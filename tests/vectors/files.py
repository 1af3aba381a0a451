"""The vectors' files: JSON that people can read, written whole or not at all, never rewritten.

docs/reference/conformance.md documents the format.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moot.offchain.arithmetic.ordered import ORDERED

Document = dict[str, Any]
"""The content of one file: the arithmetic's name and version, and a list of cases."""

FOLDER = Path(__file__).parent / f"{ORDERED.name}-{ORDERED.version}"
"""The vectors of the present arithmetic; those of earlier versions stay beside it."""

_LINE = 96


class VectorsChangedError(AssertionError):
    """The arithmetic gives other results than its own earlier vectors say."""

    def __init__(self, name: str, changed: Mapping[str, tuple[str, str]]) -> None:
        given, (before, after) = next(iter(changed.items()))
        super().__init__(
            f"{len(changed)} results of {name} changed, but the arithmetic is still "
            f"{ORDERED}: {given[:400]} gave {before[:200]}, now gives "
            f"{after[:200]}. Claims bind the version, so that its vectors never change: mend the "
            "code, or raise its version and keep the files of the old version"
        )
        self.changed = changed


def make_document(cases: list[Any]) -> Document:
    """Return a file's content."""
    return {"arithmetic": ORDERED.name, "version": ORDERED.version, "cases": cases}


def render(value: Any, margin: str = "") -> str:
    """Return JSON with one line for whatever fits into one, and for every string."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or len(margin) + len(line) <= _LINE or not value:
        return line
    deeper = margin + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {render(item, deeper)}" for key, item in value.items()]
    else:
        parts = [render(item, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = f",\n{deeper}".join(parts)
    return f"{opening}\n{deeper}{inside}\n{margin}{closing}"


def read(name: str, folder: Path = FOLDER) -> Document:
    """Return the content of a file of vectors."""
    document: Document = json.loads((folder / name).read_text(encoding="ascii"))
    return document


def get_facts(document: Document) -> dict[str, str]:
    """Return what the vectors say: each expected result by what is given, both as JSON."""
    facts: dict[str, str] = {}
    for case in document["cases"]:
        if "rows" in case:
            head = [case["function"], case["operands"], case["result"]]
            halves = [row.rsplit(" ", 1) for row in case["rows"]]
            facts |= {json.dumps([*head, operands]): result for operands, result in halves}
        else:
            facts[json.dumps(case["given"])] = json.dumps(case["expect"])
    return facts


def check_unchanged(name: str, before: Document, after: Document) -> None:
    """Refuse results that contradict the ones of the same version; new vectors are welcome.

    Raises:
        VectorsChangedError: something that is given in both has another result.
    """
    if (before["arithmetic"], before["version"]) != (after["arithmetic"], after["version"]):
        return
    known, found = get_facts(before), get_facts(after)
    both = known.keys() & found.keys()
    changed = {
        given: (known[given], found[given]) for given in both if known[given] != found[given]
    }
    if changed:
        raise VectorsChangedError(name, changed)


def write(name: str, document: Document, folder: Path = FOLDER) -> None:
    """Write a file of vectors, unless it would contradict the one that is there.

    Raises:
        VectorsChangedError: it would.
    """
    path = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        check_unchanged(name, read(name, folder), document)
    aside = path.with_name(f".{name}.aside")
    aside.write_text(render(document) + "\n", encoding="ascii")
    aside.replace(path)
