"""A server for tests that says to each request of HTTP what a function lets it say."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from moot.offchain.bounded_http import LOOPBACK, BoundedHandler, BoundedServer
from moot.offchain.chain.devnode.server import BOUNDS

POLL_S = 0.01
"""Seconds after which a server at most has seen that it is to end."""
_MOST_BYTES = 1 << 30


class Reply(NamedTuple):
    """What is answered; `claimed` is the length that it says it has, where that is another one."""

    status: int
    headers: Mapping[str, str] = {}
    content: bytes = b""
    claimed: int | None = None


Answer = Callable[[BoundedHandler, bytes], Reply | None]
"""(a request, what it brings): None, or a ConnectionError, breaks the connection."""


@contextmanager
def serving_http(answer: Answer) -> Iterator[str]:
    """Serve answers on a free port of loopback, and give the address."""

    class Handler(BoundedHandler):
        def respond(self) -> None:
            self._reply(b"")

        def take(self) -> None:
            body = self.read_body(_MOST_BYTES)
            assert body is not None
            self._reply(body)

        def _reply(self, body: bytes) -> None:
            reply = None
            with suppress(ConnectionError):
                reply = answer(self, body)
            if reply is None:
                self.close_connection = True
                return
            length = len(reply.content) if reply.claimed is None else reply.claimed
            self.begin(reply.status, length, reply.headers)
            if self.command != "HEAD":
                with suppress(OSError):  # who has hung up
                    self.wfile.write(reply.content)
                self.close_connection |= length != len(reply.content)

    with BoundedServer((LOOPBACK, 0), Handler, BOUNDS) as server, server.serving(POLL_S):
        yield server.url
