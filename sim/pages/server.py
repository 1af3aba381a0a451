"""The server of a page: loopback unless told otherwise, bounded, and nothing but one site's own."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from typing import Protocol

from moot.offchain.bounded_http import LOOPBACK, BoundedHandler, BoundedServer, Bounds
from moot.offchain.errors import UsageError

Heads = Message
"""The heads of a request, whose names may be in small letters or large ones."""
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain"

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a site answers: the type of its content, the content, and whether it is a refusal."""

    kind: str
    content: bytes
    status: HTTPStatus = HTTPStatus.OK


class Site(Protocol):
    """Whatever a server shows.

    Attributes:
        most_bytes: what a request may bring; 0 for a site that only shows.
    """

    @property
    def most_bytes(self) -> int:
        """See above."""

    def find(self, target: str) -> Found | None:
        """Return what is at an address; None if there is no such thing."""

    def take(self, target: str, headers: Heads, body: bytes) -> Found | None:
        """Take what a request brings, and return the answer; likewise."""


class _Handler(BoundedHandler):
    """Answers requests; a page of another name than the server's own is told nothing."""

    server: "_Server"

    def respond(self) -> None:
        """See BoundedHandler."""
        if self._is_ours():
            self._send(self.server.site.find(self.path))

    def take(self) -> None:
        """See BoundedHandler."""
        site = self.server.site
        if not site.most_bytes:
            super().take()
            return
        body = self.read_body(site.most_bytes)
        if body is None:
            problem = f"a request has a length, and {site.most_bytes} bytes at most\n"
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            self._send(Found(TEXT, problem.encode(), status))
        elif self._is_ours():
            self._send(site.take(self.path, self.headers, body))

    def _is_ours(self) -> bool:
        # A name that somebody makes point to loopback would let his page read this one.
        hosts = self.server.hosts
        if not hosts or self.headers.get("Host") in hosts:
            return True
        refusal = b"ask by the address that moot printed\n"
        self._send(Found(TEXT, refusal, HTTPStatus.FORBIDDEN))
        return False

    def _send(self, found: Found | None) -> None:
        found = found or Found(TEXT, b"there is no such page\n", HTTPStatus.NOT_FOUND)
        self.answer(found.status, found.content, _HEADERS | {"Content-Type": found.kind})


class _Server(BoundedServer):
    """A server of a site; on loopback it answers to the names of that only."""

    def __init__(self, host: str, port: int, site: Site, bounds: Bounds | None) -> None:
        super().__init__((host, port), _Handler, bounds)
        self.site = site
        names = (LOOPBACK, "localhost") if host in {LOOPBACK, "localhost"} else ()
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in names)


@contextmanager
def serve(
    site: Site,
    host: str = LOOPBACK,
    port: int = 0,
    bounds: Bounds | None = None,
    source: AbstractContextManager[object] | None = None,
) -> Iterator[str]:
    """Serve a site for as long as the context lasts; give its address.

    Args:
        site: what is shown.
        host: the address to listen at.
        port: likewise; 0 for any that is free.
        bounds: what readers may do.
        source: what goes on beside it: entered once the port is had, left when nothing is served
            any more.

    Raises:
        UsageError: there is somebody else already.
    """
    try:
        server = _Server(host, port, site, bounds)
    except OSError as error:
        problem = f"cannot listen at {host}:{port}: {error.strerror or error}"
        raise UsageError(f"{problem}; choose another --port") from error
    with server, source or nullcontext(), server.serving():
        yield f"http://{host}:{server.server_port}/"
