"""A provider's store: its states and whatever else has a root, and notes, in one folder.

    <kind>/<root>       objects, which anybody may have (`offchain/datastore/objects.py`)
    notes/<name>.json   what a provider wants to know after it was killed; nobody else sees them

A note stands beside its digest: one that was changed by a single bit is known to be damaged.

A state appears only after its tensors, so that whoever finds a state finds a whole one.
"""

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from moot.offchain.datastore.disk import Disk, reporting, unreadable
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import DamagedFile, StoreError
from moot.offchain.files import replacing

_NOTES = "notes"
_NOTE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Store(DataStore):
    """A provider's store in one directory, which is made when it is missing.

    Several processes and threads may use one directory at once. Every method raises `StoreError`
    when the disk fails or when its content is not what its name says.

    Args:
        path: the directory.
        is_durable: whether a failure of power may lose nothing. A directory that is cleared away
            with its process is not waited for.
    """

    def __init__(self, path: str | os.PathLike[str], *, is_durable: bool = True) -> None:
        super().__init__(Disk(path, [_NOTES], is_durable=is_durable))

    @property
    def path(self) -> Path:
        """The directory."""
        return self.disk.path

    def require_room(self, states: int, needed_bytes: int) -> None:
        """Refuse, before anything is run, to keep so many states that take so many bytes."""
        self.disk.require_room(needed_bytes, f"{states} checkpoints")

    def put_json(self, name: str, value: Any) -> None:
        """Keep a note, instead of the one of this name if there is one.

        Args:
            name: letters, digits, dots, dashes and underscores.
            value: anything that JSON can express; no NaN and no infinity.
        """
        path = self._note_path(name)
        text = json.dumps({"digest": _digest(value), "note": value}, allow_nan=False, indent=1)
        is_durable = self.disk.is_durable
        with reporting(path), replacing(path, self.disk.aside, is_durable=is_durable) as draft:
            draft.write_text(text + "\n", encoding="utf-8")

    def has_note(self, name: str) -> bool:
        """Whether there is a note of this name, whole or damaged."""
        path = self._note_path(name)
        with reporting(path):
            return path.exists()

    def get_json(self, name: str) -> Any:
        """Return the note of this name, or None when there is none.

        Raises:
            DamagedFile: it is not what was put.
        """
        path = self._note_path(name)
        try:
            found = json.loads(path.read_bytes())
            note = found["note"]
            if found["digest"] == _digest(note):
                return note
            problem = "its digest is another one's"
        except FileNotFoundError:
            return None
        except (KeyError, RecursionError, TypeError, ValueError):
            problem = "it is no note"
        except OSError as error:
            raise unreadable(path, error) from error
        raise DamagedFile(path, problem)

    def _note_path(self, name: str) -> Path:
        if not _NOTE_NAME.fullmatch(name):
            raise StoreError(f"{name!r} cannot name a note; use letters, digits and . - _")
        return self.path / _NOTES / f"{name}.json"


def _digest(value: Any) -> str:
    """Return the digest of a note."""
    return sha256(json.dumps(value, allow_nan=False).encode()).hexdigest()
