"""Stores of a job: in memory where there is plenty, else on disk, and gone afterwards."""

import tempfile
from pathlib import Path

import pytest

from moot.offchain.providers.behaviour import Behaviour
from moot.sim import scratch
from moot.sim.economy.casting import Cast
from moot.sim.scratch import has_room, open_scratch
from tests.sim_helpers import make_task


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A directory that passes for memory, and one that passes for the disk."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(scratch, "MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    return memory, disk


def test_small_stores_are_in_memory_until_they_are_not_needed(places: tuple[Path, Path]) -> None:
    """The directory is in memory while it is open, and nowhere afterwards."""
    memory, disk = places
    with open_scratch(make_task(), 3) as folder:
        assert folder.parent == memory
        (folder / "file").write_text("something")
    assert list(memory.iterdir()) == list(disk.iterdir()) == []


@pytest.mark.parametrize("spare", [1 << 60, None])
def test_without_room_in_memory_they_are_on_disk(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, spare: int | None
) -> None:
    """Stores that are too large for memory, or a system without such memory, use the disk."""
    memory, disk = places
    if spare is None:
        memory.rmdir()
    else:
        monkeypatch.setattr(scratch, "SPARE", spare)
    with open_scratch(make_task(), 3) as folder:
        assert folder.parent == disk
    assert list(disk.iterdir()) == []


def test_a_case_that_is_forgotten_leaves_no_stores(places: tuple[Path, Path]) -> None:
    """Nothing of a case is left when nobody plays it again, and nothing of any when all is over."""
    cast = Cast(make_task())
    for number in range(2):
        cast.run(Behaviour(), number)
    (folder,) = places[0].iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]
    cast.forget(0)
    assert [path.name for path in folder.iterdir()] == ["1"]
    cast.run(Behaviour(), 0)
    cast.close()
    assert [list(place.iterdir()) for place in places] == [[], []]


def test_room_is_what_is_free(tmp_path: Path) -> None:
    """A directory has room for nothing, but not for more than any disk holds."""
    assert has_room(tmp_path, 0)
    assert not has_room(tmp_path, 1 << 80)
    assert not has_room(tmp_path / "missing", 0)
