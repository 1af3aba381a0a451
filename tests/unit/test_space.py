"""Spaces of markets: what a key may be, as users write it, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.analysis.goals import BROKEN, MET, UNSURE, Limit, parse_limit
from moot.sim.analysis.journal import Journal
from moot.sim.analysis.space import Dimension, make_dimension, make_space
from moot.sim.economy.config import parse_config
from moot.sim.estimates import Estimate

MARKET = parse_config({"jobs": 50}, "test")


@given(part=st.floats(0, 1))
def test_every_value_is_in_its_range(part: float) -> None:
    """A part of a range is a value in it, of a logarithm, too; of choices it is one of them."""
    assert 0.1 <= make_dimension("bond.eth", (0.1, 2)).pick(part) <= 2
    assert 0.001 <= make_dimension("audit.rate", "0.001:0.1:log").pick(part) <= 0.1
    assert Dimension("seats", 1, 4, is_whole=True).pick(part) in {1, 2, 3, 4}
    choices = "constant,proportional"
    assert make_dimension("bond.name", choices).pick(part) in {"constant", "proportional"}


def test_parts_are_those_of_the_range() -> None:
    """The middle of a range is its middle, that of a logarithm the root of the ends' product."""
    assert make_dimension("bond.eth", (0.0, 2.0)).pick(0.25) == 0.5
    assert make_dimension("bond.eth", "0.01:1:log").pick(0.5) == 0.1
    whole = Dimension("seats", 1, 2, is_whole=True)
    assert [whole.pick(it) for it in (0.0, 0.49, 0.5, 1.0)] == [1, 1, 2, 2]


def test_keys_that_take_whole_numbers_get_them() -> None:
    """A count is whole, an amount with whole ends is not."""
    space = make_space(MARKET, [make_dimension("providers.lazy.count", "0:8")])
    assert space.dimensions[0].is_whole
    assert type(space.pick([0.3])[0]) is int
    space = make_space(MARKET, [make_dimension("bond.eth", "1:2")])
    assert not space.dimensions[0].is_whole
    assert space.make_config(space.pick([0.5])).bond["eth"] == 1.5
    farmer = make_space(MARKET, [make_dimension("providers.reputation-farmer.scams", "1:9")])
    assert farmer.dimensions[0].is_whole


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "0 keys are varied"),
        (["bond.eth=2:1"], "turn it around"),
        (["bond.eth=nan:1"], "no range of numbers"),
        (["bond.eth=0.1:inf"], "no range of numbers"),
        (["bond.eth=0.1:1e400"], "no range of numbers"),
        (["bond.eth=0:1:log"], "begin above 0"),
        (["bond.eth=0:1:2:3"], "is no range"),
        (["bond.eth=1"], "fewer than two values"),
        (["bond.eth=1,1"], "twice"),
        (["bond.eth=0.5,nan"], "no value to choose"),
        (["bnd.eth=0.1:2"], "unknown table"),
        (["bond.eht=0.1:2"], "did you mean 'eth'"),
        (["audit.rate=0.5:2"], "audit"),
        (["audit.rate=-1:0.5"], "audit"),
        (["seats=1:99"], "seats"),
        (["seed=1:9"], "how much is simulated"),
        (["bond.eth=1:2", "bond.eth=3:4"], "there twice"),
        (["providers.lazy.count=1:8:log"], "whole numbers"),
        (["bond.name=constant,proportionl"], "did you mean 'proportional'"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(texts: list[str], says: str) -> None:
    """An unknown key, an endless or empty range, and a value that no market has: one line each."""
    with pytest.raises(UsageError, match=says) as refusal:
        make_space(MARKET, [make_dimension(*text.split("=")) for text in texts])
    assert "\n" not in str(refusal.value)


def test_limits_are_a_measure_and_a_bound() -> None:
    """A limit says by how much it is broken, and judges an interval."""
    limit = parse_limit("wrong_share <= 0.01")
    assert limit == Limit("wrong_share", "<=", 0.01)
    assert limit.exceed(0.03) == pytest.approx(0.02)
    assert parse_limit("client_eth>=-1").exceed(-2) == 1
    assert limit.judge(Estimate(0.005, 0.001, 0.009)) == MET
    assert limit.judge(Estimate(0.005, 0.001, 0.011)) == UNSURE
    assert limit.judge(Estimate(0.05, 0.02, 0.08)) == BROKEN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wrong_share", "is no limit"),
        ("wrong_share < 0.01", "is no limit"),
        ("wrong_share <= nan", "is no limit"),
        ("wrong_share <= inf", "is no limit"),
        ("wrong_share <= much", "is no limit"),
        ("wrng_share <= 0.1", "did you mean 'wrong_share'"),
    ],
)
def test_limits_that_are_none_are_refused(text: str, says: str) -> None:
    """A limit without a number, with one that is none, and with an unknown measure."""
    with pytest.raises(UsageError, match=says):
        parse_limit(text)


def test_a_journal_goes_on(tmp_path: Path) -> None:
    """What was noted is known again, half a line is not, and other versions are refused."""
    path = tmp_path / "out" / "trials.jsonl"
    journal = Journal(path, {"versions": 1})
    journal.add("a", {"x": 0.1})
    with path.open("a") as file:
        file.write('{"b": {"x": 0.')
    again = Journal(path, {"versions": 1})
    assert again.get("a") == {"x": 0.1}
    assert again.get("b") is None
    again.add("b", {"x": 2.0})
    assert len(Journal(path, {"versions": 1})) == 2
    with pytest.raises(UsageError, match="another version"):
        Journal(path, {"versions": 2})
    path.write_text('{"versions": 1}\nnothing\n')
    with pytest.raises(UsageError, match="no journal"):
        Journal(path, {"versions": 1})
