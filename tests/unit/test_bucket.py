"""A store in a bucket: s3fs is the client, and a process of its own speaks S3, or only says so."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.commitments.tensors import SUBTREE_BYTES, Array, commit_tensor
from moot.offchain.datastore import fetch
from moot.offchain.datastore.bucket import Bucket
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.objects import TENSORS, encode_prefix, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import NotInStore, StoreError, StoreUnavailable, UsageError, WrongContent
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import get_task, put_task
from moot.offchain.providers.setting import Setting
from tests.store_helpers import Answer, answering, send_head

NEED = "pip install moot[s3-test] brings what speaks S3, without which this is not tried"
s3fs = pytest.importorskip("s3fs", reason=NEED)
pytest.importorskip("moto.server", reason=NEED)
pytestmark = [
    # The server that speaks S3 is of others, and so is what it warns of.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(boto|aioboto|dateutil|s3fs)"),
]

ARRAY: Array = np.arange(700_000, dtype=np.float32)
COMMITMENT = commit_tensor(ARRAY)
ROOT = COMMITMENT.root
NAME = name_object(TENSORS, ROOT)
PREFIX = encode_prefix(COMMITMENT)
FILE = PREFIX + ARRAY.tobytes()
SECRET = "not-to-be-seen-4711"  # noqa: S105 - of nobody
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run a server that speaks S3, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **quiet) as process:  # type: ignore[call-overload]  # noqa: S603 - of the tests
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert time.monotonic() < end, "the server does not begin"
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give credentials by the environment, and let no test see another's client."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setattr(fetch, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def url(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the address of a folder in a bucket that is there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    bucket = tmp_path.name.replace("_", "-").lower()[:50]
    s3fs.S3FileSystem().mkdir(bucket)
    return f"s3://{bucket}/job"


def test_a_job_is_published_and_fetched(url: str, tmp_path: Path) -> None:
    """Program, start and batches come back, verified; a second store sees what the first put."""
    task = make_task(Setting(program="mlp", steps=3, checkpoint_every=1, trust_capture=True))
    terms = make_terms(task)
    reader = open_store(url, tmp_path / "two")
    assert [*reader.list()] == []
    with pytest.raises(NotInStore, match="there is none"):
        get_task(reader, terms)
    put_task(open_store(url, tmp_path / "one"), task)
    assert make_terms(get_task(reader, terms)) == terms
    assert reader.has_state(terms.start_root)
    names = dict(reader.list())
    assert {name.partition("/")[0] for name in names} == {
        "programs",
        "states",
        "batches",
        "tensors",
    }
    kept = dict(open_store(str(tmp_path / "two")).list())
    assert kept == names


def test_a_tensor_comes_in_pieces_and_from_any_place(url: str, tmp_path: Path) -> None:
    """What is fetched is verified while it comes, and a fetch goes on from what has come."""
    open_store(url, tmp_path / "one").put_tensors([ARRAY])
    bucket = Bucket(url)
    assert bucket.get_size(NAME) == len(FILE)
    for start in (0, 1, len(PREFIX), len(FILE) - 1):
        stream = bucket.open(NAME, start)
        assert fetch.take(stream, len(FILE) - start) == FILE[start:]
        stream.close()
    with pytest.raises(WrongContent, match="it ends before byte"):
        bucket.open(NAME, len(FILE) + 5)
    disk = Disk(tmp_path / "two")
    partial = tmp_path / "two" / "partial" / NAME.replace("/", "-")
    partial.write_bytes(FILE[: len(PREFIX) + 3 * SUBTREE_BYTES])
    assert open_store(url, tmp_path / "two").get_tensor(ROOT).tobytes() == ARRAY.tobytes()
    assert not partial.exists()
    assert disk.get_size(NAME) == len(FILE)


def test_what_fails_while_it_is_put_is_not_there(url: str, tmp_path: Path) -> None:
    """An object appears whole or not at all; in a bucket that is missing, neither."""
    bucket = Bucket(url)

    def parts() -> Iterator[bytes]:
        yield PREFIX
        raise StoreError("the dataset has changed")

    with pytest.raises(StoreError, match="dataset has changed"):
        bucket.put(NAME, parts())
    assert bucket.get_size(NAME) is None
    with pytest.raises(StoreError, match=r"bucket does not exist.*make the bucket"):
        open_store("s3://not-there/x", tmp_path / "one").put_tensors([ARRAY])
    with pytest.raises(NotInStore):
        open_store("s3://not-there/x", tmp_path / "one").get_tensor(ROOT)


def test_wrong_bytes_are_refused(url: str, tmp_path: Path) -> None:
    """Whoever may write to the bucket cannot make anybody keep them."""
    open_store(url, tmp_path / "one").put_tensors([ARRAY])
    path = f"{url}/{NAME}"
    files = s3fs.S3FileSystem()
    for content in (FILE[:-1] + b"\1", FILE[:-1], FILE + b"\0", b"", b"x" * 99):
        files.pipe_file(path, content)
        with pytest.raises(WrongContent, match=ROOT.hex()):
            open_store(url, tmp_path / "two").get_tensor(ROOT)
        assert not (tmp_path / "two" / NAME).exists()
    files.pipe_file(f"{url}/tensors/readme.txt", b"hello")
    assert [name for name, _ in Bucket(url).list()] == [NAME]


def refuse_key(connection: socket.socket, _path: str, _first: int) -> None:
    """Say what S3 says to an unknown key."""
    body = (
        b"<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does "
        b"not exist in our records.</Message></Error>"
    )
    length, kind = f"Content-Length: {len(body)}", "Content-Type: application/xml"
    send_head(connection, length, kind, status="403 Forbidden")
    connection.sendall(body)


def test_wrong_credentials_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the store and the reason, and has no secret in it."""
    with answering(refuse_key) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        store = open_store("s3://bucket/job", tmp_path / "one")
        for act in (
            lambda: store.get_tensor(ROOT),
            lambda: store.put_bytes(TENSORS, ROOT, FILE),
            lambda: [*store.list()],
        ):
            with pytest.raises(StoreError, match=r"s3://bucket/job: PermissionError") as found:
                act()
            assert "\n" not in str(found.value)
            assert SECRET not in str(found.value)


def test_no_credentials_are_one_line(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has none is told so."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(StoreUnavailable, match=r"(?i)credentials"):
        open_store(url, tmp_path / "two").get_tensor(ROOT)


@pytest.mark.parametrize("address", [f"s3://someone:{SECRET}@bucket/x", f"s3://{SECRET}@bucket"])
def test_an_address_has_no_password(address: str, tmp_path: Path) -> None:
    """It is refused, and not repeated: addresses stand in logs and on command lines."""
    with pytest.raises(UsageError, match="no password") as found:
        open_store(address, tmp_path / "one")
    assert SECRET not in str(found.value)


def test_commands_say_no_secret(url: str, tmp_path: Path) -> None:
    """Whether they succeed or fail, at the most talkative."""
    open_store(url, tmp_path / "one").put_tensors([ARRAY])
    moot = [sys.executable, "-c", "from moot.command import main; main()", "store"]
    for root, status in ((ROOT, 0), (bytes(32), 1)):
        words = [*moot, "get", url, root.hex(), str(tmp_path / "copy")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        assert (done.returncode == 0) == (status == 0), done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert len(done.stderr.splitlines()) <= 1


def pretend(content: bytes, *, stops_at: int | None = None) -> tuple[Answer, list[int]]:
    """Return an answer of a server that has one object, and where it was asked from on."""
    asked: list[int] = []

    def answer(connection: socket.socket, _path: str, first: int) -> None:
        asked.append(first)
        size, status = len(content), "200 OK"
        head = [f"Content-Length: {size - first}"]
        if first:
            head.append(f"Content-Range: bytes {first}-{size - 1}/{size}")
            status = "206 Partial Content"
        send_head(connection, *head, status=status)
        end = stops_at if stops_at is not None and len(asked) == 1 else size
        connection.sendall(content[first:end])
        if end < size:
            time.sleep(0.3)  # the client drops what it has not read when the connection breaks

    return answer, asked


def test_a_fetch_goes_on_where_it_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks is made again, from the first byte on that is missing."""
    answer, asked = pretend(FILE, stops_at=len(PREFIX) + 5 * SUBTREE_BYTES)
    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        found = open_store("s3://bucket/job", tmp_path / "one").get_tensor(ROOT)
    assert found.tobytes() == ARRAY.tobytes()
    assert len(asked) == 2
    assert asked[1] == len(PREFIX) + 4 * SUBTREE_BYTES


def say_forever(connection: socket.socket, _path: str, _first: int) -> None:
    """Send bytes that never end, of which nobody says how many there are."""
    send_head(connection, "Transfer-Encoding: chunked")
    while True:
        connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def say_much(connection: socket.socket, _path: str, _first: int) -> None:
    """Send what is right at first, and then bytes that never end."""
    send_head(connection, f"Content-Length: {10**15}")
    connection.sendall(FILE)
    while True:
        connection.sendall(b"\0" * 65536)


def say_slowly(connection: socket.socket, _path: str, _first: int) -> None:
    """Send a byte now and then."""
    send_head(connection, f"Content-Length: {len(FILE)}")
    for byte in FILE:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


def say_nothing(connection: socket.socket, _path: str, _first: int) -> None:
    """Never answer."""
    connection.recv(1)


def send_away(connection: socket.socket, _path: str, _first: int) -> None:
    """Send us elsewhere."""
    send_head(
        connection,
        "Content-Length: 0",
        "Location: http://127.0.0.1:9/elsewhere",
        status="307 Temporary Redirect",
    )


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (say_forever, StoreError, "how long"),
        (say_much, WrongContent, "bytes are offered"),
        (say_slowly, StoreUnavailable, None),
        (say_nothing, StoreUnavailable, None),
        (send_away, StoreError, None),
        (pretend(FILE[:-1] + b"\1")[0], WrongContent, "not those of the root"),
        (pretend(b"x" * len(FILE))[0], WrongContent, "begin"),
    ],
)
def test_what_a_stranger_says_is_bounded(
    answer: Answer,
    error: type[StoreError],
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In bytes, in time and in words; nothing of it is kept."""
    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        began = time.monotonic()
        store = open_store("s3://bucket/job", tmp_path / "one", patience_s=0.5)
        with pytest.raises(error, match=said) as found:
            store.get_tensor(ROOT)
    assert time.monotonic() - began < 20
    assert len(str(found.value)) < 700
    assert not (tmp_path / "one" / NAME).exists()
