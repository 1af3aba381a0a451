"""The data store among strangers: what is right comes whole, and nothing else is ever kept."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Thread

import fsspec
import numpy as np
import pytest

from moot.offchain.commitments.tensors import SUBTREE_BYTES, Array, commit_tensor
from moot.offchain.datastore import fetch
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.objects import TENSORS, encode_prefix, name_object
from moot.offchain.datastore.store import DataStore, open_store
from moot.offchain.datastore.web import Web
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import NotInStore, StoreError, StoreUnavailable, UsageError, WrongContent
from moot.offchain.programs.graph import DType, Slot
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.publication import get_task, put_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.end_to_end.command import moot
from tests.quick import only
from tests.store_helpers import Answer, answering, send_head, serving

ARRAY: Array = np.arange(700_000, dtype=np.float32).reshape(7, -1)
"""2.8 MB: eleven subtrees, three pieces, and neither is whole at the end."""

COMMITMENT = commit_tensor(ARRAY)
ROOT = COMMITMENT.root
NAME = name_object(TENSORS, ROOT)
PREFIX = encode_prefix(COMMITMENT)
FILE = PREFIX + ARRAY.tobytes()
PIECE = 4 * SUBTREE_BYTES


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short."""
    monkeypatch.setattr(fetch, "_FIRST_PAUSE_S", 0.001)


@pytest.fixture
def origin(tmp_path: Path) -> DataStore:
    """A store that has the array."""
    store = open_store(str(tmp_path / "origin"))
    store.put_tensors([ARRAY])
    return store


def left_in(folder: Path) -> list[str]:
    """Return what there is in a folder of objects, but its lock."""
    found = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]
    return sorted(name for name in found if name != "lock")


def test_a_state_comes_over_http(tmp_path: Path) -> None:
    """A state of all types and shapes is the same behind a server, and whole in the folder."""
    arrays: list[Array] = [
        ARRAY,
        np.array(-0.0, np.float32),
        np.zeros((0, 3), np.int64),
        np.array([True, False]),
        np.arange(300_000, dtype=np.uint16) % 0x7F80,
        np.arange(5, dtype=np.int32),
        ARRAY,
    ]
    origin = open_store(str(tmp_path / "origin"))
    root = origin.put_state(arrays)
    with serving(tmp_path / "origin") as server:
        found = open_store(server.url, tmp_path / "cache").get_state(root)
    assert [(a.dtype, a.shape, a.tobytes()) for a in found] == [
        (a.dtype, a.shape, a.tobytes()) for a in arrays
    ]
    assert left_in(tmp_path / "cache") == left_in(tmp_path / "origin")
    assert [*open_store(str(tmp_path / "cache")).list()] == [*origin.list()]


def test_a_place_of_fsspec_takes_and_gives(tmp_path: Path) -> None:
    """What is put to a place in memory is got from there, listed, and found."""
    url = f"memory://{tmp_path.name}/store"
    root = open_store(url, tmp_path / "one").put_state([ARRAY, ARRAY[0]])
    store = open_store(url, tmp_path / "two")
    assert store.has_state(root)
    assert [a.tobytes() for a in store.get_state(root)] == [ARRAY.tobytes(), ARRAY[0].tobytes()]
    assert {name for name, _ in store.list()} >= {NAME, f"states/{root.hex()}"}
    with pytest.raises(NotInStore, match=r"abab.* at memory://.*there is none"):
        store.get_tensor(b"\xab" * 32)
    files = fsspec.filesystem("memory")
    path = f"/{tmp_path.name}/store/{NAME}"
    files.pipe_file(path, files.cat_file(path)[:-1] + b"\1")
    with pytest.raises(WrongContent, match=ROOT.hex()):
        open_store(url, tmp_path / "three").get_tensor(ROOT)


def test_what_went_wrong_first_is_said(tmp_path: Path) -> None:
    """Of several threads one finds wrong bytes; that others then give up is not the problem."""
    origin = open_store(str(tmp_path / "origin"))
    roots = origin.put_tensors([ARRAY + it for it in range(4)])
    for root in roots:
        path = tmp_path / "origin" / name_object(TENSORS, root)
        content = bytearray(path.read_bytes())
        content[len(PREFIX)] ^= 1
        path.write_bytes(content)
    for number in range(10):
        disk = Disk(tmp_path / str(number))
        with pytest.raises(WrongContent):
            fetch.fetch_tensors(origin.disk, disk, dict.fromkeys(roots))


def plain(content: bytes) -> Answer:
    """Return an answer that serves some bytes as a right server would."""

    def answer(connection: socket.socket, _path: str, first: int) -> None:
        if first:
            size = len(content)
            place = f"Content-Range: bytes {first}-{size - 1}/{size}"
            length = f"Content-Length: {size - first}"
            send_head(connection, length, place, status="206 Partial Content")
        else:
            send_head(connection, f"Content-Length: {len(content)}")
        connection.sendall(content[first:])

    return answer


def spoilt(place: int) -> bytes:
    """Return the file with one bit changed."""
    content = bytearray(FILE)
    content[place] ^= 1
    return bytes(content)


def say_status(status: str, *headers: str) -> Answer:
    """Return an answer of a status."""

    def answer(connection: socket.socket, _path: str, _first: int) -> None:
        send_head(connection, "Content-Length: 0", *headers, status=status)

    return answer


def declare(length: str, content: bytes = FILE) -> Answer:
    """Return an answer that says something else about its length than is so."""

    def answer(connection: socket.socket, _path: str, _first: int) -> None:
        send_head(connection, *filter(None, [length]))
        connection.sendall(content)

    return answer


def say_for_ever(connection: socket.socket, _path: str, _first: int) -> None:
    """Send bytes without end, and say so."""
    send_head(connection, f"Content-Length: {1 << 62}")
    while True:
        connection.sendall(bytes(1 << 16))


def go_on_for_ever(connection: socket.socket, _path: str, _first: int) -> None:
    """Send the file, and then more and more of something."""
    send_head(connection)
    connection.sendall(FILE)
    while True:
        connection.sendall(bytes(1 << 16))


def say_nothing(connection: socket.socket, _path: str, _first: int) -> None:
    """End at once."""


def say_headers_for_ever(connection: socket.socket, _path: str, _first: int) -> None:
    """Send one header after another."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: and more\r\n")


HUGE = encode_prefix(COMMITMENT)[:16] + (1 << 61).to_bytes(8, "big") + (1).to_bytes(8, "big")

HOSTILE: dict[str, tuple[Answer, type[StoreError], str]] = {
    "another header": (plain(spoilt(20)), WrongContent, "declares|another root"),
    "another first line": (plain(b"PK" + FILE[2:]), WrongContent, "does not begin"),
    "another type": (plain(spoilt(14)), WrongContent, "unknown type|another root|offered"),
    "another layer": (plain(spoilt(len(PREFIX) - 1)), WrongContent, "another root"),
    "another first byte": (plain(spoilt(len(PREFIX))), WrongContent, "from 0 on are not"),
    "another last byte": (plain(spoilt(-1)), WrongContent, "from 2,621,440 on are not"),
    "another tensor": (
        plain(encode_prefix(commit_tensor(ARRAY[0])) + ARRAY[0].tobytes()),
        WrongContent,
        "another root",
    ),
    "a huge tensor": (plain(HUGE + FILE), WrongContent, "declares .* bytes, above"),
    "too short": (plain(FILE[:-1]), WrongContent, "offered where"),
    "too long": (plain(FILE + b"x"), WrongContent, "offered where"),
    "only a beginning": (plain(FILE[:10]), WrongContent, "ends .* early"),
    "nothing in it": (plain(b""), WrongContent, "ends .* early"),
    "endless, as declared": (say_for_ever, WrongContent, "offered|does not begin"),
    "endless, of no length": (go_on_for_ever, WrongContent, "how long"),
    "headers without end": (say_headers_for_ever, StoreUnavailable, "connection fails"),
    "nothing": (say_nothing, StoreUnavailable, "connection fails"),
    "no HTTP": (lambda c, _p, _f: c.sendall(b"SSH-2.0-x\r\n"), StoreUnavailable, "fails"),
    "a length that is none": (declare("Content-Length: -5"), WrongContent, "how long"),
    "a length in words": (declare("Content-Length: \xb2"), WrongContent, "how long"),
    "pieces": (declare("Transfer-Encoding: chunked", b"5\r\nhello\r\n"), WrongContent, "how long"),
    "compressed": (
        declare(f"Content-Encoding: gzip\r\nContent-Length: {len(FILE)}"),
        WrongContent,
        "how long",
    ),
    "a length above what comes": (declare("Content-Length: 99", b"x"), StoreError, "."),
    "elsewhere": (
        say_status("302 Found", "Location: http://169.254.0.1/secret"),
        WrongContent,
        "sends us to 'http://169.254.0.1/secret'",
    ),
    "not there": (say_status("404 Not Found"), NotInStore, "there is none"),
    "an error of its own": (say_status("500 Oops"), StoreUnavailable, "answers 500"),
    "a part that nobody wants": (say_status("206 Partial Content"), StoreUnavailable, "206"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_server_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    """Other bytes, endless ones, or none: one line that names the root, and nothing is kept."""
    answer, kind, problem = HOSTILE[case]
    with answering(answer) as url:
        store = open_store(url, tmp_path, patience_s=5)
        with pytest.raises(kind, match=problem) as caught:
            store.get_tensor(ROOT)
    assert "\n" not in str(caught.value)
    assert ROOT.hex() in str(caught.value)
    assert url in str(caught.value)
    assert not [name for name in left_in(tmp_path) if not name.startswith("partial")]
    for name in left_in(tmp_path):
        kept = (tmp_path / name).read_bytes()
        assert kept[: len(PREFIX)] == PREFIX  # what was right of it, for another store to go on


@pytest.mark.parametrize("answer", ["head", "body"])
def test_a_slow_server_is_cut_off(answer: str, tmp_path: Path) -> None:
    """Whoever sends a byte now and then, of the head or of the body, is not waited for for ever."""

    def drip(connection: socket.socket, _path: str, _first: int) -> None:
        if answer == "body":
            send_head(connection, f"Content-Length: {len(FILE)}")
        for byte in FILE if answer == "body" else b"HTTP/1.1 200 OK\r\nX: " + bytes(1 << 20):
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with answering(drip) as url:
        store = open_store(url, tmp_path, patience_s=0.2)
        with pytest.raises(StoreUnavailable, match=r"fewer than|connection fails"):
            store.get_tensor(ROOT)
    assert left_in(tmp_path) == []


def breaking(after: int, ends: list[int]) -> Answer:
    """Return an answer that breaks off after so many bytes of the file, each time."""

    def answer(connection: socket.socket, _path: str, first: int) -> None:
        ends.append(first)
        size = len(FILE)
        if first:
            place = f"Content-Range: bytes {first}-{size - 1}/{size}"
            send_head(
                connection, f"Content-Length: {size - first}", place, status="206 Partial Content"
            )
        else:
            send_head(connection, f"Content-Length: {size}")
        connection.sendall(FILE[first : first + after])

    return answer


def test_a_broken_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    """A server that breaks off every time serves all in the end, and no piece twice."""
    starts: list[int] = []
    with answering(breaking(PIECE + len(PREFIX), starts)) as url:
        found = open_store(url, tmp_path).get_tensor(ROOT)
    assert found.tobytes() == ARRAY.tobytes()
    assert starts == [0, len(PREFIX) + PIECE, len(PREFIX) + 2 * PIECE]
    assert left_in(tmp_path) == [NAME]


def test_a_server_without_ranges_serves_what_is_left(tmp_path: Path) -> None:
    """What is here already is read again and dropped."""
    starts: list[int] = []

    def answer(connection: socket.socket, _path: str, first: int) -> None:
        starts.append(first)
        send_head(connection, f"Content-Length: {len(FILE)}")
        connection.sendall(FILE if first else FILE[: PIECE + len(PREFIX)])

    with answering(answer) as url:
        assert open_store(url, tmp_path).get_tensor(ROOT).tobytes() == ARRAY.tobytes()
    assert len(starts) == 2


def test_a_break_is_an_error_in_the_end_and_what_came_is_kept(tmp_path: Path) -> None:
    """A server that has stopped is left; another one serves the rest, and that alone."""

    def answer(connection: socket.socket, path: str, first: int) -> None:
        if not first:
            breaking(PIECE + len(PREFIX), [])(connection, path, first)

    with answering(answer) as url, pytest.raises(StoreUnavailable, match=ROOT.hex()):
        open_store(url, tmp_path).get_tensor(ROOT)
    assert left_in(tmp_path) == [f"partial/tensors-{ROOT.hex()}"]
    starts: list[int] = []
    with answering(breaking(len(FILE), starts)) as url:
        assert open_store(url, tmp_path).get_tensor(ROOT).tobytes() == ARRAY.tobytes()
    assert starts == [len(PREFIX) + PIECE]
    assert left_in(tmp_path) == [NAME]


@pytest.mark.parametrize("damage", ["prefix", "first", "middle", "longer", "hole"])
def test_a_damaged_partial_file_is_not_believed(
    damage: str, origin: DataStore, tmp_path: Path
) -> None:
    """Whatever a partial file holds, the tensor is right in the end."""
    cache = tmp_path / "cache"
    Disk(cache)
    content = bytearray(FILE[: len(PREFIX) + 2 * PIECE])
    places = {"prefix": 30, "first": len(PREFIX), "middle": len(PREFIX) + PIECE + 5}
    if damage in places:
        content[places[damage]] ^= 1
    elif damage == "longer":
        content = bytearray(FILE + b"more")
    else:
        content[len(PREFIX) + SUBTREE_BYTES : len(PREFIX) + PIECE] = bytes(PIECE - SUBTREE_BYTES)
    (cache / "partial" / f"tensors-{ROOT.hex()}").write_bytes(content)
    with serving(origin.disk.path) as server:
        assert open_store(server.url, cache).get_tensor(ROOT).tobytes() == ARRAY.tobytes()
    assert (cache / NAME).read_bytes() == FILE
    assert left_in(cache) == [NAME]


KILLED = """
import sys
from moot.offchain.datastore.store import open_store
open_store(sys.argv[1], sys.argv[2]).fetch_tensors([bytes.fromhex(sys.argv[3])])
"""


def start_fetch(url: str, folder: Path, root: bytes = ROOT) -> subprocess.Popen[bytes]:
    """Start a process that fetches a tensor."""
    command = [sys.executable, "-c", KILLED, url, str(folder), root.hex()]
    return subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603 - this interpreter


def test_a_killed_fetch_goes_on(tmp_path: Path) -> None:
    """After kill -9 in the middle, with a piece there, the next process asks for the rest alone."""
    starts: list[int] = []

    def stall(connection: socket.socket, _path: str, first: int) -> None:
        starts.append(first)
        send_head(connection, f"Content-Length: {len(FILE)}")
        connection.sendall(FILE[: len(PREFIX) + PIECE + 1000])
        connection.recv(1)

    cache = tmp_path / "cache"
    partial = cache / "partial" / f"tensors-{ROOT.hex()}"
    with answering(stall) as url:
        with start_fetch(url, cache) as process:
            while not partial.exists() or partial.stat().st_size < len(PREFIX) + PIECE:
                assert process.poll() is None
                time.sleep(0.01)
            process.kill()
        assert left_in(cache) == [f"partial/tensors-{ROOT.hex()}"]
    with answering(breaking(len(FILE), starts)) as url, start_fetch(url, cache) as process:
        assert process.wait() == 0
    assert starts == [0, len(PREFIX) + PIECE]
    assert left_in(cache) == [NAME]
    assert (cache / NAME).read_bytes() == FILE


def test_two_processes_fetch_once(tmp_path: Path) -> None:
    """The second waits for the first, and finds what that one has fetched."""
    starts: list[int] = []
    with answering(breaking(len(FILE), starts)) as url:
        both = [start_fetch(url, tmp_path) for _ in range(2)]
        assert [process.wait() for process in both] == [0, 0]
        for process in both:
            process.communicate()
    assert starts == [0]
    assert left_in(tmp_path) == [NAME]


def test_threads_share_a_folder(origin: DataStore, tmp_path: Path) -> None:
    """Stores on one folder in one process do not get into each other's way."""
    found: list[bytes] = []
    with serving(origin.disk.path) as server:
        stores = [open_store(server.url, tmp_path / "cache") for _ in range(4)]
        threads = [
            Thread(target=lambda s=store: found.append(s.get_tensor(ROOT).tobytes()))  # type: ignore[misc]  # mypy infers no default's type
            for store in stores
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [ARRAY.tobytes()] * 4


def test_a_damaged_file_of_the_cache_is_fetched_again(origin: DataStore, tmp_path: Path) -> None:
    """What a power failure has left of a file is noticed when it is read, and made good."""
    cache = tmp_path / "cache"
    with serving(origin.disk.path) as server:
        store = open_store(server.url, cache)
        store.get_tensor(ROOT)
        os.truncate(cache / NAME, len(FILE) - 100)
        assert store.get_tensor(ROOT).tobytes() == ARRAY.tobytes()


def test_another_slot_is_refused_before_anything_is_read(origin: DataStore, tmp_path: Path) -> None:
    """A tensor that is not of the type and shape that the program says is not fetched."""
    slot = Slot("x", DType.FLOAT32, (7, 7))
    with serving(origin.disk.path) as server:
        store = open_store(server.url, tmp_path / "cache")
        with pytest.raises(WrongContent, match=r"float32 \(7, 100000\), and float32 \(7, 7\)"):
            store.get_tensor(ROOT, slot)
    assert left_in(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("dtype", "bits"), [(np.float32, 0x7F800001), (np.uint16, 0x7F81), (np.bool_, 2)]
)
def test_bytes_that_are_not_canonical_are_refused(
    dtype: type[np.generic], bits: int, tmp_path: Path
) -> None:
    """A NaN of another payload, or a boolean of 2, has no place even under its own hash."""
    width = np.dtype(dtype).itemsize
    raw = np.array([bits], f"<u{width}")
    layer = fetch.hash_bytes(raw.view(np.uint8))
    like = commit_tensor(np.zeros(1, dtype))
    root = type(like)(like.header, layer).root
    content = encode_prefix(type(like)(like.header, layer)) + raw.tobytes()
    with answering(plain(content)) as url, pytest.raises(WrongContent, match="from 0 on"):
        open_store(url, tmp_path).get_tensor(root)


def test_room_is_needed_before_anything_is_fetched(
    origin: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is too full for what is declared is said to be, and nothing is written."""
    monkeypatch.setattr(Disk, "get_room", lambda _: 1000)
    slot = Slot("x", DType.FLOAT32, ARRAY.shape)
    with serving(origin.disk.path) as server:
        store = open_store(server.url, tmp_path / "cache")
        with pytest.raises(StoreError, match=r"1 tensors take 0.00 GB"):
            store.get_tensor(ROOT, slot)
        with pytest.raises(WrongContent, match=r"declares 2,800,[0-9]* bytes, above 1,000"):
            store.get_tensor(ROOT)
    assert left_in(tmp_path / "cache") == []


# --- The server -----------------------------------------------------------------------------------


def ask(port: int, lines: str) -> bytes:
    """Send a request as it is, and return all that comes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(lines.replace("\n", "\r\n").encode())
        connection.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def port(origin: DataStore) -> Iterator[int]:
    """The port of a server of the store."""
    with serving(origin.disk.path) as server:
        yield int(server.server_address[1])


@pytest.mark.parametrize(
    "path",
    [
        *("/lock", "/notes/run.json", "/../secret", "/tensors/../../secret", "//etc/passwd"),
        *("/tensors", "/tensors/", f"/tensors/{ROOT.hex()}/", f"/tensors/{ROOT.hex().upper()}"),
        *(f"/tensors/%2e%2e/{'0' * 64}", "/tensors/" + "0" * 64, "/" + "x" * 10_000, "/aside/x"),
        *("/tensors/..%2f..%2fsecret", f"/{NAME}\0", f"http://other/{NAME}", f"/{NAME}?x"),
    ],
)
def test_nothing_but_objects_is_served(origin: DataStore, port: int, path: str) -> None:
    """No path leads out of the folder or to what is not shared."""
    (origin.disk.path / "notes").mkdir()
    (origin.disk.path / "notes" / "run.json").write_text("secret")
    (origin.disk.path.parent / "secret").write_text("secret")
    found = ask(port, f"GET {path} HTTP/1.0\n\n")
    assert b" 404 " in found.splitlines()[0]
    assert b"secret" not in found


def test_links_are_not_served(origin: DataStore, port: int) -> None:
    """A link with an object's name leads nowhere, and neither does a folder or a pipe."""
    secret = origin.disk.path.parent / "secret"
    secret.write_text("secret")
    for place, make in enumerate([Path.symlink_to, Path.hardlink_to]):
        make(origin.disk.path / "tensors" / f"{place:064x}", secret)
    (origin.disk.path / "tensors" / f"{2:064x}").mkdir()
    os.mkfifo(origin.disk.path / "tensors" / f"{3:064x}")
    for place, status in ((0, b"404"), (2, b"404"), (3, b"404")):
        assert status in ask(port, f"GET /tensors/{place:064x} HTTP/1.0\n\n").splitlines()[0]


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=0-", 200, slice(None)),
        ("bytes=5-", 206, slice(5, None)),
        ("bytes=5-9", 206, slice(5, 10)),
        ("bytes=-7", 206, slice(-7, None)),
        (f"bytes=5-{1 << 62}", 206, slice(5, None)),
        (f"bytes={len(FILE)}-", 416, slice(0, 0)),
        ("bytes=9-5", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=0-1,4-5", 200, slice(None)),
        ("bytes=x", 200, slice(None)),
        ("bytes=-", 200, slice(None)),
        (f"bytes={'9' * 400}-", 200, slice(None)),
    ],
)
def test_ranges(port: int, wanted: str, status: int, part: slice) -> None:
    """One range is served; what is none, or several, is left out of account."""
    head, _, body = ask(port, f"GET /{NAME} HTTP/1.0\nRange: {wanted}\n\n").partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    assert body == FILE[part]
    if status == 206:
        first, last = part.indices(len(FILE))[:2]
        assert f"Content-Range: bytes {first}-{last - 1}/{len(FILE)}".encode() in head


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_server_only_reads(origin: DataStore, port: int, method: str) -> None:
    """No method changes anything."""
    found = ask(port, f"{method} /{NAME} HTTP/1.1\nHost: x\nContent-Length: 1\n\nx")
    assert b" 501 " in found.splitlines()[0]
    assert (origin.disk.path / NAME).read_bytes() == FILE


def test_a_web_store_is_not_written(tmp_path: Path) -> None:
    """To put something to an address of HTTP is refused, before it is asked."""
    with pytest.raises(StoreError, match="can only be read"):
        open_store("http://127.0.0.1:9", tmp_path).put_roots("states", [ROOT])


@pytest.mark.parametrize(
    "url", ["http://", "http://u:p@h/", "http://h:99999/", "http://h/?q=1", "nosuch://x"]
)
def test_an_address_that_is_none_is_refused(url: str, tmp_path: Path) -> None:
    """A wrong address is one line."""
    with pytest.raises(UsageError) as caught:
        open_store(url, tmp_path)
    assert "\n" not in str(caught.value)


def test_the_command_serves_until_it_is_terminated(origin: DataStore, tmp_path: Path) -> None:
    """`moot store serve` prints its address, serves, and ends well on SIGTERM."""
    command = [
        sys.executable,
        "-c",
        "from moot.command import main; main()",
        "store",
        "serve",
        str(origin.disk.path),
    ]
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", url)
        assert open_store(url, tmp_path / "cache").get_tensor(ROOT).tobytes() == ARRAY.tobytes()
        process.send_signal(signal.SIGTERM)
        rest, complaints = process.communicate()
    assert (process.returncode, rest, complaints) == (0, "", "")


def test_the_commands_list_get_and_verify(origin: DataStore, tmp_path: Path) -> None:
    """Each says what it has found; a damaged object is named, with a status of its own."""
    root, copy = origin.put_state([ARRAY, ARRAY[0]]).hex(), str(tmp_path / "copy")
    with serving(origin.disk.path) as server:
        listed = moot("store", "list", server.url, "--json")
        got = [moot("store", "get", server.url, it, copy, "--json") for it in (root, ROOT.hex())]
        lost = moot("store", "get", server.url, "ab" * 32, copy)
        wrong = moot("store", "get", server.url, "12", copy)
        local = moot("store", "get", str(origin.disk.path), root, copy)
        right = moot("store", "verify", server.url, "--json")
        content = bytearray(FILE)
        content[-1] ^= 1
        (origin.disk.path / NAME).write_bytes(content)
        damaged = moot("store", "verify", server.url, "--json")
    assert {it["name"] for it in json.loads(listed.stdout)["objects"]} >= {NAME, f"states/{root}"}
    assert [json.loads(it.stdout)["kind"] for it in got] == ["state", "tensor"]
    assert [it.status for it in (lost, wrong, local)] == [1, 2, 2]
    assert all(it.stderr.count("\n") == 1 for it in (lost, wrong, local))
    assert "ab" * 32 in lost.stderr
    assert (right.status, json.loads(right.stdout)["right"]) == (0, {"tensors": 2, "states": 1})
    assert (damaged.status, [*json.loads(damaged.stdout)["wrong"]]) == (3, [NAME])


def test_the_list_of_a_server_is_bounded() -> None:
    """A list that is none, or has no end, is refused."""
    answers: list[Callable[[], Answer]] = [
        lambda: plain(b"../../etc/passwd 5\n"),
        lambda: declare(f"Content-Length: {1 << 40}"),
    ]
    for make in answers:
        with answering(make()) as url, pytest.raises(WrongContent, match="its index"):
            list(Web(url).list())


# --- Jobs -----------------------------------------------------------------------------------------

STRANGER = """
import sys
from moot.contracts.model.types import Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.datastore.store import open_store
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.publication import get_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
terms = eval(sys.argv[3])
task = get_task(open_store(sys.argv[1], sys.argv[2] + "/cache"), terms)
run = Run(task, Behaviour(), Store(sys.argv[2] + "/own"))
run.compute()
assert "torch" not in sys.modules
print(run.history.top.hex())
"""


@cache
def capture_job(arithmetic: str = "ordered") -> Task:
    """Capture a small training."""
    setting = Setting(program="mlp", steps=4, checkpoint_every=2, arithmetic=arithmetic, seed=5)
    return make_task(setting)


def test_a_stranger_runs_a_job_from_its_terms_and_an_address(tmp_path: Path) -> None:
    """Another process, without torch, fetches, verifies and runs the job, and claims the same."""
    task = capture_job()
    terms = make_terms(task)
    told = repr(terms).replace(repr(terms.leaf_mode), f"LeafMode({terms.leaf_mode:d})")
    put_task(open_store(str(tmp_path / "origin")), task)
    honest = Run(task, Behaviour(), Store(tmp_path / "honest"))
    honest.compute()
    with serving(tmp_path / "origin") as server:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", STRANGER, server.url, str(tmp_path), told],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stderr, done.stdout.strip()) == ("", honest.history.top.hex())
    with serving(tmp_path / "own") as server:  # the result comes from the stranger's own store
        final = open_store(server.url, tmp_path / "client").get_state(honest.roots[-1])
    assert [a.tobytes() for a in final] == [a.tobytes() for a in honest.state(4)]


@pytest.mark.parametrize("arithmetic", only({"logged"}, ["exact", "logged"]))
def test_a_job_of_every_arithmetic_is_found(arithmetic: str, tmp_path: Path) -> None:
    """The terms do not name the arithmetic; its program is found, with its logs where it has."""
    task = capture_job(arithmetic)
    put_task(open_store(str(tmp_path / "origin")), task)
    with serving(tmp_path / "origin") as server:
        found = get_task(open_store(server.url, tmp_path / "cache"), make_terms(task))
    assert found.commitment.header == task.commitment.header
    assert found.logs == task.logs
    assert make_terms(found) == make_terms(task)


@pytest.mark.parametrize("kind", ["programs", "states", "batches", "tensors"])
@pytest.mark.parametrize("way", ["missing", "spoilt", "longer"])
def test_a_job_that_is_not_published_whole_is_refused(kind: str, way: str, tmp_path: Path) -> None:
    """Whatever object is missing or is another one: one line that names it, and no task."""
    task = capture_job()
    origin = open_store(str(tmp_path / "origin"))
    put_task(origin, task)
    victim = max((origin.disk.path / kind).iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    if way == "missing":
        victim.unlink()
    else:
        content[-40 if kind == "programs" else -1] ^= 1
        victim.write_bytes(content if way == "spoilt" else victim.read_bytes() + bytes(32))
    with serving(tmp_path / "origin") as server, pytest.raises(StoreError) as caught:
        get_task(open_store(server.url, tmp_path / "cache"), make_terms(task))
    assert "\n" not in str(caught.value)
    assert victim.name in str(caught.value)
    assert not (tmp_path / "cache" / kind / victim.name).exists()


@pytest.mark.parametrize(
    "change", [{"layout": bytes(32)}, {"program_top": bytes(32)}, {"start_root": bytes(32)}]
)
def test_terms_of_another_job_find_nothing(change: dict[str, bytes], tmp_path: Path) -> None:
    """Terms that bind something else are not served with what there is."""
    task = capture_job()
    store = open_store(str(tmp_path))
    put_task(store, task)
    with pytest.raises(NotInStore):
        get_task(store, replace(make_terms(task), **change))


def test_terms_of_endless_steps_are_refused(tmp_path: Path) -> None:
    """A job whose batches no disk holds is refused before anything of them is asked for."""
    task = capture_job()
    store = open_store(str(tmp_path))
    put_task(store, task)
    with pytest.raises(StoreError, match="tensors of batches take"):
        get_task(store, replace(make_terms(task), steps=2**48))


MEMORY = """
import sys, re
from pathlib import Path
import numpy as np
from moot.offchain.commitments.tensors import hash_bytes
from moot.offchain.datastore.store import open_store
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
hash_bytes(np.zeros(1 << 18, np.uint8))
before = peak()
open_store(sys.argv[1], sys.argv[2]).fetch_tensors([bytes.fromhex(sys.argv[3])])
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_tensor(tmp_path: Path) -> None:
    """A tensor of 256 MB is fetched in a few megabytes."""
    origin = open_store(str(tmp_path / "origin"))
    root = origin.put_tensors([np.zeros(1 << 26, np.float32)])[0]
    with serving(tmp_path / "origin") as server:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", MEMORY, server.url, str(tmp_path / "cache"), root.hex()],
            capture_output=True,
            text=True,
            check=True,
        )
    assert int(done.stdout) < 24_000  # kB
