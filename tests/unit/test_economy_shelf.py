"""The shelf of cases gives back the very case that was kept, or nothing."""

from pathlib import Path

import pytest

from moot.sim.economy.shelf import Shelf
from tests.economy_helpers import DrawnOutcomes

LINEUP = ("honest", "sybil")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A shelf with a case."""
    made = Shelf({"what": "a test"}, tmp_path)
    made.keep(LINEUP, 3, DrawnOutcomes().judge(LINEUP, 3))
    return made


def find_file(shelf: Shelf) -> Path:
    """Return where the case is."""
    (path,) = shelf.path.glob("honest+sybil.3*")
    return path


def test_a_case_is_what_was_kept(shelf: Shelf) -> None:
    """Reading is the inverse of writing."""
    assert shelf.find(LINEUP, 3) == DrawnOutcomes().judge(LINEUP, 3)
    assert shelf.find(LINEUP, 2) is None
    assert shelf.find(LINEUP[:1], 3) is None


def test_a_case_that_was_cut_is_none(shelf: Shelf) -> None:
    """Whatever is missing at the end of a file, it is not read."""
    whole = find_file(shelf).read_bytes()
    for length in range(0, len(whole), 7):
        find_file(shelf).write_bytes(whole[:length])
        assert shelf.find(LINEUP, 3) is None


def test_a_case_that_was_edited_is_none(shelf: Shelf) -> None:
    """A file that was changed by hand is not what was kept, even if it makes sense."""
    text = find_file(shelf).read_text()
    find_file(shelf).write_text(text.replace('"lost":', '"lost":1', 1))
    assert shelf.find(LINEUP, 3) is None
    find_file(shelf).write_text(text.partition("\n")[2])
    assert shelf.find(LINEUP, 3) is None
    find_file(shelf).write_bytes(b"\xff\x00")
    assert shelf.find(LINEUP, 3) is None


@pytest.mark.usefixtures("shelf")
def test_another_provenance_is_another_shelf(tmp_path: Path) -> None:
    """What depends on something else is not found."""
    assert Shelf({"what": "another test"}, tmp_path).find(LINEUP, 3) is None
