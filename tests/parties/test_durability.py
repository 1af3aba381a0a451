"""What a party keeps: damaged, cut off or without room, it goes on or says one line."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moot.offchain.errors import DamagedFile, StoreError
from moot.offchain.parties.salts import COPIES, find_salt, get_salt
from moot.offchain.providers.store import Store
from tests.parties import durability_journal
from tests.parties.damage import RESUMED, full_disk
from tests.parties.drawn import play
from tests.parties.durability import KINDS
from tests.quick import every

SEEDS = 8
STRIDE = 16


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk, where what is on it after a failure of power is not what is tested."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("seed", every(SEEDS, range(SEEDS)))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_drawn_damage_loses_nothing(kind: str, seed: int) -> None:
    """Whatever is cut off, changed or full: all is made again, or one line says what is wrong."""
    play(KINDS, kind, seed)


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("offset", every(STRIDE, range(STRIDE)))
def test_a_journal_cut_off_at_every_byte_is_used(tmp_path: Path, offset: int) -> None:
    """It knows the lines that are whole, of those that are not none, and takes further ones."""
    lines = durability_journal.write(tmp_path / "whole", Random(7), count=2)
    for place in range(offset, sum(map(len, lines)) + 1, STRIDE):
        folder = tmp_path / str(place)
        assert durability_journal.check_cut(folder, lines, place) == RESUMED


@pytest.mark.usefixtures("swift")
def test_a_salt_survives_damage_at_every_byte(tmp_path: Path) -> None:
    """One copy that is cut off or changed anywhere is replaced by the other; of two, it is said."""
    store = Store(tmp_path / "job", is_durable=False)
    salt = get_salt(store)
    paths = [store.path / "notes" / f"{name}.json" for name in COPIES]
    content = paths[0].read_bytes()
    for path, step in zip(paths, (1, SEEDS), strict=True):
        for place in range(0, len(content) - 1, step):
            for damaged in (content[:place], content[:place] + b"\0" + content[place + 1 :]):
                path.write_bytes(damaged)
                assert find_salt(store) == salt
                assert path.read_bytes() == content
    for path in paths:
        path.write_bytes(content.replace(salt.hex().encode(), b"0" * 64))
    with pytest.raises(DamagedFile, match="its digest is another one's"):
        get_salt(store)


def test_a_salt_of_which_one_copy_is_kept_is_not_given_for_a_claim(tmp_path: Path) -> None:
    """Where a full disk keeps the second copy off, nothing is claimed; a claim is still shown."""
    store = Store(tmp_path / "job", is_durable=False)
    salt = get_salt(store)
    for name in COPIES:
        (store.path / "notes" / f"{name}.json").unlink()
        with full_disk(0):
            with pytest.raises(StoreError, match="there is no room"):
                get_salt(store)
            assert find_salt(store) == salt
        assert get_salt(store) == salt


class Flushed:
    """What was flushed to the disk: `dirty` are folders that have names which were not yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dirty, self.flushed = set[str](), set[str]()
        fsync, mkdir, replace = os.fsync, os.mkdir, os.replace

        def note_mkdir(path: Any, *args: Any, **more: Any) -> None:
            mkdir(path, *args, **more)
            self.dirty.add(str(Path(path).parent))

        def note_replace(one: Any, other: Any, **more: Any) -> None:
            replace(one, other, **more)
            self.dirty.add(str(Path(other).parent))

        def note_fsync(descriptor: int) -> None:
            fsync(descriptor)
            name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            self.dirty.discard(name)
            self.flushed.add(name)

        monkeypatch.setattr(os, "mkdir", note_mkdir)
        monkeypatch.setattr(os, "replace", note_replace)
        monkeypatch.setattr(os, "fsync", note_fsync)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are Linux's")
def test_what_is_sent_is_on_the_disk_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A salt and a signed transaction outlive a failure of power, with every folder above them."""
    flushed = Flushed(monkeypatch)
    get_salt(Store(tmp_path / "party" / "court" / "job"))
    assert not flushed.dirty
    accounts = tmp_path / "state" / "accounts"
    durability_journal.write(accounts, Random(0), count=1)
    assert not flushed.dirty
    (journal,) = accounts.glob("*.log")
    assert {str(accounts), str(journal)} <= flushed.flushed
