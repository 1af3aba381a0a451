"""Files in the user's cache directory: whole, or not there.

Whoever may write to that directory can make this process run their code and train their programs:
it has to be as trustworthy as the source itself. A file that is damaged, of another format, or
can't be written costs the work of making its content again, never an error.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from moot.offchain.files import replacing

_DIGEST_BYTES = hashlib.sha256().digest_size


class Cache:
    """Files of one kind, by name.

    Args:
        kind: the name of their folder.
        form: the bytes with which each begins; others are of another version.
        most: files that are kept; the ones that were written longest ago go first.
    """

    def __init__(self, kind: str, form: bytes, most: int | None = None) -> None:
        self._kind, self._form, self._most = kind, form, most

    @property
    def folder(self) -> Path:
        """The folder of these files."""
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(root) / "moot" / self._kind

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none that is whole."""
        try:
            sealed = (self.folder / name).read_bytes()
        except OSError:
            return None
        content = sealed[len(self._form) + _DIGEST_BYTES :]
        return content if sealed == self._seal(content) else None

    def write(self, name: str, content: bytes) -> None:
        """Keep a content for the next process, if there is a place to keep it."""
        folder = self.folder
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(folder / name) as draft:
                draft.write_bytes(self._seal(content))
            if self._most is not None:
                by_age = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
                for path in by_age[: -self._most]:
                    path.unlink(missing_ok=True)

    def _seal(self, content: bytes) -> bytes:
        return self._form + hashlib.sha256(content).digest() + content
