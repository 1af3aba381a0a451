"""Servers for strangers: whoever is slow, many, or endless is ended, and honest readers are not."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from moot.offchain.bounded_http import MOST_HEAD_BYTES, Bounds
from moot.offchain.chain.devnode.server import MOST_BYTES, DevNode
from moot.offchain.chain.devnode.server import serve as serve_node
from moot.sim.viewer.server import serve as serve_court
from tests.quick import every
from tests.record_helpers import make_small_record
from tests.store_helpers import serving

BOUNDS = Bounds(
    connections=8, of_one_address=6, rest_s=0.5, head_s=0.5, patience_s=0.5, least_bytes_per_s=2**20
)
STRANGER = "127.0.0.2"
NAME = f"tensors/{5:064x}"
LARGE = bytes(64 * 2**20)

Open = Callable[[Path], AbstractContextManager[int]]


@contextmanager
def open_store(folder: Path) -> Iterator[int]:
    """Serve a store that has one large object."""
    (folder / "tensors").mkdir()
    (folder / NAME).write_bytes(LARGE)
    with serving(folder, bounds=BOUNDS) as server:
        yield int(server.server_address[1])


@contextmanager
def open_court(folder: Path) -> Iterator[int]:
    """Serve a court's page."""
    del folder
    with serve_court(make_small_record(), bounds=BOUNDS) as url:
        yield int(url.rstrip("/").rpartition(":")[2])


@contextmanager
def open_devnode(folder: Path) -> Iterator[int]:
    """Serve a node for development."""
    del folder
    with serve_node(DevNode(1), bounds=BOUNDS) as url:
        yield int(url.rpartition(":")[2])


SERVERS: dict[str, Open] = {"store": open_store, "court": open_court, "node": open_devnode}


@pytest.fixture(params=SERVERS)
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """The port of each server of ours in turn."""
    with SERVERS[request.param](tmp_path) as port:
        yield port


def connect(port: int, host: str = STRANGER) -> socket.socket:
    """Return a connection from an address of loopback."""
    return socket.create_connection(("127.0.0.1", port), 20.0, (host, 0))


def read(port: int) -> int:
    """Return the status of an honest reader's request."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20.0)
    try:
        connection.request("HEAD", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def await_end(connection: socket.socket) -> bytes:
    """Return what comes on a connection until it is ended."""
    found = b""
    try:
        while piece := connection.recv(1 << 20):
            found = piece[:100]
    except ConnectionError:
        pass
    return found


def test_slow_heads_take_no_server_away(port: int) -> None:
    """With all places taken by connections that say a byte now and then, readers are served."""
    with ExitStack() as kept:
        held = [kept.enter_context(connect(port, f"127.0.0.{2 + n % 3}")) for n in range(24)]
        for _ in range(3):
            for connection in held:
                try:
                    connection.send(b"G")
                except ConnectionError:
                    continue
            assert read(port) in {200, 501}


def test_a_head_has_to_come_in_time_as_a_whole(port: int) -> None:
    """A byte every now and then does not lengthen the time that a head has."""
    with connect(port) as connection:
        with pytest.raises(ConnectionError):  # noqa: PT012 - the end comes at any of the bytes
            for _ in range(400):
                connection.send(b"G")
                time.sleep(0.05)
        assert read(port) in {200, 501}


@pytest.mark.parametrize(
    "head",
    every(
        6,
        [
            b"GET /" + b"x" * MOST_HEAD_BYTES,
            b"GET / HTTP/1.1\r\nA: " + b"x" * MOST_HEAD_BYTES,
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MOST_HEAD_BYTES // 6 + 1),
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
            b"\0" * 100 + b"\n",
            b"GET\r\n\r\n",
        ],
    ),
)
def test_heads_are_bounded(port: int, head: bytes) -> None:
    """A head that is too long, has too many lines, or is none ends its connection."""
    with connect(port) as connection:
        connection.sendall(head)
        assert b" 200 " not in await_end(connection)
    assert read(port) in {200, 501}


def test_slow_readers_are_ended(tmp_path: Path) -> None:
    """Whoever asks for much and takes nothing has the time of its bytes, and then its place ends.

    Of one address there are no more meanwhile, whatever they do; others are served.
    """
    (tmp_path / "tensors").mkdir()
    (tmp_path / NAME).write_bytes(LARGE)
    bounds = replace(BOUNDS, least_bytes_per_s=2**25)
    with serving(tmp_path, bounds) as server, ExitStack() as kept:
        port = int(server.server_address[1])
        held = [kept.enter_context(connect(port)) for _ in range(BOUNDS.of_one_address)]
        for connection in held:
            connection.sendall(f"GET /{NAME} HTTP/1.1\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        with connect(port) as one_more:
            assert one_more.recv(1) == b""
        assert read(port) == 200
        while server._guests.known:
            time.sleep(0.01)
        assert read(port) == 200


def test_a_reader_of_the_least_rate_is_served(tmp_path: Path) -> None:
    """The time of an answer follows from its length: an honest reader gets all of it."""
    with open_store(tmp_path) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=20.0)
        for _ in range(2):
            connection.request("GET", f"/{NAME}")
            assert connection.getresponse().read() == LARGE
        connection.close()


def test_the_one_that_rests_longest_makes_room(tmp_path: Path) -> None:
    """One too many of an address takes the place of the one that has rested longest."""
    with open_store(tmp_path) as port, ExitStack() as kept:
        held = [kept.enter_context(connect(port)) for _ in range(BOUNDS.of_one_address)]
        for connection in held:
            connection.sendall(b"HEAD / HTTP/1.1\r\n\r\n")
            assert connection.recv(1000)[:12] == b"HTTP/1.1 200"
        with connect(port) as one_more:
            one_more.sendall(b"HEAD / HTTP/1.1\r\n\r\n")
            assert one_more.recv(1000)[:12] == b"HTTP/1.1 200"
            assert held[0].recv(1) == b""


@pytest.mark.parametrize("length", ["-1", "x", "", str(MOST_BYTES + 1), "9" * 5_000, "1_0"])
def test_a_node_takes_bounded_bodies_only(tmp_path: Path, length: str) -> None:
    """A length that is none, or too large, is refused before a byte of the body is read."""
    with open_devnode(tmp_path) as port, connect(port) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in await_end(connection)


def test_slow_bodies_are_ended(tmp_path: Path) -> None:
    """A body that is announced and does not come has the time of its length."""
    with open_devnode(tmp_path) as port, connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n[")
        assert b" 200 " not in await_end(connection)
