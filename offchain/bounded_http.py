"""A server for strangers: bounded in connections, in what a request has, and in the time of all.

A connection is idle until the head of a request is there. Where all places are taken, or all that
one address may have, an idle one is ended for the new one. Heads have to come in time as a whole;
what is read or sent afterwards has the time of its length at the least rate.
"""

import io
import math
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock, Thread
from typing import Any

LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 64
MOST_OF_ONE = 48
"""Connections of one address."""
MOST_HEAD_BYTES = 2**15
POLL_S = 0.05
_ENDING_S = 1.0
"""Seconds that the thread of a connection that was ended may take to give its place back."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a server.

    Attributes:
        connections: how many there are at once, and `of_one_address` how many of those of one.
        rest_s: seconds that a connection may be open without a request.
        head_s: seconds in which the head of a request has to come, all of it.
        least_bytes_per_s: the slowest that a client may send or take, and `patience_s` the seconds
            that it has besides.
    """

    connections: int = MAX_CONNECTIONS
    of_one_address: int = MOST_OF_ONE
    rest_s: float = 30.0
    head_s: float = 10.0
    patience_s: float = 20.0
    least_bytes_per_s: int = 1 << 14


@dataclass(eq=False, slots=True)
class _Guest:
    """A connection: whose, until when it may go on, and whether it may be ended for another."""

    socket: socket.socket
    address: str
    ends: float
    is_idle: bool = True

    def end(self) -> None:
        """Have its thread find out that it is over."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True)
class _Guests:
    """All connections, those first that have been idle for longest."""

    bounds: Bounds
    known: dict[socket.socket, _Guest] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def end_overdue(self) -> None:
        """End those whose time is over."""
        now = time.monotonic()
        with self.lock:
            for guest in self.known.values():
                if now > guest.ends:
                    guest.end()

    def end_idle(self, address: str | None) -> bool:
        """End the one that has been idle for longest, of one address only if one is given."""
        with self.lock:
            for guest in self.known.values():
                if guest.is_idle and address in {None, guest.address}:
                    guest.end()
                    del self.known[guest.socket]
                    return True
        return False

    def count(self, address: str) -> int:
        """Return how many there are of an address."""
        with self.lock:
            return sum(guest.address == address for guest in self.known.values())


class BoundedServer(ThreadingHTTPServer):
    """An HTTP server, a thread for each connection, as many as the bounds allow."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        handler: type["BoundedHandler"],
        bounds: Bounds | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self._room = BoundedSemaphore(self.bounds.connections)
        self._guests = _Guests(self.bounds)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    @property
    def url(self) -> str:
        """The address at which it serves."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    @contextmanager
    def serving(self, poll_s: float = POLL_S) -> Iterator[None]:
        """Serve in a thread for as long as the context lasts, whose end is seen at each poll."""
        thread = Thread(target=self.serve_forever, args=(poll_s,), name="server")
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()

    def service_actions(self) -> None:
        """End the connections whose time is over; called several times a second."""
        self._guests.end_overdue()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection its thread, or end it if there are too many that are not idle."""
        if not self._make_room(str(client_address[0])):
            self.shutdown_request(request)
            return
        ends = time.monotonic() + self.bounds.rest_s
        guest = _Guest(request, str(client_address[0]), ends)
        with self._guests.lock:
            self._guests.known[request] = guest
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection's requests."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guests.lock:
                self._guests.known.pop(request, None)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that goes away."""

    def limit(self, connection: socket.socket, seconds: float, *, is_idle: bool = False) -> None:
        """Let a connection go on for so many seconds from now on."""
        with self._guests.lock:
            guest = self._guests.known.pop(connection, None)
            if guest is not None:
                guest.ends, guest.is_idle = time.monotonic() + seconds, is_idle
                self._guests.known[connection] = guest  # behind all that are idle for longer

    def _make_room(self, address: str) -> bool:
        """Take a place, if need be that of an idle connection."""
        is_many = self._guests.count(address) >= self.bounds.of_one_address
        if not is_many and self._room.acquire(blocking=False):
            return True
        is_ended = self._guests.end_idle(address if is_many else None)
        return is_ended and self._room.acquire(timeout=_ENDING_S)


class _Head(io.RawIOBase):
    """What a connection sends, of which a head has so many bytes at most."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.left: int | None = None

    def readable(self) -> bool:
        """See RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read; a head that is too long ends."""
        view = memoryview(buffer)
        if self.left is not None:
            view = view[: self.left]
            self.left -= (count := self._connection.recv_into(view) if view else 0)
            return count
        return self._connection.recv_into(view)


class BoundedHandler(BaseHTTPRequestHandler):
    """A handler of a `BoundedServer`'s requests; a subclass answers those of its methods."""

    server: BoundedServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "moot", ""
    disable_nagle_algorithm = True  # heads and bodies are sent apart, and neither is to wait

    def setup(self) -> None:
        """Prepare a connection."""
        super().setup()
        self.rfile.close()
        self._head = _Head(self.connection)
        self.rfile = io.BufferedReader(self._head)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        bounds = self.server.bounds
        self.server.limit(self.connection, bounds.rest_s, is_idle=True)
        try:
            self._head.left = None
            if not self.rfile.peek(1):  # type: ignore[attr-defined] # it is buffered
                self.close_connection = True
                return
            self._head.left = MOST_HEAD_BYTES
            self.server.limit(self.connection, bounds.head_s, is_idle=True)
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def parse_request(self) -> bool:
        """Read the head of a request."""
        is_right = super().parse_request()
        if self._head.left == 0:  # it was cut there
            self.close_connection = True
            return False
        self._head.left = None
        self.server.limit(self.connection, math.inf)  # computing is not the client's time
        return is_right

    def do_GET(self) -> None:
        """Answer a request that only asks."""
        self.respond()

    def do_HEAD(self) -> None:
        """Answer with a head only."""
        self.respond()

    def do_POST(self) -> None:
        """Answer a request that has a body."""
        self.take()

    def respond(self) -> None:
        """Answer a GET or a HEAD; refuse it, unless a subclass does better."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def take(self) -> None:
        """Answer a POST; refuse it, unless a subclass does better."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def read_body(self, most_bytes: int) -> bytes | None:
        """Return the body of a request; None if it does not say its length, or has too much."""
        length = self.headers.get("Content-Length", "")
        is_number = length.isascii() and length.isdigit() and len(length) < 16
        if not is_number or int(length) > most_bytes or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            return None
        self.allow(int(length))
        body = self.rfile.read(int(length))
        self.server.limit(self.connection, math.inf)
        return body if len(body) == int(length) else None

    def answer(
        self, status: HTTPStatus, content: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer, without its content where only the head is asked for."""
        self.allow(len(content))
        self.begin(status, len(content), headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def begin(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def allow(self, count: int) -> None:
        """Give a client the time to send or to take so many bytes."""
        bounds = self.server.bounds
        self.server.limit(self.connection, bounds.patience_s + count / bounds.least_bytes_per_s)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing: whoever asks may ask a great deal."""
