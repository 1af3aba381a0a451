"""Stores of a job: in memory where there is plenty, else on disk, and gone afterwards."""

import tempfile
from pathlib import Path

import pytest

from moot.sim import scratch
from moot.sim.scratch import has_room, open_scratch
from tests.sim_helpers import make_task, play_model_market


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


def test_a_market_leaves_no_stores(places: tuple[Path, Path]) -> None:
    """Nothing of any job is left when the market is over."""
    play_model_market("honest=2", 2, 0)
    assert [list(place.iterdir()) for place in places] == [[], []]


def test_room_is_what_is_free(tmp_path: Path) -> None:
    """A directory has room for nothing, but not for more than any disk holds."""
    assert has_room(tmp_path, 0)
    assert not has_room(tmp_path, 1 << 80)
    assert not has_room(tmp_path / "missing", 0)
