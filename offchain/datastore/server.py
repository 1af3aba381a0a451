"""Serving a folder of objects over HTTP: only to read, only objects, and only so many at once.

The names of objects are a kind and 64 hexadecimal digits, so that no path can lead anywhere else;
links are not followed. The system sends files by itself (`sendfile`), from wherever a range begins.
`GET /` lists the names and the sizes of all objects, a line each. Where all connections are taken,
the one that has rested longest between two questions makes room for a new one.
"""

import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO

from offchain.datastore.disk import PRIVATE
from offchain.datastore.objects import KINDS, OBJECT_NAME
from offchain.errors import StoreError

MAX_CONNECTIONS = 64
_PATIENCE_S = 30.0
"""Seconds that a client may neither send nor take anything."""
_ENDING_S = 1.0
"""Seconds that the thread of a connection that was ended may take to give its place back."""

_RANGE = re.compile(r"bytes=([0-9]{1,19})?-([0-9]{1,19})?")


class Server(ThreadingHTTPServer):
    """A server of one folder, a thread for each connection.

    Args:
        path: the folder, which has to exist.
        host: the address to listen at.
        port: the port; 0 for any that is free.

    Raises:
        StoreError: the folder cannot be read, or the address is not to be had.
    """

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, path: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self.folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"cannot serve {path}: {error.strerror}; name a folder") from error
        if (path / PRIVATE).exists():
            os.close(self.folder)
            raise StoreError(f"{path} holds a job before its claim is shown; serve `results` alone")
        self._room = BoundedSemaphore(MAX_CONNECTIONS)
        self._resting: dict[socket.socket, None] = {}
        self._lock = Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            os.close(self.folder)
            raise StoreError(f"cannot listen at {host}:{port}: {error}; choose another") from error

    @property
    def url(self) -> str:
        """The address of the store."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def server_close(self) -> None:
        """Stop listening."""
        super().server_close()
        with suppress(OSError):
            os.close(self.folder)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection its thread, or end it if there are too many that do not rest."""
        if self._room.acquire(blocking=False) or self._make_room():
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self) -> bool:
        """End the connection that rests longest, and take its place; False if none rests."""
        with self._lock:
            longest = next(iter(self._resting), None)
            if longest is None:
                return False
            del self._resting[longest]
            with suppress(OSError):
                longest.shutdown(socket.SHUT_RDWR)
        return self._room.acquire(timeout=_ENDING_S)

    @contextmanager
    def resting(self, connection: socket.socket) -> Iterator[None]:
        """Let a connection be ended in favour of another one meanwhile."""
        with self._lock:
            self._resting[connection] = None
        try:
            yield
        finally:
            with self._lock:
                self._resting.pop(connection, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection's questions."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that goes away."""

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


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the library refuses all else."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "moot"
    sys_version = ""
    timeout = _PATIENCE_S
    disable_nagle_algorithm = True  # heads and files are sent apart, and neither is to wait

    def handle_one_request(self) -> None:
        """Wait for a question, and answer it."""
        try:
            with self.server.resting(self.connection):
                self.rfile.peek(1)  # type: ignore[attr-defined] # it is buffered
        except OSError:
            self.close_connection = True
        else:
            super().handle_one_request()

    def do_GET(self) -> None:
        """Send an object, the part of it that is asked for, or the list of all."""
        self._answer()

    def do_HEAD(self) -> None:
        """Send what stands before an object."""
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing: whoever asks may ask a great deal."""

    def _answer(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what follows is no question
        if self.path == "/":
            body = "".join(f"{line}\n" for line in self.server.list()).encode()
            self._begin(HTTPStatus.OK, len(body), {"Content-Type": "text/plain"})
            if self.command != "HEAD":
                self.wfile.write(body)
            return
        name = self.path.removeprefix("/")
        file = self.server.open(name) if OBJECT_NAME.fullmatch(name) else None
        if file is None:
            self._begin(HTTPStatus.NOT_FOUND, 0)
            return
        with file:
            self._send(file)

    def _send(self, file: BinaryIO) -> None:
        """Send a file, or the part of it that is asked for."""
        size = os.fstat(file.fileno()).st_size
        first, end = self._get_range(size)
        if (first, end) != (0, size) and first >= end:
            status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            self._begin(status, 0, {"Content-Range": f"bytes */{size}"})
            return
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        status = HTTPStatus.OK
        if (first, end) != (0, size):
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        self._begin(status, end - first, headers)
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

    def _begin(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
