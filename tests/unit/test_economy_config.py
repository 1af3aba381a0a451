"""The configuration of a market: anything else than a market is one line that says why."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.economy.config import (
    Config,
    load_config,
    parse_config,
    replace_key,
    replace_keys,
    show_config,
)
from moot.sim.economy.strategies.table import make_strategy
from tests.economy_helpers import make_config, make_group, play

KEYS = [
    name + inner
    for name, value in show_config(Config()).items()
    for inner in ["", *(f".{key}" for key in (value if isinstance(value, dict) else ()))]
]
WORDS = "providers watchers lazy honest count parameters rate bond eth name chain seats x strategy"
PARTS = st.sampled_from([*WORDS.split(), "slots", "entry", "program", "a.py:B", "", "\ud800"])
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**70), 10**400])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["posted", "honest", "lazy", "modelled"])
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["strategy", "count", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def check(values: Any) -> None:
    """Read a configuration; all that may be raised is a UsageError in one line."""
    try:
        parse_config(values, "a test")
    except UsageError as error:
        assert "\n" not in error.message  # noqa: PT017 - it may be raised, and need not


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(list(show_config(Config()))) | st.text(), VALUES))
def test_whatever_a_file_says_is_read_or_refused(values: dict[str, Any]) -> None:
    """A value of any type at any key is a configuration, or a UsageError."""
    check(values)


@settings(max_examples=50)
@given(st.sampled_from(["chain", "clients", "entry", "program"]), st.data())
def test_whatever_a_table_says_is_read_or_refused(table: str, data: st.DataObject) -> None:
    """Likewise in a table."""
    inner = list(show_config(Config())[table])
    check({table: data.draw(st.dictionaries(st.sampled_from(inner), VALUES))})


@given(st.lists(PARTS, max_size=4).map(".".join) | st.sampled_from(KEYS), VALUES)
def test_whatever_is_set_is_set_or_refused(key: str, value: Any) -> None:
    """Any key and value of `--set` give a configuration, or a UsageError."""
    try:
        assert isinstance(replace_key(Config(), key, value), Config)
    except UsageError as error:
        assert "\n" not in error.message  # noqa: PT017 - it may be raised, and need not


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"chain": {"base_fee_gwei": 1e-12}}, "base_fee_gwei"),
        ({"clients": {"jobs_per_block": 1e-300}}, "blocks"),
        ({"clients": {"value_eth": float("inf")}}, "value_eth"),
        ({"clients": {"value_spread": float("nan")}}, "value_spread"),
        ({"providers": [make_group("lazy", parameters={"rate": float("nan")})]}, "nan"),
        ({"providers": []}, "no providers"),
        ({"providers": [{"strategy": "honest", "count": 0}]}, "no providers"),
        ({"seats": 9}, "seats"),
        ({"seats": 2, "providers": [{"strategy": "honest"}]}, "each job goes to 2 providers"),
        ({"chain": {"spike_blocks": 5, "spike_every": 4}}, "spike"),
        ({"seed": -1}, "seed"),
        ({"jobs": 0}, "jobs"),
        ({"fidelity": "guessed"}, "fidelity"),
        ({"sample": 1.5}, "sample"),
    ],
)
def test_what_no_market_can_be_is_refused(values: dict[str, Any], why: str) -> None:
    """Impossible numbers are refused before anything is played."""
    with pytest.raises(UsageError, match=why):
        parse_config(values, "a test")


def test_more_money_than_can_be_counted_is_refused() -> None:
    """Sums of all money fit into the ledger's numbers, at the beginning and ever after."""
    crowd = [make_group("honest", count=4_100, capital_eth=1e6)]
    with pytest.raises(UsageError, match="agents bring and gain more than"):
        play(make_config(providers=crowd))
    clients = {"value_eth": 1e6, "gain_share": 1000.0, "capital_eth": 1e6}
    with pytest.raises(UsageError, match="agents bring and gain more than"):
        play(make_config(clients=clients, providers=[make_group("lazy", count=4)]))


def test_values_are_what_can_be_counted() -> None:
    """The most extreme values are values still."""
    kept, _ = play(make_config(clients={"value_eth": 1e6, "value_spread": 3.0, "loss_share": 1000}))
    assert all(0 < row["value_gwei"] <= 10**15 for row in kept.read("jobs"))


@pytest.mark.parametrize("text", [b"jobs = ", b"\xff\xfe", b"jobs = 1\njobs = 2", b"[chain\n"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, text: bytes) -> None:
    """What can't be read is one line that names the file."""
    (tmp_path / "c.toml").write_bytes(text)
    with pytest.raises(UsageError, match=r"c\.toml is not TOML"):
        load_config(tmp_path / "c.toml")
    with pytest.raises(UsageError, match="cannot read"):
        load_config(tmp_path)


def test_keys_may_be_set_in_any_order() -> None:
    """What is impossible halfway is not refused if it makes sense in the end."""
    market = {"providers.honest.count": 0, "providers.lazy.count": 0, "providers.sybil.count": 3}
    found = [replace_keys(Config(), dict(order)) for order in permutations(market.items())]
    counts = [{group.strategy: group.count for group in config.providers} for config in found]
    assert counts == [{"honest": 0, "lazy": 0, "sybil": 3}] * len(found)
    with pytest.raises(UsageError, match="goes to 8 providers, and there are 3; "):
        replace_keys(Config(), {"seats": 8} | market)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("bnod.eth", 1, "unknown table in --set 'bnod'; did you mean 'bond'"),
        ("providers.count", 1, "write providers.STRATEGY.KEY"),
        ("providers.mine.py.count", 1, "name a class in it, too: mine.py:Class"),
        ("fidelity", "playd", "choose one of modelled, played, mixed"),
        ("jobs", 0, "^--set jobs: expected int >= 1$"),
    ],
)
def test_what_cannot_be_set_is_one_clear_line(key: str, value: Any, why: str) -> None:
    """The line says which key it is, once, and what there is instead."""

    def use() -> None:
        config = replace_key(Config(), key, value)
        make_strategy("providers", config.providers[-1].strategy, {})

    with pytest.raises(UsageError, match=why):
        use()
