"""Serving a folder of objects over HTTP: only to read, only objects, and only so many at once.

The names of objects are a kind and 64 hexadecimal digits, so that no path can lead anywhere else;
links are not followed. The system sends files by itself (`sendfile`), from wherever a range begins.
`GET /` lists the names and the sizes of all objects, a line each. How many may ask, how
much and how slowly is bounded (`bounded_http.py`).
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from moot.offchain.bounded_http import LOOPBACK, BoundedHandler, BoundedServer, Bounds
from moot.offchain.datastore.names import KINDS, OBJECT_NAME, PRIVATE
from moot.offchain.errors import StoreError

_RANGE = re.compile(r"bytes=([0-9]{1,19})?-([0-9]{1,19})?")


class Server(BoundedServer):
    """A server of one folder, a thread for each connection.

    Args:
        path: the folder, which has to exist.
        host: the address to listen at.
        port: the port; 0 for any that is free.
        bounds: what clients may do.

    Raises:
        StoreError: the folder cannot be read, or the address is not to be had.
    """

    def __init__(
        self, path: Path, host: str = LOOPBACK, port: int = 0, bounds: Bounds | None = None
    ) -> None:
        try:
            self.folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"cannot serve {path}: {error.strerror}; name a folder") from error
        if (path / PRIVATE).exists():
            os.close(self.folder)
            raise StoreError(f"{path} holds a job before its claim is shown; serve `results` alone")
        try:
            super().__init__((host, port), _Handler, bounds)
        except (OSError, OverflowError) as error:
            os.close(self.folder)
            raise StoreError(f"cannot listen at {host}:{port}: {error}; choose another") from error

    def server_close(self) -> None:
        """Stop listening."""
        super().server_close()
        with suppress(OSError):
            os.close(self.folder)

    def open(self, name: str) -> BinaryIO | None:
        """Open an object; None if there is none."""
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self.folder)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb", buffering=0)
            os.close(descriptor)
        return None

    def list(self) -> Iterator[str]:
        """Yield the name and the size of every object."""
        for kind in KINDS:
            with suppress(FileNotFoundError):
                kinds = os.open(kind, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.folder)
                try:
                    for name in sorted(os.listdir(kinds)):  # noqa: PTH208 - a path has no descriptor
                        found = os.stat(name, dir_fd=kinds, follow_symlinks=False)
                        full = f"{kind}/{name}"
                        if OBJECT_NAME.fullmatch(full) and stat.S_ISREG(found.st_mode):
                            yield f"{full} {found.st_size}"
                finally:
                    os.close(kinds)


class _Handler(BoundedHandler):
    """Answers GET and HEAD; the library refuses all else."""

    server: Server

    def respond(self) -> None:
        """See BoundedHandler."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what follows is no question
        if self.path == "/":
            body = "".join(f"{line}\n" for line in self.server.list()).encode()
            self.answer(HTTPStatus.OK, body, {"Content-Type": "text/plain"})
            return
        name = self.path.removeprefix("/")
        file = self.server.open(name) if OBJECT_NAME.fullmatch(name) else None
        if file is None:
            self.answer(HTTPStatus.NOT_FOUND, b"")
            return
        with file:
            self._send(file)

    def _send(self, file: BinaryIO) -> None:
        """Send a file, or the part of it that is asked for."""
        size = os.fstat(file.fileno()).st_size
        first, end = self._get_range(size)
        if (first, end) != (0, size) and first >= end:
            status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            self.answer(status, b"", {"Content-Range": f"bytes */{size}"})
            return
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        status = HTTPStatus.OK
        if (first, end) != (0, size):
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        self.allow(end - first)
        self.begin(status, end - first, headers)
        if self.command != "HEAD" and end > first:
            sent = self.connection.sendfile(file, first, end - first)
            self.close_connection |= sent < end - first  # the file has become shorter

    def _get_range(self, size: int) -> tuple[int, int]:
        """Return the first byte that is asked for and the end; all if no single range is."""
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if not found or found[1] is found[2] is None:
            return 0, size
        if found[1] is None:
            return max(0, size - int(found[2])), size
        last = size - 1 if found[2] is None else min(int(found[2]), size - 1)
        return int(found[1]), last + 1
