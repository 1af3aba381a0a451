"""Server: uvicorn, bounded in connections and in the time that a request's head may take.

A connection is idle until the head of a request is there. Where all places are taken, the one that
has been idle for longest is ended for a new one, so that clients that say nothing, or a byte a
second, stop nobody. Bodies are bounded by the endpoint. Whoever does not read its reply is ended.
"""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from moot.offchain.errors import UsageError

MOST_CONNECTIONS = 256
HEAD_S = 10.0
REST_S = 30.0
"""Seconds that a connection may rest between requests."""
READ_S = 30.0
"""Seconds in which a client has to read on, once it lets a reply wait."""

_guests: dict["BoundedProtocol", None] = {}
"""Connections without a request, those first that are so for longest."""


class BoundedProtocol(H11Protocol):
    """A connection whose requests have to come in time."""

    most_connections = MOST_CONNECTIONS
    head_s = HEAD_S
    read_s = READ_S

    def connection_made(self, transport: Any) -> None:
        """Take a place, if need be that of an idle connection."""
        super().connection_made(transport)
        self._ending: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if len(self.connections) > self.most_connections:
            idle = next(iter(_guests), None)
            (idle or self).abort()
        if not transport.is_closing():
            self._rest()

    def data_received(self, data: bytes) -> None:
        """Take bytes; once a head is whole, its request has the time that it needs."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._work()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._rest()

    def pause_writing(self) -> None:
        """Wait for a client that reads too slowly, for a while: its place is another's then."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_s, self.abort)

    def resume_writing(self) -> None:
        """Go on with a reply that is being read."""
        self._forget_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._work()
        self._forget_unread()
        super().connection_lost(exc)

    def abort(self) -> None:
        """End the connection at once."""
        self._work()
        self.transport.abort()

    def _rest(self) -> None:
        self._work()
        _guests[self] = None
        self._ending = self.loop.call_later(self.head_s, self.abort)

    def _work(self) -> None:
        _guests.pop(self, None)
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        UsageError: the address is taken, or none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen at {host}:{port}: {error.strerror}; choose another --port"
        ) from error
    listener.listen(MOST_CONNECTIONS)
    return listener


@contextmanager
def running(app: Starlette) -> Iterator[int]:
    """Serve an application on a thread, at a free port of loopback, which is yielded."""
    server, listener = make_server(app), listen("127.0.0.1", 0)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def make_server(app: Starlette) -> uvicorn.Server:
    """Return a server of an application; `run(sockets=[...])` serves until it is told to stop."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=int(REST_S),
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)
