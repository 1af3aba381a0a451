"""Telling: what can't be written ends no work."""

import io
from pathlib import Path

import pytest

from moot.offchain.parties.events import Lines


@pytest.mark.parametrize("as_json", [True, False])
def test_a_full_disk_is_no_error_of_who_tells(*, as_json: bool) -> None:
    """A line for which there is no room is dropped, and the next one is tried."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        tell = Lines(as_json=as_json, stream=io.TextIOWrapper(io.BufferedWriter(full)))
        for number in range(3):
            tell("call", f"job {number}")


def test_what_no_encoding_has_is_told_all_the_same(tmp_path: Path) -> None:
    """What the encoding lacks is written as its number; half a character is left out."""
    path = tmp_path / "log"
    with path.open("w", encoding="ascii") as stream:
        Lines(as_json=False, stream=stream)("unavailable", "node: \ud800 é")
    assert path.read_text() == "node: \\xe9\n"
