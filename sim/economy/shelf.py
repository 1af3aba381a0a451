"""The shelf of cases: a folder in the cache, with a file for each case, found by its provenance.

The name of the folder is the digest of all that a case depends on, which stands beside the cases:
whatever differs, a contract, a program, a rule of the game, has a folder of its own. A file begins
with its digest: reading one back gives the very case that was kept, or nothing.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from moot.contracts.compiler import cache_dir
from moot.offchain.errors import UsageError
from moot.sim.economy.cases import Case, Lineup, name_lineup
from moot.sim.economy.congested import Closed
from moot.sim.writing import write_whole

_LONGEST = 40
"""Characters of a file's name that say when no call got in."""


class Shelf:
    """The cases of one provenance.

    Args:
        provenance: all that they depend on, as plain values.
        place: the folder of all shelves; the cache by default.
    """

    def __init__(self, provenance: Mapping[str, Any], place: Path | None = None) -> None:
        text = json.dumps(provenance, indent=1, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        self.path = (place or cache_dir() / "cases") / digest
        self._provenance = text

    def find(self, lineup: Lineup, number: int, closed: Closed = ()) -> Case | None:
        """Return a case that was kept; None if there is none, or if it is not what was kept."""
        kept = self.read(_name(lineup, number, closed))
        if kept is None:
            return None
        try:
            return msgspec.json.decode(kept, type=Case)
        except msgspec.MsgspecError:
            return None

    def keep(self, lineup: Lineup, number: int, case: Case, closed: Closed = ()) -> None:
        """Keep a case; a disk that refuses costs time, and nothing else."""
        self.write(_name(lineup, number, closed), msgspec.json.encode(case).decode())

    def read(self, name: str) -> bytes | None:
        """Return what was written under a name; None if there is nothing, or something else."""
        try:
            digest, _, kept = (self.path / name).read_bytes().partition(b"\n")
        except OSError:
            return None
        return kept if digest == _digest(kept) else None

    def write(self, name: str, text: str) -> None:
        """Write something beside the cases."""
        with suppress(UsageError, OSError):
            if not (self.path / "provenance.json").exists():
                self.path.mkdir(parents=True, exist_ok=True)
                write_whole(self.path / "provenance.json", self._provenance)
            write_whole(self.path / name, f"{_digest(text.encode()).decode()}\n{text}")


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _name(lineup: Lineup, number: int, closed: Closed) -> str:
    when = "".join(f".{first}-{end}" for first, end in closed)
    if len(when) > _LONGEST:
        when = f".{_digest(when.encode()).decode()[:_LONGEST]}"
    return f"{name_lineup(lineup)}.{number}{when}.json"
