"""A proxy before a node that drops, delays, repeats, reorders, truncates and corrupts."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Protocol

from tests.http_helpers import Reply, serving_http

FAULTS = (
    *("drop-request", "drop-answer", "delay", "repeat", "truncate", "stale", "corrupt-answer"),
    *("corrupt-request", "status", "endless", "garble-answer", "overtaken"),
)

_GARBAGE = b'"{\x00\xff'
"""Bytes that are no digits, so that nobody takes what they are put in for another number."""


class Answers(Protocol):
    """A node, or a way to one."""

    def answer(self, body: bytes) -> bytes:
        """Answer a request."""


class Proxy:
    """What happens to each request; `faults` counts what has happened."""

    def __init__(
        self, node: Answers, random: Random, rate: float, kinds: Sequence[str] = FAULTS
    ) -> None:
        self._kinds = kinds
        self._node = node
        self._random = random
        self._last = b"{}"
        self._overtaken: list[bytes] = []
        self.rate = rate
        self.faults: dict[str, int] = {}
        self.url = ""

    def answer(self, body: bytes) -> Reply:
        """Return what is answered; raise ConnectionError for nothing."""
        fault = self._random.choice(self._kinds) if self._random.random() < self.rate else ""
        self.faults[fault] = self.faults.get(fault, 0) + 1
        if fault == "drop-request":
            raise ConnectionError
        if fault == "overtaken":  # whoever asked hears nothing, and the node does after the next
            self._overtaken.append(body)
            raise ConnectionError
        if fault == "delay":
            time.sleep(0.05)
        if fault == "repeat":
            self._node.answer(body)
        if fault == "corrupt-request":
            body = self._corrupt(body)
        answer = self._node.answer(body)
        while self._overtaken:
            self._node.answer(self._overtaken.pop())
        stale, self._last = self._last, answer
        if fault == "drop-answer":
            raise ConnectionError
        answer = self._change(fault, answer, stale)
        if fault == "truncate":
            return Reply(200, {}, answer[: len(answer) // 2], len(answer))
        if fault == "endless":
            return Reply(200, {}, answer, 2**40)
        return Reply(502 if fault == "status" else 200, {}, answer)

    def _change(self, fault: str, answer: bytes, stale: bytes) -> bytes:
        if fault == "stale":
            return stale
        if fault == "corrupt-answer":
            return self._corrupt(answer)
        return self._corrupt(answer, _GARBAGE) if fault == "garble-answer" else answer

    def _corrupt(self, content: bytes, by: bytes = b"0123456789abcdef" + _GARBAGE) -> bytes:
        place = self._random.randrange(len(content))
        byte = self._random.choice(by)
        return content[:place] + bytes([byte]) + content[place + 1 :]


@contextmanager
def open_proxy(
    node: Answers, random: Random, rate: float, kinds: Sequence[str] = FAULTS
) -> Iterator[Proxy]:
    """Serve a proxy before a node on a free port of loopback."""
    proxy = Proxy(node, random, rate, kinds)

    with serving_http(lambda _, body: proxy.answer(body)) as proxy.url:
        yield proxy
