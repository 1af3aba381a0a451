"""A net whose events are heard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from offchain.parties import testnet
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
