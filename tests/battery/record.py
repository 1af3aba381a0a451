"""What is known of each row: the operators that it reaches, and how it differs from torch."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("record.json")

Entry = Mapping[str, Any]
"""`reached`: names of our tables; `differences`: kinds -> the choice of docs/operator_choices.py
that explains them."""


def read_record() -> dict[str, Entry]:
    """Return the entries by row."""
    record: dict[str, Entry] = json.loads(PATH.read_text())
    return record


def write_record(record: Mapping[str, Entry]) -> None:
    """Write the entries in order."""
    PATH.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


def update(before: Entry, reached: Iterable[str], kinds: Iterable[str]) -> Entry:
    """Return a row's new entry: what is no longer different is dropped, what is new unexplained."""
    known = before.get("differences", {})
    differences = {kind: known.get(kind, "") for kind in sorted(kinds)}
    return {"reached": sorted(reached), "differences": differences}
