"""A net whose events are heard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.offchain.datastore.objects import PROGRAMS, TENSORS
from moot.offchain.datastore.store import open_store
from moot.offchain.parties import testnet
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.setting import Setting
from tests.parties.nets import MOOT, Heard


@pytest.fixture
def heard() -> Heard:
    """Return what hears the net."""
    return Heard()


@pytest.fixture
def net(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Iterator[testnet.Testnet]:
    """Yield a net whose journals are its own."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    with testnet.Testnet(tmp_path / "net", MOOT, heard, block_seconds=0.3) as found:
        yield found


@pytest.fixture
def gaps(tmp_path: Path) -> Path:
    """A store of the job that lacks three chunks of the start, a tensor, and an operator."""
    task = make_task(Setting(program="mlp", steps=4, checkpoint_every=2, trust_capture=True))
    folder = tmp_path / "gaps"
    put_task(open_store(str(folder)), task)
    (program,) = (folder / PROGRAMS).iterdir()
    _turn(program, program.read_bytes().index(task.commitment.encodings[21]) + 11)
    sized = {
        root.hex(): it.nbytes
        for root, it in zip(task.start_roots, task.initial_state, strict=True)
        if it.any()  # zeros need no demand
    }
    least, *_, largest = sorted(sized, key=lambda it: sized[it])
    for place in (700, sized[largest] // 2 + 300, sized[largest] - 1):
        path = folder / TENSORS / largest
        _turn(path, path.stat().st_size - sized[largest] + place)
    (folder / TENSORS / least).unlink()
    return folder


def _turn(path: Path, place: int) -> None:
    """Change a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
