"""A mix of strategies is parsed as written, and an error in it is reported on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.economy.mix import mix_providers, parse_mix
from moot.sim.experiments.plan import check_names
from moot.sim.strategies import STRATEGIES
from tests.economy_helpers import make_config, make_group

mixes = st.dictionaries(st.sampled_from(list(STRATEGIES)), st.integers(1, 9), min_size=1)


@given(mixes)
def test_a_mix_is_read_as_written(counts: dict[str, int]) -> None:
    """Every strategy keeps its count and its place."""
    text = ",".join(f"{name}={count}" for name, count in counts.items())
    parsed = parse_mix(text, sum(counts.values()))
    assert list(parsed.items()) == list(counts.items())


@pytest.mark.parametrize(
    ("text", "providers", "message"),
    [
        ("honest=3,lazy=1", 5, "has 4 providers, not 5"),
        ("honest=3,lazy=1", 0, "has 4 providers, not 0"),
        ("honest=1,lazy=1,honest=1", None, "names honest twice"),
        ("honest", None, "without a count; write honest=1"),
        ("honest=", None, "'honest=' is not a number of providers"),
        ("honest=0,lazy=2", None, "'honest=0' is not a number of providers"),
        ("honest=-2", None, "'honest=-2' is not a number of providers"),
        ("honest=two", None, "'honest=two' is not a number of providers"),
        ("honest=²", None, "is not a number of providers"),
        ("=2", None, "'=2' is not a number of providers"),
        ("", None, "names nobody"),
        (f"honest={10**26 - 1}", None, "providers of honest; have fewer"),
        (f"honest={'9' * 5000}", None, "providers of honest; have fewer"),
    ],
)
def test_a_bad_mix_is_refused(text: str, providers: int | None, message: str) -> None:
    """The refusal says on one line what is wrong and what would be right."""
    with pytest.raises(UsageError) as refusal:
        parse_mix(text, providers)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("honset=2", "unknown strategy of providers 'honset'; did you mean 'honest'?"),
        ("honest=2,wrong_output=1", "did you mean 'wrong-output'?"),
        ("honest=1", "each job goes to 2 providers, and there are 1"),
        ("honest=999999", "Expected `int` <= 100000".lower().replace("`", "")),
    ],
)
def test_an_impossible_mix_is_refused(text: str, message: str) -> None:
    """A strategy that nobody knows, too few providers, or too many, are refused by name."""
    with pytest.raises(UsageError) as refusal:
        check_names(mix_providers(make_config(seats=2), parse_mix(text)))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_spaces_do_not_matter() -> None:
    """A mix may be written with spaces after its commas."""
    assert parse_mix("honest=2, lazy=1") == parse_mix("honest=2,lazy=1")


def test_a_mix_keeps_what_is_known_of_a_strategy() -> None:
    """A strategy keeps its capital and its rate; a new one is like the first, at its own rate."""
    lazy = make_group("lazy", capital_eth=7.0, parameters={"rate": 0.5})
    config = make_config(providers=[make_group("honest", work_eth=0.03), lazy])
    mixed = mix_providers(config, {"lazy": 4, "silent": 2}).providers
    assert [(it.strategy, it.count, it.capital_eth) for it in mixed] == [
        ("lazy", 4, 7.0),
        ("silent", 2, 1e4),
    ]
    assert [it.parameters for it in mixed] == [{"rate": 0.5}, {}]
    assert mixed[1].work_eth == 0.03


def test_a_path_to_code_can_be_in_a_mix() -> None:
    """The last sign of equality parts a strategy of one's own from its count."""
    assert parse_mix("docs/own_strategy.py:OnceBitten=3") == {"docs/own_strategy.py:OnceBitten": 3}
