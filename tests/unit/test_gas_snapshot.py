"""The snapshot of gas: reading returns what was written, and every difference is reported."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.gas.snapshot import Line, compare, read, replace, select, write

words = st.text("abcdefghijklmnopqrstuvwxyz-_.^0123456789", min_size=1, max_size=12)
counts = st.integers(0, 1 << 40)
lines = st.builds(Line, words, words, counts, counts, counts, counts)
snapshots = st.lists(lines, max_size=20, unique_by=lambda line: line.key)

DESCEND = Line("reference", "history.descend", 6, 50_000, 60_000, 70_000)
LEAF = Line("reference", "leaf.leaf", 1, 150_000, 150_000, 150_000)


@given(lines)
def test_a_line_says_what_it_was_made_of(line: Line) -> None:
    """A line that is parsed is the one that was printed."""
    assert Line.parse(str(line)) == line


@given(snapshots)
def test_nothing_differs_from_itself(snapshot: list[Line]) -> None:
    """A snapshot has no changes against itself, in any order."""
    assert compare(snapshot, snapshot[::-1]) == []


@given(snapshots, snapshots)
def test_changes_lead_from_one_snapshot_to_the_other(old: list[Line], new: list[Line]) -> None:
    """The earlier lines with the changes made are the later ones, and nothing else is a change."""
    patched = {line.key: line for line in old}
    for change in compare(old, new):
        assert change.before != change.after
        line = change.after or change.before
        assert line is not None
        assert patched.pop(line.key, None) == change.before
        if change.after:
            patched[line.key] = change.after
    assert patched == {line.key: line for line in new}


@pytest.mark.parametrize("field", ["count", "minimum", "median", "maximum"])
def test_one_unit_of_gas_is_a_change(field: str) -> None:
    """Each number of a line counts, to the unit."""
    values = {name: getattr(DESCEND, name) for name in Line.__slots__}
    other = Line(**values | {field: values[field] + 1})
    (change,) = compare([DESCEND], [other])
    assert "reference history.descend" in str(change)


def test_a_change_is_one_clear_line() -> None:
    """What was, what is and by how much the median moved; what is new and what is gone."""
    dearer = Line("reference", "leaf.leaf", 1, 150_007, 150_007, 150_007)
    (change,) = compare([LEAF], [dearer])
    assert str(change) == (
        "reference leaf.leaf: 1 x 150,000/150,000/150,000 -> 1 x 150,007/150,007/150,007"
        " (median +7 gas)"
    )
    assert [str(change) for change in compare([LEAF], [DESCEND])] == [
        "reference history.descend: new, 6 x 50,000/60,000/70,000",
        "reference leaf.leaf: gone, was 1 x 150,000/150,000/150,000",
    ]


@given(snapshots)
def test_a_file_holds_a_snapshot(
    tmp_path_factory: pytest.TempPathFactory, kept: list[Line]
) -> None:
    """What is read is what was written."""
    path = tmp_path_factory.mktemp("gas") / "snapshot.txt"
    write(path, kept)
    assert read(path) == kept


@pytest.mark.parametrize(
    "text", ["reference leaf.leaf 1 2 3\n", "a b 1 2 3 x\n", "a b 1 2 3 4 5\n"]
)
def test_a_line_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the file and the line."""
    path = tmp_path / "snapshot.txt"
    path.write_text(f"# comment\n\n{text}")
    with pytest.raises(UsageError, match="line 3"):
        read(path)


def test_no_snapshot_says_how_to_get_one(tmp_path: Path) -> None:
    """The error says what to do."""
    with pytest.raises(UsageError, match="--write"):
        read(tmp_path / "none.txt")


def test_a_part_is_replaced_in_its_place() -> None:
    """Other scenarios stay, what is no scenario any more goes, and the order is the scenarios'."""
    small = Line("small", "leaf.leaf", 1, 2, 2, 2)
    unknown = Line("former", "leaf.leaf", 1, 2, 2, 2)
    new = Line("reference", "leaf.leaf", 1, 3, 3, 3)
    replaced = replace([DESCEND, LEAF, small, unknown], [new], ["reference", "small"])
    assert replaced == [new, small]
    assert select(replaced, ["small"]) == [small]
