"""`moot answers sensitivity` and `design`: the same answer whoever plays, and bad input refused."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import complaint, moot

SMALL = ("--set", "jobs=60", "--set", "cases=1", "--set", "chain.volatility=0")
SEARCH = ("--trials", "16", "--reps", "2", "--fresh", "3", "--maximize", "client_eth")
RANGES = ("bond.eth=0.2:2", "audit.rate=0:0.5")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bnd.eth=0.1:2",), "unknown table in --set 'bnd'"),
        (("bond.eth=0.1:nan",), "no range of numbers"),
        (("bond.eth=0.1",), "fewer than two values"),
        (("bond.eth",), "no key with its range"),
        ((*RANGES, "--where", "wrong_share <= nan"), "is no limit"),
        ((*RANGES, "--where", "wrng_share <= 1"), "did you mean 'wrong_share'"),
        ((*RANGES, "--set", "audit.rate=nan"), "audit"),
        ((*RANGES, "--set", "bond.eth=1,2"), "several values"),
        ((*RANGES, "--strategy", "lazy"), "gains beyond honesty"),
        ((*RANGES, "--where", "gain_eth <= 0", "--strategy", "lzy"), "did you mean 'lazy'"),
        ((*RANGES, "--minimize", "client_eth"), "is best by one measure"),
        ((*RANGES, "--trials", "0"), "take 1 to 100,000"),
    ],
)
def test_searches_that_make_no_sense_are_refused(words: tuple[str, ...], says: str) -> None:
    """Unknown keys and measures, NaN anywhere, and two goals: one line, and nothing is played."""
    done = moot("answers", "design", "baseline", *words, "--maximize", "client_eth")
    assert says in complaint(done, status=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*RANGES, "--samples", "48"), "no power of 2"),
        ((*RANGES, "--measure", "wrng_share"), "did you mean 'wrong_share'"),
        (("bond.eth=inf:2",), "no range of numbers"),
        (("audit.rate=0:2",), "audit"),
    ],
)
def test_sensitivities_that_make_no_sense_are_refused(words: tuple[str, ...], says: str) -> None:
    """Samples out of balance, unknown measures and impossible ranges: one line."""
    done = moot("answers", "sensitivity", "baseline", *words)
    assert says in complaint(done, status=2)


def test_measures_are_listed() -> None:
    """Every measure has its name and its words."""
    told = json.loads(moot("answers", "measures", "--json").stdout)
    assert {"wrong_share", "client_eth", "gain_eth_per_job"} <= set(told)
    assert moot("answers", "measures").stdout.count("\n") == len(told)


@pytest.mark.slow
def test_a_search_goes_on_and_does_not_depend_on_who_plays(tmp_path: Path) -> None:
    """Two processes come to what one comes to; the same command again plays nothing more."""
    answers = []
    for name, processes in (("one", "1"), ("two", "2"), ("one", "1")):
        words = (*RANGES, *SMALL, *SEARCH, "-o", str(tmp_path / name), "-j", processes)
        done = moot("answers", "design", "baseline", *words, "--json")
        assert done.status == 0, done.stderr
        answers.append(json.loads(done.stdout))
    first, other, again = answers
    assert first["played"] == other["played"] > 30
    assert again["played"] == 0
    for answer in answers:
        del answer["played"]
    assert first == other == again
    assert set(first["best"]["values"]) == {"bond.eth", "audit.rate"}
    assert "as configured" in (tmp_path / "one" / "report.html").read_text()
    assert json.loads((tmp_path / "two" / "answer.json").read_text())["best"] == first["best"]


@pytest.mark.slow
def test_a_search_without_an_answer_says_what_binds() -> None:
    """A limit that no market meets is named in one line of stderr, and the status is 1."""
    words = (*RANGES, *SMALL, *SEARCH, "--where", "right_share >= 1.5", "-j", "1")
    done = moot("answers", "design", "baseline", *words)
    assert done.status == 1
    (line,) = done.stderr.splitlines()
    assert "meets right_share >= 1.5: the nearest is" in line
    assert "as configured" in done.stdout


@pytest.mark.slow
def test_what_decides_a_market(tmp_path: Path) -> None:
    """Where a fifth of the providers lie the rate of audits decides what is wrong, not the tip."""
    words = ("audit.rate=0:1", "chain.tip_gwei=1:2", *SMALL, "--samples", "32", "-j", "2")
    done = moot(
        *("answers", "sensitivity", "baseline", *words, "--json", "-o", str(tmp_path)),
        *("--measure", "wrong_share", "--measure", "fees_eth"),
    )
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    wrong = {it["key"]: it["total"] for it in told["measures"]["wrong_share"]["indices"]}
    assert list(wrong) == ["audit.rate", "chain.tip_gwei", "chance"]
    assert wrong["audit.rate"]["value"] > 5 * abs(wrong["chain.tip_gwei"]["value"])
    assert wrong["audit.rate"]["low"] < wrong["audit.rate"]["value"] < wrong["audit.rate"]["high"]
    assert told["markets"] == 32 * 5
    assert "share of jobs with a wrong answer" in (tmp_path / "report.html").read_text()
