"""Random small economies: every gwei is somewhere, and every job comes to one end."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moot.sim.economy.cases import Seat
from moot.sim.economy.config import GWEI, Config
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.strategies import STRATEGIES
from tests.economy_helpers import DrawnOutcomes, Row, make_config, make_group, play
from tests.quick import share

SHARE = st.floats(0, 1, allow_subnormal=False)
MECHANISMS = {
    "pricing": st.sampled_from(
        [{"name": "posted", "eth": 0.2}, {"name": "second-price", "bidders": 1}]
    ),
    "matching": st.sampled_from(["random", "stake-weighted", "by-reputation"]).map(
        lambda name: {"name": name}
    ),
    "bond": st.sampled_from(
        [
            {"name": "constant", "eth": 0.7},
            {"name": "constant", "eth": 0.0},
            {"name": "proportional", "discount": 0.5},
        ]
    ),
    "audit": st.one_of(
        st.fixed_dictionaries({"name": st.just("constant"), "rate": SHARE}),
        st.fixed_dictionaries({"name": st.just("from-bonds"), "rate": SHARE}),
        st.fixed_dictionaries({"name": st.just("volunteers"), "rate": SHARE}),
        st.just({"name": "by-reputation"}),
        st.just({"name": "forced-errors", "forced": 0.3}),
    ),
    "reputation": st.fixed_dictionaries(
        {"name": st.just("decaying"), "gain": SHARE, "kept": SHARE, "half_life": st.just(100)}
    ),
}


def draw_groups(names: Sequence[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return groups of some strategies, poor and rich."""
    group = st.builds(
        make_group,
        st.sampled_from(sorted(names)),
        count=st.integers(0, 3),
        capital_eth=st.sampled_from([0.0, 1.0, 3.0, 1000.0]),
        slots=st.sampled_from([1, 4, 1000]),
        work_eth=st.sampled_from([0.0, 0.02, 0.5]),
        blocks=st.integers(1, 60),
    )
    return st.lists(group, max_size=4, unique_by=lambda it: it["strategy"])


OFTEN_HONEST = draw_groups([name for name in (*STRATEGIES, *AGENTS) if name != "honest"]).map(
    lambda groups: [make_group("honest", count=3), *groups]
)
CONFIGS = st.fixed_dictionaries(
    MECHANISMS
    | {
        "seed": st.integers(0, 2**63 - 1),
        "jobs": st.just(60),
        "cases": st.integers(1, 3),
        "seats": st.integers(1, 2),
        "providers": OFTEN_HONEST,
        "watchers": draw_groups(list(WATCHERS)),
        "clients": st.fixed_dictionaries(
            {
                "count": st.integers(1, 4),
                "capital_eth": st.sampled_from([0.0, 1.0, 1e4]),
                "jobs_per_block": st.sampled_from([0.05, 0.5, 5.0]),
                "gain_share": st.sampled_from([0.0, 2.0]),
                "loss_share": st.sampled_from([0.0, 1.0]),
            }
        ),
        "entry": st.fixed_dictionaries(
            {
                "per_1000_blocks": st.sampled_from([0.0, 20.0]),
                "patience": st.sampled_from([0, 3]),
            }
        ),
        "chain": st.fixed_dictionaries(
            {
                "fee_cap": st.sampled_from([1.0, 4.0, 100.0]),
                "gas_reserve": st.sampled_from([1.0, 4.0]),
                "spike_factor": st.sampled_from([1.0, 30.0]),
                "spike_every": st.just(400),
                "spike_blocks": st.just(60),
                "volatility": st.sampled_from([0.0, 0.2, 2.0]),
            }
        ),
    }
)


@settings(max_examples=share(60))
@given(CONFIGS)
def test_all_money_is_somewhere(values: dict[str, Any]) -> None:
    """Jobs, agents and the ledger tell the same story, block by block and at the end."""
    config = make_config(burn_in=0.0, **values)
    kept, counts = play(config)
    jobs, agents, ledger = (kept.read(name) for name in ("jobs", "agents", "ledger"))
    check_jobs(jobs, config)
    check_ledger(ledger, jobs, agents, config)
    last = ledger[-1]
    assert sum(row["profit_gwei"] for row in agents) + sum_sinks(last, agents) == 0
    assert last["work_gwei"] == sum(row["work_gwei"] for row in agents)
    assert last["locked_gwei"] == last["open_jobs"] == 0
    for row in agents:
        assert 0 <= row["reputation"] <= 1
        assert row["capital_gwei"] + row["profit_gwei"] >= 0
        assert row["slashed"] <= row["jobs"]
        assert row["left"] is None or row["left"] >= row["entered"]
    earned = {"honest_gwei": 0, "cheat_gwei": 0, "watcher_gwei": 0}
    for row in agents:
        if row["role"] != "client":
            kind = "cheat" if row["strategy"] != "honest" else "honest"
            earned[f"{'watcher' if row['role'] == 'watcher' else kind}_gwei"] += row["profit_gwei"]
    assert earned == {name: getattr(counts, name) for name in earned}
    values_gwei = sum(appraise(row, config) for row in jobs if is_clients(row, agents))
    clients = sum(row["profit_gwei"] for row in agents if row["role"] == "client")
    assert counts.client_gwei == clients + values_gwei


@settings(max_examples=share(60))
@given(CONFIGS, st.sampled_from([0.05, 0.5, 0.95]))
def test_sums_and_spans_leave_the_burn_in_out(values: dict[str, Any], burn_in: float) -> None:
    """Spans have all that agents earn, and a run's sums what they earn after the burn-in."""
    kept, counts = play(make_config(burn_in=burn_in, **values))
    jobs, agents, spans = (kept.read(name) for name in ("jobs", "agents", "spans"))
    for agent in agents:
        own = [row["profit_gwei"] for row in spans if row["agent"] == agent["agent"]]
        if agent["role"] != "client":
            assert sum(own) == agent["profit_gwei"]
    late = [row for row in spans if not row["is_burn_in"] and row["role"] != "client"]
    assert counts.honest_gwei + counts.cheat_gwei + counts.watcher_gwei == sum(
        row["profit_gwei"] for row in late
    )
    counted = [row for row in jobs if row["job"] >= counts.burn_in]
    assert counts.jobs == len(counted)
    assert counts.gas == sum(row["gas"] for row in counted)
    assert counts.fees_gwei == sum(row["fees_gwei"] for row in counted)


@settings(max_examples=share(10))
@given(CONFIGS)
def test_the_same_seed_gives_the_same_rows(values: dict[str, Any]) -> None:
    """A run depends on its configuration, and on nothing that was played before."""
    config = make_config(**values)
    assert play(config)[0].rows == play(config)[0].rows


PLAIN = [name for name in STRATEGIES if name not in ("honest", "late-lie", "watcher")]


@settings(max_examples=share(25))
@given(CONFIGS, draw_groups(PLAIN))
def test_profits_are_what_the_rules_pay(values: dict[str, Any], groups: Any) -> None:
    """What providers gain and what is burned is computed again, from cases and the rules alone."""
    values |= {"seats": 1, "cases": 1, "providers": [make_group("honest", count=3), *groups]}
    for group in values["providers"]:
        group.setdefault("work_eth", 0.02)
    config = make_config(**values)
    kept, _ = play(config)
    lineups = {row["job"]: tuple(row["lineup"].split("+")) for row in kept.read("games")}
    fees = {row["block"]: row["base_fee_wei"] for row in kept.read("ledger")}
    profits: Counter[int] = Counter()
    work = {
        row["agent"]: round(group["work_eth"] * GWEI)
        for row in kept.read("agents")
        for group in values["providers"]
        if row["strategy"] == group["strategy"] and row["role"] == "provider"
    }
    for job in kept.read("jobs"):
        if job["outcome"] == "unserved":
            continue
        conduct = "honest" if job["conduct"] == "forced-error" else job["conduct"]
        case = DrawnOutcomes().judge(lineups.get(job["job"], (conduct,)), 0)
        burned = case.hidden * job["bond_gwei"] + case.forfeits * (job["bond_gwei"] // 2)
        burned += case.defeated * (job["bond_gwei"] - job["bond_gwei"] // 2)
        burned += job["price_gwei"] % case.sharers if case.sharers else 0
        assert job["burned_gwei"] == burned
        then, now = fees[job["arrived"]], fees[job["settled"]]
        price_wei = min(now + GWEI, int((then + GWEI) * config.chain.fee_cap))
        seat = case.seats[0]
        gain = pay(seat, job, case.sharers) - -(-seat.gas * price_wei // GWEI)
        gain -= round(work[job["provider"]] * seat.work)
        silence = config.chain.censor_eth * seat.held_blocks * GWEI
        gain -= round(silence)
        if case.outcome == "wrong" and seat.shares:
            gain += round(job["value_gwei"] * config.clients.gain_share)
        if seat.is_client:
            gain += job["client_gwei"]
        profits[job["provider"]] += gain
    for row in kept.read("agents"):
        if row["role"] == "provider":
            assert row["profit_gwei"] == profits[row["agent"]]


def pay(seat: Seat, job: Row, sharers: int) -> int:
    """Return what a seat has of its bonds, prizes and shares, less what it has locked."""
    paid = -seat.lost * job["bond_gwei"] + seat.prizes * (job["bond_gwei"] // 2)
    if sharers:
        return int(paid + seat.shares * (job["price_gwei"] // sharers))
    return int(paid + (job["price_gwei"] if seat.is_client else 0))


def check_jobs(jobs: Sequence[Row], config: Config) -> None:
    """Check that every job is there once, and ends after it has begun."""
    assert sorted(row["job"] for row in jobs) == list(range(config.jobs))
    arrivals = sorted((row["job"], row["arrived"]) for row in jobs)
    assert all(one[1] <= other[1] for one, other in pairwise(arrivals))
    for row in jobs:
        if row["outcome"] == "unserved":
            assert row["settled"] == row["arrived"]
            assert row["gas"] == row["fees_gwei"] == row["burned_gwei"] == row["client_gwei"] == 0
        else:
            assert row["settled"] > row["arrived"]
            assert row["seats"] == config.seats


def check_ledger(
    ledger: Sequence[Row], jobs: Sequence[Row], agents: Sequence[Row], config: Config
) -> None:
    """Check every block's row against jobs and agents."""
    blocks = [row["block"] for row in ledger]
    assert all(one < other for one, other in pairwise(blocks))
    sums: dict[str, Counter[int]] = defaultdict(Counter)
    for row in jobs:
        served = row["outcome"] != "unserved"
        sums["open"][row["arrived"]] += served
        sums["open"][row["settled"]] -= served
        sums["fees"][row["settled"]] += row["fees_gwei"]
        sums["burned"][row["settled"]] += row["burned_gwei"]
    for row in agents:
        if row["role"] == "provider":
            sums["there"][row["entered"]] += 1
            if row["left"] is not None:
                sums["there"][row["left"]] -= 1
    money = ("free_gwei", "locked_gwei", "burned_gwei", "fees_gwei", "work_gwei", "outside_gwei")
    for row in ledger:
        assert sum(row[name] for name in money) == 0
        assert row["free_gwei"] >= 0 <= row["locked_gwei"]
        assert row["open_jobs"] == add_up(sums["open"], row["block"])
        assert row["fees_gwei"] == add_up(sums["fees"], row["block"])
        assert row["providers"] == add_up(sums["there"], row["block"])
        if config.audit["name"] == "from-bonds":
            assert row["burned_gwei"] == 0
        else:
            assert row["burned_gwei"] == add_up(sums["burned"], row["block"])


def add_up(changes: Counter[int], block: int) -> int:
    """Return the sum of all changes up to a block."""
    at = sorted(changes)
    return sum(changes[it] for it in at[: bisect_right(at, block)])


def sum_sinks(row: Row, agents: Sequence[Row]) -> int:
    """Return where money has gone that agents brought or gained."""
    brought = sum(agent["capital_gwei"] for agent in agents)
    sinks = row["burned_gwei"] + row["fees_gwei"] + row["work_gwei"] + row["outside_gwei"]
    return int(sinks + brought)


def is_clients(job: Row, agents: Sequence[Row]) -> bool:
    """Whether a job was opened by a client, and not by a provider itself."""
    return bool(agents[job["client"]]["role"] == "client")


def appraise(job: Row, config: Config) -> int:
    """Return what a job's answer is worth to a client."""
    if job["outcome"] == "right":
        return int(job["value_gwei"])
    return -round(job["value_gwei"] * config.clients.loss_share) if job["outcome"] == "wrong" else 0
