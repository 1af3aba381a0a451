"""Files that go past the system's cache: they are whole, whatever the system and the disk do."""

import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.datastore import direct
from moot.offchain.providers.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


SIZES = (0, 1, 4_095, 1 << 20, (1 << 21) - 1, 1 << 21, (1 << 21) + 4_097, (1 << 22) + 5)


@pytest.mark.parametrize("size", SIZES)
def test_what_goes_past_the_cache_comes_whole(store: Store, size: int) -> None:
    """Files around whole blocks have every byte, in whatever parts these came."""
    data = np.random.default_rng(size).bytes(size)
    cut = size // 3
    store.disk.put("tensors/it", [data[:cut], memoryview(data)[cut:]])
    assert (store.path / "tensors" / "it").read_bytes() == data


@pytest.mark.parametrize("refused", ["flags", "blocks"])
def test_a_disk_that_takes_no_direct_writes_gets_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A file is the same where the system refuses the flag, or a block that has it."""
    invalid = OSError(errno.EINVAL, "Invalid argument")

    def refuse(*_: object) -> int:
        raise invalid

    def write(descriptor: int, data: memoryview) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise invalid
        return real(descriptor, data)

    real = os.write
    if refused == "flags":
        monkeypatch.setattr(direct.fcntl, "fcntl", refuse)
    else:
        monkeypatch.setattr(direct.os, "write", write)
    data = bytes(range(256)) * (1 << 14)
    store.disk.put("tensors/it", [data])
    monkeypatch.undo()
    assert (store.path / "tensors" / "it").read_bytes() == data


def test_a_slow_disk_is_waited_for_by_who_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is cleared away writes past the cache until the disk has shown to be slow."""
    monkeypatch.setattr(direct, "_JUDGED_BYTES", 1 << 22)
    seen: list[bool] = []
    real = os.write

    def write(descriptor: int, data: memoryview) -> int:
        seen.append(bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT))
        return real(descriptor, data)

    monkeypatch.setattr(direct.os, "write", write)
    for is_durable, speed, expected in (
        (False, 0.0, [True, True, True]),
        (False, 1e18, [True, True, False]),
        (True, 1e18, [True, True, True]),
    ):
        monkeypatch.setattr(direct, "_SLOW_BYTES_A_SECOND", speed)
        store = Store(tmp_path / f"{is_durable} {speed}", is_durable=is_durable)
        found = []
        for name in "abc":
            seen.clear()
            store.disk.put(f"tensors/{name}", [bytes(1 << 21)])
            found.append(any(seen))
        assert found == expected
