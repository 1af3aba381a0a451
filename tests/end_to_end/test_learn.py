"""`moot learn`: what it finds is the same however it is played, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import complaint, moot

SMALL = ("--jobs", "80", "--rounds", "2", "--candidates", "4", "--kept", "1", "--reps", "1")
UNSEEN = ("--set", "audit.rate=0.0")


@pytest.mark.slow
def test_a_search_leaves_a_market_for_every_other_verb(tmp_path: Path) -> None:
    """A search is the same in two processes as in one, and its market is one like any other."""
    told = []
    for processes in ("1", "2"):
        place = tmp_path / processes
        asked = ("learn", "weak-audit", *UNSEEN, *SMALL, "--compared", "0", "--judged", "30")
        done = moot(*asked, "-j", processes, "-o", str(place), "--json")
        assert done.status == 0
        told.append(json.loads(done.stdout))
    assert told[0] == told[1]
    assert told[0]["judgement"]["played"] == told[0]["judgement"]["disputes"]
    assert [it["number"] for it in told[0]["rounds"]] == [1, 2]
    files = [(tmp_path / processes / "search.json").read_bytes() for processes in ("1", "2")]
    assert files[0] == files[1]
    played = moot("market", str(tmp_path / "1" / "market.toml"), "--json")
    assert played.status == 0
    strategies = {it["strategy"]: it for it in json.loads(played.stdout)["strategies"]}
    assert strategies["linear"]["forfeits"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("weak-adit",), "did you mean 'weak-audit'"),
        (("weak-audit", "--conduct", "lzy"), "did you mean 'lazy'"),
        (("weak-audit", "--conduct", "honest"), "honest is what a policy does otherwise"),
        (("weak-audit", "--kept", "9", "--candidates", "4"), "of 4 candidates 9"),
        (("weak-audit", "--set", "providers.linear.count=1"), "has a policy already"),
        (("weak-audit", "--set", "bond.eth=1,2"), "several values"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """An unknown market or conduct, and a search that is none, are one line, and no folder."""
    place = tmp_path / "found"
    done = moot("learn", *words, "-o", str(place))
    assert says in complaint(done, status=2)
    assert not place.exists()


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """A folder with other files is refused, and has them still."""
    (tmp_path / "notes.txt").write_text("mine")
    done = moot("learn", "weak-audit", "-o", str(tmp_path))
    assert "has other files" in complaint(done, status=2)
    assert [it.name for it in tmp_path.iterdir()] == ["notes.txt"]
