"""The journal: what trials have come to, one line each, so that an interrupted answer goes on."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.writing import open_lines, reporting

FILE = "trials.jsonl"


class Journal:
    """A file of what trials have come to, by their keys; without a path it is kept in memory.

    Args:
        path: of the file; None for none.
        header: what all trials have in common, such as versions.

    Raises:
        UsageError: the file is of other trials, or no journal.
        CannotWrite: it can't be written.
    """

    def __init__(self, path: Path | None = None, header: Mapping[str, Any] | None = None) -> None:
        self._path = path
        self._known: dict[str, dict[str, float]] = {}
        if path is None:
            return
        with reporting(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps(header or {}, sort_keys=True).encode()
        refusal = (
            f"{path} is of another version or other files; choose another folder, or remove it"
        )
        for line in open_lines(path, head, refusal):
            self._known |= _read(line, path)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Mapping[str, float] | None:
        """Return what a trial has come to; None if it has not been played."""
        return self._known.get(key)

    def add(self, key: str, values: Mapping[str, float]) -> None:
        """Note what a trial has come to.

        Raises:
            CannotWrite: the operating system refuses.
        """
        self._known[key] = dict(values)
        if self._path is None:
            return
        with reporting(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({key: dict(values)}) + "\n")


def _read(line: bytes, path: Path) -> dict[str, dict[str, float]]:
    """Return the trial of a line."""
    try:
        told = json.loads(line)
        ((key, values),) = told.items()
        return {key: {name: float(value) for name, value in values.items()}}
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f"{path} is no journal of trials; choose another folder") from None


def make_key(*parts: bytes) -> str:
    """Return the key of a trial, from all that it depends on."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
