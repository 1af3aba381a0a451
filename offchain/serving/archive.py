"""Archive: documents of answers in a folder, on the disk before the answer leaves."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from moot.offchain.errors import StoreError
from moot.offchain.files import make_folder, replacing

MOST = 100_000
"""Documents that are kept; those that were written longest ago go first."""

_NAME = re.compile(r"[0-9a-f]{32}")


class Archive:
    """Documents by the names of answers.

    Args:
        folder: where they are; it is made.
        most: how many are kept at most.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        make_folder(folder, 0o700)
        self._folder, self._most = folder, most
        self._lock = Lock()
        known = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        self._names = dict.fromkeys(path.stem for path in known)

    def keep(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep a document, which is on the disk then.

        Raises:
            StoreError: the disk refuses.
        """
        assert _NAME.fullmatch(name)
        path = self._folder / f"{name}.json"
        try:
            with replacing(path, is_durable=True) as draft:
                draft.write_text(json.dumps(document), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot keep a receipt in {self._folder}: {error}") from error
        with self._lock:
            self._names[name] = None
            while len(self._names) > self._most:
                oldest = next(iter(self._names))
                del self._names[oldest]
                (self._folder / f"{oldest}.json").unlink(missing_ok=True)

    def find(self, name: str) -> bytes | None:
        """Return a document; None if there is none of this name, whatever it is."""
        if _NAME.fullmatch(name):
            with suppress(OSError):
                return (self._folder / f"{name}.json").read_bytes()
        return None
