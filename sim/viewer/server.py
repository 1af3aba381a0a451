"""The site of a court's page: read only, and nothing but the page and its frames."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import parse_qs, urlsplit

import msgspec

from moot.offchain.bounded_http import LOOPBACK, Bounds
from moot.offchain.record.schema import Record
from moot.sim.pages.server import HTML, JSON, Found, Heads
from moot.sim.pages.server import serve as serve_site
from moot.sim.viewer.follower import Follower
from moot.sim.viewer.page import make_live_page, make_page, show


@dataclass(frozen=True)
class CourtSite:
    """The site of a record, or of a referee that is followed."""

    source: Record | Follower
    most_bytes = 0

    @cached_property
    def page(self) -> bytes:
        """The page."""
        source = self.source
        page = make_page(source) if isinstance(source, Record) else make_live_page(source.about)
        return page.encode()

    def find(self, target: str) -> Found | None:
        """Return what is asked for; None if there is no such thing."""
        parts = urlsplit(target)
        if parts.path == "/":
            return Found(HTML, self.page)
        if parts.path == "/frames" and isinstance(self.source, Follower):
            asked = parse_qs(parts.query)
            numbers = [_read_number(asked, name) for name in ("epoch", "from")]
            answer = self.source.film.answer(*numbers)
            return Found(JSON, msgspec.json.encode(show(answer)))
        return None

    def take(self, target: str, headers: Heads, body: bytes) -> Found | None:
        """Take nothing: the page only reads."""
        del target, headers, body
        return None


def _read_number(asked: dict[str, list[str]], name: str) -> int:
    text = asked.get(name, ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def serve(
    source: Record | Follower, host: str = LOOPBACK, port: int = 0, bounds: Bounds | None = None
) -> AbstractContextManager[str]:
    """Serve a court's page for as long as the context lasts; give its address.

    Args:
        source: what it shows; a follower is started, and stopped at the end.
        host: the address to listen at.
        port: likewise; 0 for any that is free.
        bounds: what readers may do.

    Raises:
        UsageError: there is somebody else already.
        ChainError: the chain cannot be read.
    """
    following = None if isinstance(source, Record) else _following(source)
    return serve_site(CourtSite(source), host, port, bounds, following)


@contextmanager
def _following(source: Follower) -> Iterator[None]:
    source.start()
    try:
        yield
    finally:
        source.stop()
