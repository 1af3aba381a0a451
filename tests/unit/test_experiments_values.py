"""Values of varied keys: ranges in exact decimals, lists, and texts that make no sense."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.experiments.values import MOST_VALUES, parse_values, parse_varied


def write(thousandths: int) -> str:
    """Return a number of thousandths as a decimal text."""
    sign = "-" if thousandths < 0 else ""
    return f"{sign}{abs(thousandths) // 1000}.{abs(thousandths) % 1000:03}"


@given(
    start=st.integers(-(10**6), 10**6),
    step=st.integers(-(10**4), 10**4).filter(bool),
    steps=st.integers(0, 200),
    share=st.floats(0, 0.999),
)
def test_ranges_are_exact(start: int, step: int, steps: int, share: float) -> None:
    """A range has each start + k x step up to its stop, as the float nearest to that decimal."""
    stop = start + step * steps + int(step * share)
    values = parse_values(f"{write(start)}:{write(stop)}:{write(step)}", "--set k")
    exact = [Fraction(start + step * k, 1000) for k in range(steps + 1)]
    assert values == tuple(float(number) for number in exact)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:1:0.1", tuple(k / 10 for k in range(11))),
        ("0.2:2:0.2", (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)),
        ("0:20:5", (0, 5, 10, 15, 20)),
        ("5:1:-2", (5, 3, 1)),
        ("1:1:1", (1,)),
        ("0,0.05,0.1:0.3:0.1", (0.0, 0.05, 0.1, 0.2, 0.3)),
        ("1e3", (1000.0,)),
        ("true,1", (True, 1)),
        ("constant, by-reputation", ("constant", "by-reputation")),
        ("rules/mine.py:Bond,constant", ("rules/mine.py:Bond", "constant")),
    ],
)
def test_values_are_read(text: str, values: tuple[object, ...]) -> None:
    """Values have the types that a TOML file would give them; one float makes all numbers such."""
    found = parse_values(text, "--set k")
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1:0:1", "goes away from 0"),
        ("0:1:-0.1", "goes away from 1"),
        ("0:1:0", "step of 0"),
        ("0:1", "has no step"),
        ("0,,1", "empty value"),
        ("0,0.0", "0.0 twice"),
        ("0:1:0.5,1", "1.0 twice"),
        (f"1:{MOST_VALUES + 1}:1", "more than 10,000 values"),
        ("0:1e300:1e-300", "more than 10,000 values"),
        (",".join(map(str, range(MOST_VALUES + 1))), "more than 10,000 values"),
    ],
)
def test_values_that_make_no_sense(text: str, says: str) -> None:
    """A list or range that can't be meant is refused in one line that says why."""
    with pytest.raises(UsageError) as refusal:
        parse_values(text, "--set k")
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("texts", [["bond.eth"], ["=1"], ["a="], ["a= "], ["a=1", "a=2"], [""]])
def test_options_that_name_no_key_and_values(texts: list[str]) -> None:
    """An option is a key, an equals sign and values; a key comes once."""
    with pytest.raises(UsageError, match="--set"):
        parse_varied(texts)
