"""How tests ask the server of a page, and wait until something is the case."""

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a server, which was read."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Get(Protocol):
    """A way to ask a server."""

    def __call__(
        self, path: str, method: str = "GET", body: bytes | str | None = None, **headers: str
    ) -> Answer:
        """Return the answer to a request; a low line in a head's name is a hyphen."""


@contextmanager
def ask(url: str) -> Iterator[Get]:
    """Give a way to ask a server, on one connection."""
    place = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(place, timeout=PATIENCE_S)

    def get(
        path: str, method: str = "GET", body: bytes | str | None = None, **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.headers), answer.read())

    try:
        yield get
    finally:
        connection.close()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
