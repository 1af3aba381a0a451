"""A market's chain: what a call costs there, and what no market can be played on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.chains.calldata import Bound
from moot.sim.economy.chain_rules import make_rule
from moot.sim.economy.config import Chain, Config, parse_config
from moot.sim.economy.gas import NO_EFFECT, Kind
from moot.sim.economy.prices import Prices

words = st.integers(0, 200)
gases = st.integers(30_000, 300_000)


def name_call(size: int) -> Kind:
    """Return the kind of a call with so many words of calldata."""
    return Kind("leaf", "leaf", NO_EFFECT, size)


@given(words, gases)
def test_calls_cost_what_was_measured_on_prague(size: int, gas: int) -> None:
    """On the first layer a call has the gas of the table, unless its floor is another."""
    for name in ("l1-prague", "l1-osaka"):
        rule = make_rule(name, 20, 1)
        assert rule.is_usual
        assert rule.convert(name_call(size), gas) == gas
    rule = make_rule("l1-eip7976", 20, 1)
    assert rule.convert(name_call(size), gas) == max(gas, 21_000 + 64 * (32 * size + 4))


@given(words, gases, st.sampled_from(["op-mainnet", "arbitrum-one"]))
def test_a_rollups_data_is_paid_for_as_gas(size: int, gas: int, name: str) -> None:
    """At the price at which a market begins, the gas of a call pays for its data, and no more."""
    rule = make_rule(name, 0.02, 0)
    data_wei = rule.chain.fees.charge(gas, Bound(32 * size + 4)).data_wei
    extra = rule.convert(name_call(size), gas) - gas
    assert data_wei <= extra * rule.price_wei < data_wei + rule.price_wei


def test_a_chain_has_its_own_blocks() -> None:
    """A full block raises the base fee by an eighth on the first layer, by 2% on the OP stack."""
    for kind, share in (("l1-prague", 1 / 8), ("l1-osaka", 1 / 8), ("op-mainnet", 5 / 250)):
        prices = Prices(Chain(kind=kind, volatility=0.0), 0)
        before = prices.base_fee_wei
        prices.go_on(1, used_gas=10**9)
        assert prices.base_fee_wei == pytest.approx(before * (1 + share), rel=1e-6)


def test_jobs_are_not_played_by_another_chains_rules() -> None:
    """A market on a rollup is modelled; to play it is refused, as is a chain that there is not."""
    assert parse_config({"chain": {"kind": "op-mainnet"}}, "it").chain.kind == "op-mainnet"
    assert Config().chain.kind == "l1-prague"
    parse_config({"chain": {"kind": "l1-osaka"}, "fidelity": "played"}, "it")
    for fidelity in ("played", "mixed"):
        with pytest.raises(UsageError, match=r"^it: jobs are played by Prague's rules"):
            parse_config({"chain": {"kind": "op-mainnet"}, "fidelity": fidelity}, "it")
    with pytest.raises(UsageError, match="did you mean 'op-mainnet'"):
        parse_config({"chain": {"kind": "op-mainet"}}, "it")
    with pytest.raises(UsageError, match="unknown key"):
        parse_config({"chain": {"base_fee_scalar": 1}}, "it")
