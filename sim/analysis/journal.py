"""The journal: what trials have come to, one line each, so that an interrupted answer goes on."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.writing import reporting

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
        first = json.dumps(header or {}, sort_keys=True)
        with reporting(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = (
                path.read_bytes().decode("utf-8", "replace").splitlines(keepends=True)
                if (path.exists())
                else []
            )
            whole = [line for line in lines if line.endswith("\n")]  # the last may be half a line
            if whole and whole[0].strip() != first:
                raise UsageError(
                    f"{path} is of another version or other files; choose another folder, or "
                    "remove it"
                )
            path.write_text("".join(whole or [f"{first}\n"]), encoding="utf-8")
        for line in whole[1:]:
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


def _read(line: str, path: Path) -> dict[str, dict[str, float]]:
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
