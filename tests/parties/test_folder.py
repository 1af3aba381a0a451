"""The folder of a party."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moot.offchain.errors import StoreError, UsageError
from moot.offchain.parties.folder import OWNER, Folder

REFEREE = "0x" + "ab" * 20
ALICE, BOB = "0x" + "01" * 20, "0x" + "02" * 20


def open_folder(path: Path, genesis: bytes = b"\1" * 32) -> Folder:
    """Return a folder at a court on a chain that begins with this block."""
    node = SimpleNamespace(get_block_hash=lambda _: genesis)
    chain: Any = SimpleNamespace(chain_id=7, node=node)
    return Folder(path, chain, REFEREE)


def test_two_parties_do_not_share_a_folder(tmp_path: Path) -> None:
    """Whoever comes second is refused while the first is there, and another account for good."""
    one, other = open_folder(tmp_path), open_folder(tmp_path)
    with one.held(ALICE), pytest.raises(UsageError, match="another process"), other.held(BOB):
        pass
    with pytest.raises(UsageError, match="belongs to account"), other.held(BOB):
        pass
    with one.held(ALICE):
        pass


def test_a_damaged_owner_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is named, and not replaced."""
    (tmp_path / OWNER).write_text("?")
    with pytest.raises(StoreError, match="damaged"), open_folder(tmp_path).held(ALICE):
        pass


def test_a_chain_that_began_anew_has_another_referee(tmp_path: Path) -> None:
    """Its jobs have folders of their own, though they have the same numbers."""
    assert open_folder(tmp_path).referee_id != open_folder(tmp_path, b"\2" * 32).referee_id
