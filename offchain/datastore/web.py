"""Objects behind HTTP: a server of strangers, which may say anything, at any speed, for ever.

The standard library's client receives straight into our memory. It follows no redirect: where the
data come from is what the user has named. Headers are bounded by the library; an answer without its
length, or with another encoding, is refused; and whoever sends slower than LEAST_BYTES_PER_S is
cut off, however regularly.
"""

import http.client
import re
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer
from urllib.parse import quote, urlsplit

from moot.offchain.datastore.places import Part, Stream
from moot.offchain.errors import NotInStore, StoreError, StoreUnavailable, UsageError, WrongContent

PATIENCE_S = 30.0
"""Seconds that a server may take until an answer begins, and from one piece to the next."""

LEAST_BYTES_PER_S = 1 << 14
"""The slowest server that is waited for, after the first seconds of patience."""

MAX_INDEX_BYTES = 1 << 27
_INDEX_LINE = re.compile(r"([a-z]+/[0-9a-f]{64}) ([0-9]{1,19})")


def never() -> bool:
    """Say that it is not over yet."""
    return False


class Web:
    """A folder of objects behind an `http` or `https` address; nothing can be put there.

    Args:
        url: the address.
        patience_s: how long a server may keep us waiting.
        is_over: says whether it is given up by now, in the middle of an object, too.
    """

    def __init__(
        self, url: str, patience_s: float = PATIENCE_S, is_over: Callable[[], bool] = never
    ) -> None:
        parts = urlsplit(url)
        try:
            self._host, self._port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{url} is no address of a store: {error}") from error
        if not self._host or parts.query or parts.fragment or parts.username:
            raise UsageError(f"{url} is no address of a store; write http://host:port/folder")
        self.url = url
        self._path = quote(parts.path.rstrip("/"), safe="/%")
        self._is_secure = parts.scheme == "https"
        self._patience_s = patience_s
        self.is_over = is_over
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = Lock()
        weakref.finalize(self, _close_all, self._idle)

    def open(self, name: str, start: int = 0) -> Stream:
        """Open an object at a place."""
        if self.is_over():
            raise StoreUnavailable(self.url, name, "it was given up")
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        connection, response = self._ask("GET", name, headers)
        try:
            left = self._check(response, name, start)
        except BaseException:
            response.close()
            connection.close()
            raise
        body = _Body(self, connection, response, name, left)
        if start and response.status == http.client.OK:  # a server that knows no ranges
            body.skip(start)
        return body

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Refuse: what is served over HTTP can only be read."""
        del parts
        raise StoreError(f"cannot write {name} at {self.url}: it can only be read; give its folder")

    def get_size(self, name: str) -> int | None:
        """Return an object's size in bytes, None when there is none."""
        connection, response = self._ask("HEAD", name, {"Accept-Encoding": "identity"})
        try:
            return self._check(response, name, 0)
        except NotInStore:
            return None
        finally:
            response.close()
            connection.close()

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the names and the sizes of all objects, as the server says."""
        stream, text = self.open(""), bytearray()
        try:
            if stream.left > MAX_INDEX_BYTES:
                raise WrongContent(self.url, "its index", f"it has {stream.left:,} bytes")
            view = memoryview(bytearray(1 << 16))
            while count := stream.read_into(view):
                text += view[:count]
        finally:
            stream.close()
        for line in text.decode(errors="replace").splitlines():
            found = _INDEX_LINE.fullmatch(line)
            if not found:
                raise WrongContent(self.url, "its index", "it is no list of objects")
            yield found[1], int(found[2])

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for the next question."""
        with self._lock:
            self._idle.append(connection)

    @contextmanager
    def reporting(self, name: str) -> Iterator[None]:
        """Turn whatever goes wrong on the way into one line."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            text = " ".join(f"{type(error).__name__} {error}".split())[:300]
            raise StoreUnavailable(self.url, name, f"the connection fails ({text})") from error

    def _ask(
        self, method: str, name: str, headers: dict[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a question; one on a connection that was kept is asked again on a new one."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            with suppress(StoreUnavailable):
                return kept, self._exchange(kept, method, name, headers)
        new = self._connect()
        return new, self._exchange(new, method, name, headers)

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        assert self._host
        return kind(self._host, self._port, timeout=self._patience_s)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        name: str,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        """Return the head of an answer, of which all has to come within the time of patience."""
        timer = Timer(self._patience_s, _cut, [connection])
        timer.daemon = True
        timer.start()
        try:
            with self.reporting(name):
                connection.request(method, f"{self._path}/{name}", headers=headers)
                return connection.getresponse()
        except BaseException:
            connection.close()
            raise
        finally:
            timer.cancel()

    def _check(self, response: http.client.HTTPResponse, name: str, start: int) -> int:
        """Return how many bytes an answer has, if it is the one that was asked for."""
        status, length = response.status, response.getheader("Content-Length", "")
        if status in {404, 410}:
            raise NotInStore(self.url, name, "there is none")
        if 300 <= status < 400:
            elsewhere = response.getheader("Location", "nowhere")[:200]
            problem = f"the server sends us to {elsewhere!r}, where we do not follow"
            raise WrongContent(self.url, name, problem)
        if start and status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise WrongContent(self.url, name, f"it ends before byte {start:,}")
        if status != http.client.OK and (status != http.client.PARTIAL_CONTENT or not start):
            raise StoreUnavailable(self.url, name, f"the server answers {status}")
        place = response.getheader("Content-Range", "")
        if status == http.client.PARTIAL_CONTENT and not place.startswith(f"bytes {start}-"):
            raise WrongContent(self.url, name, f"the server sends {place!r}, not from {start:,} on")
        coded = response.getheader("Transfer-Encoding") or response.getheader("Content-Encoding")
        if coded or not re.fullmatch("[0-9]{1,19}", length):
            raise WrongContent(self.url, name, "the server does not say how long it is")
        return int(length)


class _Body:
    """The bytes of an answer."""

    def __init__(
        self,
        web: Web,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        name: str,
        left: int,
    ) -> None:
        self._web, self._connection, self._response = web, connection, response
        self._name = name
        self._waited, self._count = 0.0, 0
        self.left = left

    def read_into(self, view: memoryview) -> int:
        """Fill some of a view; return how many bytes, 0 at the end."""
        if not self.left:
            return 0
        if self._web.is_over():
            raise StoreUnavailable(self._web.url, self._name, "it was given up")
        before = time.monotonic()
        with self._web.reporting(self._name):
            # At most one call to the system: a slow server must come back to us.
            count = self._response.fp.readinto1(view[: self.left])
        self._waited += time.monotonic() - before
        self._count += count
        self.left -= count
        if not count:
            problem = f"the server stops {self.left:,} bytes before the end"
            raise StoreUnavailable(self._web.url, self._name, problem)
        if self._waited > self._web_patience + self._count / LEAST_BYTES_PER_S:
            problem = f"the server sends fewer than {LEAST_BYTES_PER_S:,} bytes a second"
            raise StoreUnavailable(self._web.url, self._name, problem)
        return count

    def skip(self, count: int) -> None:
        """Read what is here already."""
        scratch = memoryview(bytearray(min(count, 1 << 20)))
        while count and (got := self.read_into(scratch[:count])):
            count -= got

    @property
    def _web_patience(self) -> float:
        return self._web._patience_s  # noqa: SLF001 - two classes of one subject

    def close(self) -> None:
        """Keep the connection if all has been read, or else end it."""
        if self.left or self._response.will_close:
            self._response.close()
            self._connection.close()
            return
        self._response.length = 0
        self._response.read()  # the library then knows that the answer is over
        self._web.keep(self._connection)


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    """Close connections that nobody will use again."""
    for connection in connections:
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a connection in whose answer somebody waits."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
