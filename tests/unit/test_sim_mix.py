"""A mix of strategies is parsed as written, and an error in it is reported on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.mix import Group, parse_mix
from moot.sim.strategies import STRATEGIES, TRICKS

mixes = st.dictionaries(st.sampled_from(list(STRATEGIES)), st.integers(1, 9), min_size=2)


@given(mixes)
def test_a_mix_is_read_as_written(counts: dict[str, int]) -> None:
    """Every strategy keeps its count and its place."""
    text = ",".join(f"{name}={count}" for name, count in counts.items())
    groups = parse_mix(text, sum(counts.values()))
    assert groups == tuple(Group(name, count) for name, count in counts.items())


def test_every_cheat_and_every_trick_is_a_strategy() -> None:
    """All cheats that a provider can have, and all tricks, can be in a market, by other names."""
    assert set(STRATEGIES) == {"honest", "watcher", *CHEATS, *TRICKS}
    assert len(STRATEGIES) == 2 + len(CHEATS) + len(TRICKS)


@pytest.mark.parametrize(
    ("text", "providers", "message"),
    [
        ("honset=2", None, "unknown strategy 'honset'; did you mean 'honest'?"),
        ("foo=1", None, "strategies to choose from; `moot market --help` lists them"),
        ("honest=2,wrong_output=1", None, "did you mean 'wrong-output'?"),
        ("honest=3,lazy=1", 5, "has 4 providers, not 5"),
        ("honest=3,lazy=1", 0, "has 4 providers, not 0"),
        ("honest=1,lazy=1,honest=1", None, "names honest twice"),
        ("honest", None, "without a count; write honest=1"),
        ("honest=", None, "'honest=' is not a number of providers"),
        ("honest=0,lazy=2", None, "'honest=0' is not a number of providers"),
        ("honest=-2", None, "'honest=-2' is not a number of providers"),
        ("honest=two", None, "'honest=two' is not a number of providers"),
        ("honest=²", None, "is not a number of providers"),
        ("honest=1", None, "at least 2 providers, not 1"),
        ("", None, "at least 2 providers, not 0"),
        ("honest=1000,lazy=1", None, "at most 1,000 providers, not 1,001"),
        (f"honest={10**26 - 1}", None, "at most 1,000 providers; honest has more"),
        (f"honest={'9' * 5000}", None, "at most 1,000 providers; honest has more"),
    ],
)
def test_a_bad_mix_is_refused(text: str, providers: int | None, message: str) -> None:
    """The refusal says on one line what is wrong and what would be right."""
    with pytest.raises(UsageError) as refusal:
        parse_mix(text, providers)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_spaces_do_not_matter() -> None:
    """A mix may be written with spaces after its commas."""
    assert parse_mix("honest=2, lazy=1") == parse_mix("honest=2,lazy=1")
