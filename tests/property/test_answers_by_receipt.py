"""Random small economies with jobs by receipt: every gwei is somewhere, and receipts tell why."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moot.contracts.model import receipts as model
from moot.contracts.model.types import ZERO
from moot.sim.economy.config import Config
from moot.sim.economy.service.signed import KEPT_WINDOWS, Pool, Signed, find_conflict
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.strategies import STRATEGIES
from moot.sim.theory.receipts import SHOWN
from tests.economy_helpers import DrawnOutcomes, Kept, Row, make_config, make_group, play
from tests.quick import share

SCAMS = st.builds(
    make_group,
    st.just("exit-scam"),
    count=st.integers(0, 2),
    parameters=st.fixed_dictionaries(
        {
            "honest": st.sampled_from([0, 5]),
            "lies": st.sampled_from([1, 30]),
            "way": st.sampled_from(["forks", "released", "honest"]),
            "chains": st.integers(1, 5),
        }
    ),
)


def draw_groups(names: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return groups of some strategies, poor and rich."""
    group = st.builds(
        make_group,
        st.sampled_from(sorted(names)),
        count=st.integers(0, 3),
        capital_eth=st.sampled_from([0.0, 1.0, 3.0, 1000.0]),
        blocks=st.integers(1, 60),
    )
    return st.lists(group, max_size=4, unique_by=lambda it: it["strategy"])


OTHERS = draw_groups([it for it in (*STRATEGIES, *AGENTS) if it not in ("honest", "exit-scam")])
SERVICES = st.fixed_dictionaries(
    {
        "requests_per_block": st.sampled_from([0.5, 5.0]),
        "tokens": st.sampled_from([1, 1000]),
        "price_gwei": st.sampled_from([0.0, 10.0, 1e6]),
        "work_gwei": st.sampled_from([0.0, 5.0]),
        "stake_eth": st.sampled_from([0.01, 0.3]),
        "bond_eth": st.sampled_from([0.3, 2.0]),
        "min_bond_eth": st.sampled_from([0.0, 0.2]),
        "window_blocks": st.sampled_from([10, 100]),
        "shown": st.sampled_from(SHOWN),
        "publish_every": st.sampled_from([1, 8]),
        "word_gwei": st.sampled_from([0.0, 50.0]),
        "client_checks": st.sampled_from([0.0, 0.3, 1.0]),
        "sample_rate": st.sampled_from([0.0, 0.001, 0.2]),
        "redeem_every": st.sampled_from([1, 7]),
        "fund_answers": st.sampled_from([1, 50]),
    }
)
CONFIGS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "jobs": st.just(80),
        "providers": st.tuples(OTHERS, SCAMS).map(
            lambda both: [make_group("honest", count=3), *both[0], both[1]]
        ),
        "watchers": draw_groups(list(WATCHERS)),
        "service": SERVICES,
        "capital": st.fixed_dictionaries({"rate": st.sampled_from([0.0, 2.0])}),
        "clients": st.fixed_dictionaries(
            {
                "count": st.integers(1, 4),
                "capital_eth": st.sampled_from([0.0, 1.0, 1e4]),
                "jobs_per_block": st.sampled_from([0.0, 0.5]),
                "gain_share": st.sampled_from([0.0, 2.0]),
            }
        ),
        "entry": st.fixed_dictionaries(
            {
                "per_1000_blocks": st.sampled_from([0.0, 20.0]),
                "patience": st.sampled_from([0, 3]),
            }
        ),
    }
)


@settings(max_examples=share(60))
@given(CONFIGS)
def test_all_money_is_somewhere(values: dict[str, Any]) -> None:
    """Receipts, calls, agents and the ledger tell the same story, at every block and at the end."""
    config = make_config(burn_in=0.0, **values)
    kept, counts = play(config)
    jobs, agents, ledger = (kept.read(name) for name in ("jobs", "agents", "ledger"))
    assert sorted(row["job"] for row in jobs) == list(range(config.jobs))
    check_receipts(kept, config)
    money = ("free_gwei", "locked_gwei", "burned_gwei", "fees_gwei", "work_gwei", "outside_gwei")
    for row in ledger:
        assert sum(row[name] for name in money) == 0
        assert row["open_jobs"] >= 0
    assert ledger[-1]["open_jobs"] == 0
    assert all(one["block"] < other["block"] for one, other in pairwise(ledger))
    calls = kept.read("service")
    by_auction = {row["job"] for row in jobs} - {row["job"] for row in kept.read("receipts")}
    auctions = [row for row in jobs if row["job"] in by_auction]
    for name in ("gas", "fees_gwei"):
        own = sum(row[name] for row in auctions)
        assert getattr(counts, name) == own + sum(row[name] for row in calls)
    assert counts.fees_gwei == ledger[-1]["fees_gwei"]
    assert counts.burned_gwei == ledger[-1]["burned_gwei"]
    spans: Counter[int] = Counter()
    for row in kept.read("spans"):
        spans[row["agent"]] += row["profit_gwei"]
    assert all(spans[row["agent"]] == row["profit_gwei"] for row in agents)
    worth = sum(appraise(row, config) for row in jobs if agents[row["client"]]["role"] == "client")
    clients = sum(row["profit_gwei"] for row in agents if row["role"] == "client")
    assert counts.client_gwei == clients + worth


@settings(max_examples=share(15))
@given(CONFIGS)
def test_the_same_seed_gives_the_same_rows(values: dict[str, Any]) -> None:
    """A run depends on its configuration, and on nothing that was played before."""
    config = make_config(**values)
    assert play(config)[0].rows == play(config)[0].rows


@settings(max_examples=share(15))
@given(CONFIGS)
def test_requests_change_nothing_that_is_drawn_of_auctions(values: dict[str, Any]) -> None:
    """Jobs by auction have the same clients and values, whether or not requests are beside them."""
    values["clients"]["jobs_per_block"] = 0.5
    config = make_config(**values)
    kept, _ = play(config, DrawnOutcomes())
    alone, _ = play(make_config(**(values | {"service": {}})))
    answered = {row["job"] for row in kept.read("receipts")}
    refused = {"no-cover", "nobody-can", "declined", "overspent", "client-too-poor"}
    sold = [row for row in kept.read("jobs") if row["job"] not in answered]
    sold = sorted((row for row in sold if row["reason"] not in refused), key=lambda it: it["job"])
    drawn = sorted(alone.read("jobs"), key=lambda row: row["job"])
    there = iter((row["client"], row["value_gwei"]) for row in drawn if not is_shill(row, alone))
    found = [(row["client"], row["value_gwei"]) for row in sold if not is_shill(row, kept)]
    assert all(any(one == other for other in there) for one in found)


def is_shill(job: Row, kept: Kept) -> bool:
    """Whether a job was opened by a provider itself."""
    return bool(kept.read("agents")[job["client"]]["role"] != "client")


def appraise(job: Row, config: Config) -> int:
    """Return what a job's answer is worth to a client."""
    if job["outcome"] == "right":
        return int(job["value_gwei"])
    return -round(job["value_gwei"] * config.clients.loss_share) if job["outcome"] == "wrong" else 0


def check_receipts(kept: Kept, config: Config) -> None:
    """Check numbers, totals and payment of receipts, and that honest providers lose nothing."""
    jobs = {row["job"]: row for row in kept.read("jobs")}
    chains: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in sorted(kept.read("receipts"), key=lambda it: it["job"]):
        chains[row["provider"], row["chain"]].append(row)
        job = jobs[row["job"]]
        assert row["is_paid"] == row["is_relied"] == (job["outcome"] in ("right", "wrong"))
        assert row["is_lie"] == job["is_cheated"]
        assert row["open_gwei"] <= round(config.service.bond_eth * 1e9)
        assert row["last"] == row["issued"] + config.service.window_blocks
        if row["strategy"] == "honest":
            assert (row["chain"], row["is_lie"], row["finding"]) in [
                (0, False, None),
                (0, False, "frivolous"),
            ]
    for own in chains.values():
        numbers = [row["number"] for row in own]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


NUMBERS = st.integers(0, 4)
SIGNED = st.builds(
    Signed,
    chain=st.integers(0, 1),
    born=st.just(0),
    number=NUMBERS,
    issued=NUMBERS,
    last=st.integers(0, 8),
    stake=st.integers(0, 2),
    total=st.integers(0, 8),
    released=st.integers(0, 8),
)


def make_receipt(signed: Signed) -> model.Receipt:
    """Return a receipt of the contract's model with the numbers of one of a market."""
    return model.Receipt(
        layout=ZERO,
        program_top=ZERO,
        start_root=ZERO,
        data_top=ZERO,
        history=ZERO,
        answer=ZERO,
        operators=1,
        state_slots=1,
        batch_slots=0,
        answer_slot=0,
        steps=1,
        checkpoint_every=1,
        window_blocks=1,
        clock_blocks=1,
        increment_blocks=1,
        client="0x" + "11" * 20,
        provider="0x" + "22" * 20,
        number=signed.number,
        issued_block=signed.issued,
        last_block=signed.last,
        stake_wei=signed.stake,
        total_wei=signed.total,
        released_wei=signed.released,
        price_wei=0,
    )


@given(SIGNED, SIGNED)
def test_conflicts_are_those_of_the_contracts_model(one: Signed, other: Signed) -> None:
    """Two receipts conflict in a market if they do on the chain; one alone never does."""
    first, second = sorted((one, other), key=lambda it: it.number)
    if one.number == other.number and one.chain == other.chain:
        assert not find_conflict(first, second)
    else:
        expected = model.find_conflict(make_receipt(first), make_receipt(second))
        assert find_conflict(first, second) == expected


@st.composite
def draw_seen(draw: st.DrawFn) -> list[Signed]:
    """Return receipts of chains that may fork, hide what is open, and end, in any order."""
    window, stakes = draw(st.integers(1, 6)), st.integers(1, 3)
    signed: list[Signed] = []
    for chain in range(draw(st.integers(1, 2))):
        hides, block, total, released = draw(st.booleans()), 0, 0, 0
        for number in range(draw(st.integers(1, 8))):
            block += draw(st.integers(0, 3))
            ended = [it for it in signed if it.chain == chain and it.last < block]
            released = total if hides else max([released, *(it.total for it in ended)])
            total += (stake := draw(stakes))
            signed.append(Signed(chain, 0, number, block, block + window, stake, total, released))
    return draw(st.permutations(signed))


@settings(max_examples=share(200))
@given(draw_seen())
def test_a_pool_finds_a_conflict_if_there_is_one(seen: list[Signed]) -> None:
    """Whoever keeps receipts has a proof as soon as two of them conflict, while both are kept."""
    pool = Pool(is_chained=False)
    before: list[Signed] = []
    window = seen[0].last - seen[0].issued
    for new in seen:
        pair = pool.see(new)
        pairs = [(old, *sorted((old, new), key=lambda it: it.number)) for old in before]
        found = [old for old, one, other in pairs if find_conflict(one, other)]
        if pair is not None:
            assert find_conflict(*pair)
            assert new in pair
            return
        before.append(new)
        newest = max(it.issued for it in before)
        assert all(old.last < newest - KEPT_WINDOWS * window for old in found)


def test_a_pool_lets_receipts_go() -> None:
    """What has ended for two windows is forgotten, so that a pool does not grow for ever."""
    pool = Pool(is_chained=False)
    for number in range(1000):
        total = number + 1
        assert (
            pool.see(Signed(0, 0, number, number, number + 10, 1, total, max(0, total - 11)))
            is None
        )
    assert len(pool._kept) < 40
