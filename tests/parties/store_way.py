"""A way to a store of objects that drops, delays, truncates, mixes up, corrupts and never ends."""

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.http_helpers import Reply, serving_http

FAULTS = ["drop", "delay", "truncate", "corrupt", "another", "status", "endless", "whole", "longer"]
_ENDLESS_BYTES = 1 << 22
"""How much of an answer that says it has a terabyte is sent at most."""


class StoreWay:
    """What happens to each answer of a store; `faults` counts what has happened."""

    def __init__(self, url: str, random: Random, rate: float) -> None:
        self._store, self._random, self._rate = url, random, rate
        self._other = b"nothing"
        self.faults: Counter[str] = Counter()
        self.url = ""

    def answer(self, method: str, path: str, range_: str | None) -> Reply:
        """Return what is answered.

        Raises:
            ConnectionError: there is no answer.
        """
        fault = self._random.choice(FAULTS) if self._random.random() < self._rate else ""
        self.faults[fault] += 1
        if fault == "drop":
            raise ConnectionError
        if fault == "delay":
            time.sleep(0.2)
        headers = {"Range": range_} if range_ and fault != "whole" else {}
        request = urllib.request.Request(self._store + path, headers=headers, method=method)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - loopback
                status, body = response.status, response.read()
                length = int(response.headers["Content-Length"])
                place = response.headers["Content-Range"]
        except urllib.error.HTTPError as error:
            return Reply(error.code)
        if fault == "status":
            return Reply(502)
        other, self._other = self._other, body or self._other
        body, length = self._break(fault, body, length, other)
        return Reply(status, {"Content-Range": place} if place else {}, body, length)

    def _break(self, fault: str, body: bytes, length: int, other: bytes) -> tuple[bytes, int]:
        """Return another body, and another length than it has."""
        if fault == "another":
            return other, len(other)
        if fault == "corrupt" and body:
            place = self._random.randrange(len(body))
            changed = bytes([body[place] ^ 1 << self._random.randrange(8)])
            return body[:place] + changed + body[place + 1 :], length
        if fault == "longer":
            return body + bytes(100), length + 100
        if fault == "truncate":
            return body[: len(body) // 2], length
        return (body + bytes(_ENDLESS_BYTES), 1 << 40) if fault == "endless" else (body, length)


@contextmanager
def open_store_way(url: str, random: Random, rate: float) -> Iterator[StoreWay]:
    """Serve a way to a store on a free port of loopback."""
    way = StoreWay(url, random, rate)

    with serving_http(
        lambda it, _: way.answer(it.command, it.path, it.headers.get("Range"))
    ) as way.url:
        yield way
