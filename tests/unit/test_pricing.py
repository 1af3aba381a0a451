"""The price of a job: each bound is tight, and the clocks are those that providers ask for."""

import json
from collections.abc import Mapping

import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given
from hypothesis import strategies as st

import moot
from moot.command.main import cli
from moot.command.price import USUAL
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.joining.job_check import LOOK_BLOCKS
from moot.offchain.disputes.referee.crowds import Pace, count_calls, count_censored, count_withstood
from moot.offchain.errors import UsageError
from moot.sim.chains.files import find_chain
from moot.sim.estimates import Estimate, estimate_mean
from moot.sim.pricing.attacks import GRIEFING, LEAST, LIE, Stake, Upkeep, choose_audits
from moot.sim.pricing.clocks import Threat, make_schedule
from moot.sim.pricing.disputes import compose
from moot.sim.pricing.sizes import Sizes, list_lies
from moot.sim.pricing.terms import Wish, make_terms
from moot.sim.theory.fraud import solve_fraud_game

amounts = st.floats(0, 100)
rates = st.floats(0.001, 1)
stakes = st.builds(Stake, amounts, amounts, amounts, amounts, amounts, amounts)
ETHER = 10**18


@given(stakes, rates)
def test_a_bond_against_lies_is_the_least(stake: Stake, rate: float) -> None:
    """At the bond a lie gains nothing, at half of it something, if one is needed at all."""
    bond = stake.bound_lies(rate)
    scale = 1e-9 * (1 + bond)
    assert stake.calculate_lies_gain(bond, rate) <= scale
    assert stake.calculate_lies_gain(2 * bond, rate) <= scale
    assume(bond > 1e-3)
    assert stake.calculate_lies_gain(bond, rate) == pytest.approx(0, abs=scale)
    assert stake.calculate_lies_gain(bond / 2, rate) == pytest.approx(rate * bond / 2, abs=scale)


@given(st.floats(0.1, 50), st.floats(0.1, 100), st.floats(0, 100))
def test_audits_are_those_of_the_fraud_game(work: float, reward: float, bond: float) -> None:
    """Where a wrong answer gains nothing and gas is free, the audit rate is v*."""
    stake = Stake(work, 0, reward, 0, 0, 0)
    solved = solve_fraud_game(work, 0, reward, bond, c_safe=1, loss=10, reward=10)
    assert stake.bound_audits(bond) == pytest.approx(solved.audit_rate)


@given(stakes, amounts)
def test_bond_and_audits_are_each_others_inverse(stake: Stake, bond: float) -> None:
    """The least audits at a bond ask for that bond, unless even all audits are too few."""
    rate = stake.bound_audits(bond)
    assume(0.001 < rate < 1)
    assert stake.bound_lies(rate) == pytest.approx(bond, abs=1e-6 * (1 + bond + stake.gain / rate))


@given(stakes, st.floats(0.001, 10), st.floats(0, 0.1))
def test_the_cheapest_audits_are_no_dearer_than_others(
    stake: Stake, fee: float, share: float
) -> None:
    """No other rate of a grid costs less for audits and locked bonds together."""
    assume(stake.work + stake.gain > 0)
    rate = choose_audits(stake, Upkeep(fee, share))
    assume(rate > 0)

    def cost(audits: float) -> float:
        return audits * fee + share * max(stake.list_bounds(audits).values())

    for other in (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, rate / 2, min(1, rate * 2)):
        assert cost(rate) <= cost(other) * (1 + 1e-6) + 1e-9


@given(stakes)
def test_a_griefers_bond_pays_for_the_match(stake: Stake) -> None:
    """Half of the bond is the longest match's cost, and no bound is below the contract's."""
    assert stake.bound_griefing() / 2 == pytest.approx(stake.match_cost)
    assert set(stake.list_bounds(0.5)) == {LIE, GRIEFING, LEAST}
    assert max(stake.list_bounds(0.5).values()) >= stake.least_bond


@given(
    st.sampled_from(["l1-prague", "l1-osaka"]),
    st.integers(0, 10 * ETHER),
    st.integers(1, 400),
    st.floats(0, 5),
    st.floats(0, 10_000),
    st.integers(0, 32),
)
def test_clocks_are_those_that_a_provider_asks_for(
    name: str, gain_wei: int, crowd: int, answer_s: float, work_s: float, confirmations: int
) -> None:
    """The clock withstands the crowd after all that a censor and a reorganisation may take."""
    chain, threat = find_chain(name), Threat(gain_wei, crowd, answer_s, work_s, confirmations)
    stakes = make_schedule(chain, threat, steps=50).stakes
    gas = chain.block.gas_limit
    out = count_censored(gain_wei, block_gas=gas) + confirmations
    pace = Pace(count_calls(gas), LOOK_BLOCKS + int(min(crowd, 50) * answer_s / 12))
    left = stakes.clock_blocks - out
    assert count_withstood(left, stakes.increment_blocks, pace) >= crowd
    if left > stakes.increment_blocks:
        assert count_withstood(left - 1, stakes.increment_blocks, pace) < crowd
    assert stakes.commit_blocks * 12 >= work_s


def test_clocks_on_a_rollup_outlast_its_sequencer() -> None:
    """Each time to act is longer than calls are kept out for nothing; L1's are far shorter."""
    threat = Threat(10**17, 100, 0.01, 1.0, 8)
    for name, blocks in (("op-mainnet", 21_600), ("arbitrum-one", 7_200)):
        stakes = make_schedule(find_chain(name), threat, 16).stakes
        assert min(stakes.commit_blocks, stakes.reveal_blocks, stakes.clock_blocks) > blocks
    assert make_schedule(find_chain("l1-osaka"), threat, 16).stakes.clock_blocks < 100


def test_a_job_that_no_clock_suffices_for_is_refused() -> None:
    """A job whose answers take weeks is refused, with what to do."""
    with pytest.raises(UsageError, match="fear fewer liars"):
        make_schedule(find_chain("l1-osaka"), Threat(0, 10**5, 10**5, 0, 8), 10**6)


@pytest.mark.parametrize(
    "wish",
    [
        {"gain_eth": -1.0},
        {"gain_eth": float("nan")},
        {"audit_rate": 0.0},
        {"audit_rate": 1.5},
        {"bond_eth": 0.0},
        {"spike": 0.5},
        {"crowd": 0},
        {"capital_rate": -0.1},
        {"bond_eth": 1.0, "audit_rate": 0.1},
    ],
)
def test_what_nobody_can_want_is_refused(wish: dict[str, float]) -> None:
    """Impossible wishes are refused in one line."""
    with pytest.raises(UsageError) as refusal:
        Wish(**wish)  # type: ignore[arg-type] - that is what is tested
    assert "\n" not in str(refusal.value)


@given(st.integers(1, 10**6), st.integers(1, 5000), st.integers(1, 10**6), st.integers(0, 5000))
def test_lies_are_in_the_job(checkpoints: int, operators: int, elements: int, terms: int) -> None:
    """A synthetic job is no smaller than the job, and each lie has its place in it."""
    sizes = Sizes(checkpoints, checkpoints, 1, operators, elements, 1 + elements % 7, terms, 0)
    size = sizes.make_synthetic()
    assert size.rows * size.columns >= elements
    assert size.terms >= terms
    assert size.operators >= operators
    for lie in list_lies(size, 3):
        assert 0 <= lie.step < checkpoints
        assert 2 <= lie.operator < size.operators - 3
        assert 0 <= lie.element < size.rows * size.columns
        assert 0 <= lie.term < size.terms


@pytest.mark.slow
def test_a_price_is_a_played_disputes() -> None:
    """The gas of each stage is within 2% of that of a dispute that is played apart."""
    task = moot.Task(moot.capture("mlp"), steps=8, checkpoint_every=2)
    quote = moot.price(task, lies=1, gain_eth=0.5).quotes[0]
    runs = [moot.run(task), moot.run(task, moot.cheats.WrongOutput())]
    played = dict(moot.dispute(task, runs).gas.by_stage)
    played["joining"] -= sum(
        it.gas_used for it in moot.dispute(task, runs).finish().moves if it.call == "open_job"
    )
    assert quote.gas.keys() == played.keys()
    for stage, gas in quote.gas.items():
        assert gas == pytest.approx(played[stage], rel=0.02)
    assert quote.chain == USUAL[0]
    assert all(gain <= 1e-9 for gain in quote.terms.attacks.values())
    assert quote.terms.bond >= max(quote.terms.bounds.values()) - 1e-12
    shown = quote.to_dict()
    assert sum(shown["parts"].values()) == pytest.approx(shown["cost"]["value"])
    assert "bond" in quote._repr_html_()


@pytest.mark.slow
def test_a_bond_found_keeps_providers_honest_in_a_market() -> None:
    """With the bond that is named lying does not pay in a modelled market; with half of it does."""
    sizes = Sizes(6, 2, 3, 71, 64, 16, 64, 9684)
    wish = Wish(gain_eth=0.5, audit_rate=0.1, spike=1.0)
    chain = find_chain("l1-prague").replace_prices(20.0)
    terms = make_terms(chain, compose(sizes, ORDERED, 1), Estimate(0.02), (60.0, 0.1, 6), wish)
    assert terms.bound_by == LIE
    keys = {"audit.rate": terms.audit_rate, "pricing.eth": terms.reward}
    bonds = {factor: {**keys, "bond.eth": factor * terms.bond} for factor in (1.0, 0.5)}
    gains = {factor: compare(values) for factor, values in bonds.items()}
    assert gains[1.0].low is not None
    assert gains[0.5].low is not None
    assert gains[1.0].low <= 0 < gains[0.5].low
    assert gains[0.5].value == pytest.approx(terms.audit_rate * terms.bond / 2, rel=0.35)


MARKET = {
    "jobs": 1200,
    "clients.value_eth": 0.5,
    "clients.value_spread": 0.0,
    "clients.gain_share": 1.0,
    "clients.jobs_per_block": 0.05,
    "chain.volatility": 0.0,
}
"""A small market in which a wrong answer that is accepted gains its provider 0.5 ETH."""


def compare(values: Mapping[str, float]) -> Estimate:
    """Return what a liar gains above an honest provider for each job, over six markets."""
    groups = {
        "providers": [("honest", 8), ("lazy", 8)],
        "watchers": [{"strategy": "watcher", "count": 8, "slots": 64}],
    }
    found = []
    for seed in range(6):
        results = moot.simulate("weak-audit", set={**MARKET, **values, "seed": seed}, **groups)
        rows = {it["strategy"]: it for it in results.sum_strategies() if it["role"] == "provider"}
        profits = {name: rows[name]["profit_gwei"] / rows[name]["jobs"] for name in rows}
        found.append((profits["lazy"] - profits["honest"]) / 10**9)
    return estimate_mean(found)


def run(*args: str) -> Result:
    """Run `moot price`."""
    return CliRunner().invoke(cli, ["price", *args], standalone_mode=False, catch_exceptions=False)


def test_a_chain_that_there_is_not_is_refused_before_the_program_is_captured() -> None:
    """An unknown chain, an impossible price and a job without steps are refused."""
    with pytest.raises(UsageError, match="did you mean 'op-mainnet'"):
        run("--program", "nobody.py:build", "--chain", "op-mainet")
    with pytest.raises(UsageError, match="an ETH does not cost"):
        run("--program", "nobody.py:build", "--chain", "op-mainnet", "--eth-price", "-1")
    with pytest.raises(UsageError, match="is not a positive number"):
        run("--program", "nobody.py:build", "--steps", "0")


@pytest.mark.slow
def test_the_command_prints_what_it_finds() -> None:
    """The tables have a line for each chain and base fee, and --json has the same figures."""
    given = ("--program", "mlp", "--steps", "4", "--gain", "1", "--lies", "1")
    given += ("--chain", "l1-osaka", "--chain", "op-mainnet", "--base-fee", "5", "--base-fee", "50")
    shown = run(*given).output
    assert shown.count("│ op-mainnet") == 2 * 3
    found = json.loads(run(*given, "--json").output)
    assert [(it["chain"], it["base_fee_gwei"]) for it in found["quotes"]] == [
        (chain, fee) for chain in ("l1-osaka", "op-mainnet") for fee in (5, 50)
    ]
    assert found["disputes"] == {"how": "played", "lies": 1}
    for quote in found["quotes"]:
        assert quote["bond"] >= max(quote["bounds"].values()) - 1e-9
        assert max(quote["attacks"].values()) <= 1e-9
