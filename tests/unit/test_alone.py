"""A server in a process of its own: it serves, it is begun again, and it ends with its owner."""

import os
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from moot.offchain.datastore.alone import ServerProcess
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.names import KINDS, PRIVATE
from moot.offchain.errors import StoreError
from moot.offchain.parties import serving

NAME = f"{KINDS[0]}/" + "ab" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an object."""
    Disk(tmp_path / "results")
    (tmp_path / "results" / NAME).write_bytes(b"object")
    return tmp_path / "results"


def test_a_server_that_was_killed_serves_again_where_it_did(folder: Path) -> None:
    """Who looks after it begins it anew; with its owner it ends."""
    with ServerProcess(folder, "127.0.0.1", 0) as server:
        for _ in range(2):
            with urlopen(f"{server.url}/{NAME}") as answer:  # noqa: S310 - our own
                assert answer.read() == b"object"
            process, url = server._process, server.url
            assert process is not None
            assert process.pid != os.getpid()
            assert os.getpriority(os.PRIO_PROCESS, process.pid) > 0
            process.send_signal(signal.SIGKILL)
            process.wait()
            server.tend()
            assert server.url == url
        last = server._process
    server.__exit__()  # once more is no harm
    assert last is not None
    assert last.returncode == 0


def test_what_can_not_be_served_is_said(folder: Path) -> None:
    """In the words of the server."""
    (folder / PRIVATE).touch()
    with pytest.raises(StoreError, match="serve `results` alone"), ServerProcess(folder, "::1", 0):
        raise AssertionError


def test_a_party_serves_in_no_thread_of_its_own() -> None:
    """Clients of a server in its process would take its clocks' time."""
    assert "threading" not in vars(serving)
    assert vars(serving)["ServerProcess"] is ServerProcess
