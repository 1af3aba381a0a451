"""A way to a store of objects that drops, delays, truncates, mixes up, corrupts and never ends."""

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

from tests.chain_helpers import serve_in_thread

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

    def answer(
        self, method: str, path: str, range_: str | None
    ) -> tuple[int, bytes, int, str | None]:
        """Return the status, the body, how many bytes it claims to have, and its place.

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
            return error.code, b"", 0, None
        if fault == "status":
            return 502, b"", 0, None
        other, self._other = self._other, body or self._other
        body, length = self._break(fault, body, length, other)
        return status, body, length, place

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                status, body, length, place = way.answer(
                    self.command, self.path, self.headers.get("Range")
                )
            except ConnectionError:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            if place:
                self.send_header("Content-Range", place)
            self.end_headers()
            if self.command == "GET":
                with suppress(OSError):  # who has hung up
                    self.wfile.write(body)
                self.close_connection = length != len(body)

        do_HEAD = do_GET  # noqa: N815 - the name that the library asks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    way.url = f"http://127.0.0.1:{server.server_port}"
    with serve_in_thread(partial(server.serve_forever, 0.01), server.shutdown), server:
        yield way
