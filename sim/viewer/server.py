"""The server of the viewer's page: loopback, read only, and nothing but the page and its frames."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import msgspec

from moot.offchain.bounded_http import BoundedHandler, BoundedServer, Bounds
from moot.offchain.errors import UsageError
from moot.offchain.record.schema import Record
from moot.sim.viewer.follower import Follower
from moot.sim.viewer.page import make_live_page, make_page, show

LOOPBACK = "127.0.0.1"

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Site:
    """What a server shows: a record, or a referee that is followed."""

    source: Record | Follower

    @cached_property
    def page(self) -> bytes:
        """The page."""
        source = self.source
        page = make_page(source) if isinstance(source, Record) else make_live_page(source.about)
        return page.encode()

    def find(self, target: str) -> tuple[str, bytes] | None:
        """Return the type and the content of what is asked for; None if there is no such thing."""
        parts = urlsplit(target)
        if parts.path == "/":
            return "text/html; charset=utf-8", self.page
        if parts.path == "/frames" and isinstance(self.source, Follower):
            asked = parse_qs(parts.query)
            numbers = [_read_number(asked, name) for name in ("epoch", "from")]
            answer = self.source.film.answer(*numbers)
            return "application/json", msgspec.json.encode(show(answer))
        return None


def _read_number(asked: dict[str, list[str]], name: str) -> int:
    text = asked.get(name, ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


class _Handler(BoundedHandler):
    """Answers GET and HEAD; a page of another name than the server's own is told nothing."""

    server: "_Server"

    def respond(self) -> None:
        """See BoundedHandler."""
        # A name that somebody makes point to loopback would let his page read this one.
        hosts = self.server.hosts
        if hosts and self.headers.get("Host") not in hosts:
            self._send(
                HTTPStatus.FORBIDDEN, "text/plain", b"ask by the address that moot printed\n"
            )
            return
        found = self.server.site.find(self.path)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")
        else:
            self._send(HTTPStatus.OK, *found)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.answer(status, content, _HEADERS | {"Content-Type": kind})


class _Server(BoundedServer):
    """A server of a site; on loopback it answers to the names of that only."""

    def __init__(self, host: str, port: int, site: Site, bounds: Bounds | None) -> None:
        super().__init__((host, port), _Handler, bounds)
        self.site = site
        names = (LOOPBACK, "localhost") if host in {LOOPBACK, "localhost"} else ()
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in names)


@contextmanager
def serve(
    source: Record | Follower, host: str = LOOPBACK, port: int = 0, bounds: Bounds | None = None
) -> Iterator[str]:
    """Serve a page for as long as the context lasts; give its address.

    Args:
        source: what it shows; a follower is started, and stopped at the end.
        host: the address to listen at.
        port: likewise; 0 for any that is free.
        bounds: what readers may do.

    Raises:
        UsageError: there is somebody else already.
        ChainError: the chain cannot be read.
    """
    try:
        server = _Server(host, port, Site(source), bounds)
    except OSError as error:
        problem = f"cannot listen at {host}:{port}: {error.strerror or error}"
        raise UsageError(f"{problem}; choose another --port") from error
    with server, _following(source):
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="server")
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _following(source: Record | Follower) -> Iterator[None]:
    if isinstance(source, Record):
        yield
        return
    source.start()
    try:
        yield
    finally:
        source.stop()
