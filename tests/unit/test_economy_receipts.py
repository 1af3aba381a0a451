"""Jobs by receipt in a simulated market: who loses what, what is seen, and what the model holds."""

import math
from collections import Counter
from typing import Any

import pytest

from moot.contracts.model.service import CALLS
from moot.offchain.errors import UsageError
from moot.sim.analysis.twins import make_contest
from moot.sim.economy.agents import Agent
from moot.sim.economy.config import Config
from moot.sim.economy.market import Market
from moot.sim.economy.reporting import Counts
from moot.sim.economy.service import gas, matches
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.played import OtherMoneyError, Played
from moot.sim.economy.service.requests import draw_requests
from moot.sim.economy.service.till import Till
from moot.sim.gas.snapshot import Line, read
from tests.economy_helpers import FixedOutcomes, Kept, Row, make_config, make_group, play

WATCHERS = [make_group("watcher", count=3, blocks=10)]
SERVICE = {
    "requests_per_block": 5.0,
    "window_blocks": 100,
    "stake_eth": 0.002,
    "bond_eth": 2.0,
    "redeem_every": 50,
    "fund_answers": 100,
}
SCAM = {"honest": 20, "lies": 120, "chains": 4}


def make(service: dict[str, Any] | None = None, **values: Any) -> Config:
    """Return a market of requests alone, with honest providers unless values say else."""
    plain = {"jobs": 1500, "providers": [make_group("honest", count=4)], "watchers": WATCHERS}
    clients = {"count": 8, "jobs_per_block": 0.0, "gain_share": values.pop("gain", 1.0)}
    return make_config(
        **(plain | {"clients": clients, "service": SERVICE | (service or {})} | values)
    )


def run(config: Config) -> tuple[Kept, Counts]:
    """Play a market in which truth wins every match."""
    return play(config, FixedOutcomes())


def make_scam(**parameters: Any) -> list[dict[str, Any]]:
    """Return honest providers, and an exit scam."""
    return [
        make_group("honest", count=4),
        make_group("exit-scam", parameters=SCAM | parameters),
    ]


def find_scam(kept: Kept) -> Row:
    """Return the agent that scams."""
    return next(row for row in kept.read("agents") if row["strategy"] == "exit-scam")


def test_an_honest_answer_costs_no_call() -> None:
    """Most answers are paid without any call; what there is are deposits, and vouchers of many."""
    kept, counts = run(make({"price_gwei": 400.0}))
    jobs, calls = kept.read("jobs"), Counter(row["call"] for row in kept.read("service"))
    assert counts.right == counts.jobs == 1500
    assert sum(row["gas"] == 0 for row in jobs) > 1400
    assert set(calls) == {"service.stake", "service.fund", "service.redeem"}
    amounts = Counter[str]()
    for row in kept.read("service"):
        amounts[row["call"]] += row["amount_gwei"]
    paid = sum(row["price_gwei"] for row in kept.read("receipts"))
    pairs = len({(row["client"], row["provider"]) for row in kept.read("receipts")})
    assert 0 <= amounts["service.fund"] - paid <= pairs * 100 * 500 * 400
    redeemed = [row for row in kept.read("service") if row["call"] == "service.redeem"]
    assert {row["receipts"] for row in redeemed} == {50}
    assert all(row["profit_gwei"] > 0 for row in kept.read("agents") if row["role"] == "provider")


def test_a_market_without_requests_has_no_receipts() -> None:
    """The tables of receipts are empty where all jobs are by auction."""
    kept, _ = run(make_config())
    assert not kept.rows["receipts"]
    assert not kept.rows["service"]


def test_both_kinds_of_jobs_are_there() -> None:
    """Auctions and requests share numbers, agents and money."""
    clients = {"count": 8, "jobs_per_block": 2.0}
    kept, counts = run(make(clients=clients))
    answered = len(kept.rows["receipts"])
    assert answered > 700
    assert counts.jobs - answered - counts.unserved > 200


@pytest.mark.parametrize(("rate", "is_caught"), [(0.0, False), (0.02, True)])
def test_watchers_who_sample_find_lies(rate: float, *, is_caught: bool) -> None:
    """A lie is challenged where receipts are sampled, and else never; half of a bond is burned."""
    groups = [make_group("honest", count=4), make_group("lazy")]
    kept, counts = run(make({"sample_rate": rate}, providers=groups))
    assert (counts.caught > 0) == is_caught
    assert counts.cheated > counts.caught
    found = [row for row in kept.read("receipts") if row["finding"] == "lie"]
    assert len(found) == counts.caught
    assert all(row["is_lie"] and row["checker"] == "watcher" for row in found)
    assert {row["lost_gwei"] for row in found} <= {200_000_000}
    assert counts.burned_gwei == counts.caught * 100_000_000


@pytest.mark.parametrize(("blocks", "is_late"), [(10, False), (99, True)])
def test_a_check_that_ends_after_the_window_challenges_nothing(
    blocks: int, *, is_late: bool
) -> None:
    """A check and an announcement have to end in the window."""
    watchers = [make_group("watcher", count=3, blocks=blocks)]
    config = make({"sample_rate": 0.02}, providers=[make_group("lazy")], watchers=watchers)
    kept, counts = run(config)
    assert (counts.caught == 0) == (counts.checked == 0) == is_late
    for row in kept.read("receipts"):
        assert row["challenged"] is None or row["challenged"] <= row["last"]


def test_a_bond_that_is_used_up_is_no_longer_challenged() -> None:
    """No match is about less than the least bond; a provider without one can't sign, and leaves."""
    config = make({"sample_rate": 0.5, "bond_eth": 0.5}, providers=[make_group("lazy", count=2)])
    kept, counts = run(config)
    lost = Counter[int]()
    for row in kept.read("receipts"):
        lost[row["provider"]] += row["lost_gwei"]
    assert set(lost.values()) == {400_000_000}
    assert counts.unserved
    assert {row["reason"] for row in kept.read("jobs")} == {None, "no-cover"}


@pytest.mark.parametrize(("bond_eth", "is_full"), [(0.2, True), (4.0, False)])
def test_a_bond_covers_what_is_open(bond_eth: float, *, is_full: bool) -> None:
    """Requests that no bond covers are not served; nothing open is ever above a bond."""
    kept, counts = run(make({"bond_eth": bond_eth}))
    assert (counts.unserved > 0) == is_full
    assert all(row["open_gwei"] <= bond_eth * 1e9 for row in kept.read("receipts"))
    assert all(row["is_covered"] for row in kept.read("receipts"))


def test_a_frivolous_challenger_pays_the_defence() -> None:
    """A challenger that lies loses its bond; half is the provider's, which signs on."""
    watchers = [make_group("griefer", count=2, blocks=10)]
    kept, counts = run(make({"sample_rate": 0.0005}, watchers=watchers))
    found = [row for row in kept.read("receipts") if row["finding"] == "frivolous"]
    assert found
    assert not sum(row["lost_gwei"] for row in found)
    assert counts.burned_gwei == len(found) * 100_000_000
    stakes = [row for row in kept.read("service") if row["call"] == "service.stake"]
    assert len(stakes) == 4 + len(found)
    agents = kept.read("agents")
    assert all(row["profit_gwei"] < 0 for row in agents if row["strategy"] == "griefer")
    assert all(row["left"] is None for row in agents if row["role"] == "provider")


def test_clients_who_check_do_not_pay_for_lies() -> None:
    """A lie that its client finds is not paid, not relied on, and challenged."""
    groups = [make_group("honest", count=4), make_group("lazy")]
    kept, counts = run(make({"client_checks": 0.2, "bond_eth": 20.0}, providers=groups))
    found = [row for row in kept.read("receipts") if row["checker"] == "client" and row["is_lie"]]
    assert len(found) == counts.void > 10
    assert not any(row["is_paid"] or row["is_relied"] for row in found)
    assert all(row["finding"] == "lie" for row in found)
    honest = [row for row in kept.read("receipts") if not row["is_lie"]]
    assert all(row["is_paid"] for row in honest)


@pytest.mark.parametrize(
    ("shown", "every", "rate", "finding"),
    [
        ("receipt", 0, 0.0, None),
        ("chain", 0, 0.0, None),
        ("chain", 0, 0.01, "conflict"),
        ("word", 0, 0.0, "conflict"),
        ("batch", 5, 0.0, "unlisted"),
    ],
)
def test_what_clients_are_shown_decides_about_forks(
    shown: str, every: int, rate: float, finding: str | None
) -> None:
    """A bond that is promised on four chains is lost where somebody sees two of them."""
    service = {"shown": shown, "publish_every": every, "sample_rate": rate}
    kept, counts = run(make(service, providers=make_scam(), gain=0.0))
    findings = {row["finding"] for row in kept.read("receipts")} - {None, "lie"}
    assert counts.burned_gwei * 2 == sum(row["lost_gwei"] for row in kept.read("receipts"))
    refused = [row for row in kept.read("receipts") if row["finding"] in ("conflict", "unlisted")]
    assert shown == "chain" or not any(row["is_relied"] or row["is_paid"] for row in refused)
    assert findings == ({finding} if finding else set())
    scam = find_scam(kept)
    assert scam["left"] is not None
    if finding:
        assert scam["slashed"]
        assert scam["profit_gwei"] < -1.9e9
    else:
        assert not scam["slashed"]


@pytest.mark.parametrize("shown", ["receipt", "chain", "word"])
def test_a_chain_that_hides_what_is_open(shown: str) -> None:
    """A receipt that says that all before it had ended is seen at once in a chain."""
    service = {"shown": shown, "sample_rate": 0.0}
    kept, counts = run(make(service, providers=make_scam(way="released")))
    lies = [row for row in kept.read("receipts") if row["is_lie"]]
    assert (len(lies) == 1) == (shown != "receipt")
    assert counts.caught == (shown != "receipt")


@pytest.mark.parametrize("shown", ["receipt", "chain", "word", "batch"])
def test_an_honest_chain_has_no_fault(shown: str) -> None:
    """Who lies on one chain loses matches, and can't be shown to be at fault."""
    service = {"shown": shown, "publish_every": 5, "sample_rate": 0.01}
    kept, _ = run(make(service, providers=make_scam(way="honest")))
    assert {row["finding"] for row in kept.read("receipts")} <= {None, "lie"}


def test_a_bond_is_promised_several_times() -> None:
    """On several chains more is open than the bond; each receipt says that it is covered."""
    service = {"bond_eth": 0.2, "min_bond_eth": 0.2}
    kept, _ = run(make(service, providers=make_scam(lies=300, chains=4)))
    own = [row for row in kept.read("receipts") if row["strategy"] == "exit-scam"]
    assert sum(not row["is_covered"] for row in own) > 50
    assert all(row["open_gwei"] <= 200_000_000 for row in own)
    honest, _ = run(make(service, providers=make_scam(lies=300, way="honest")))
    assert all(row["is_covered"] for row in honest.read("receipts"))


@pytest.mark.parametrize(("strategy", "is_safe"), [("cartel", True), ("lazy", False)])
def test_a_cartel_watches_over_its_friends_alone(strategy: str, *, is_safe: bool) -> None:
    """A watcher of a cartel never challenges its own provider, and challenges others."""
    groups = [make_group("honest", count=2), make_group(strategy, parameters={"rate": 1.0})]
    watchers = [make_group("cartel", count=2, blocks=10)]
    _, counts = run(make({"sample_rate": 0.02}, providers=groups, watchers=watchers))
    assert (counts.caught == 0) == is_safe
    both = [*watchers, make_group("watcher", blocks=10)]
    _, watched = run(make({"sample_rate": 0.02}, providers=groups, watchers=both))
    assert watched.caught > 0


def test_a_cartel_gives_its_word_for_forks() -> None:
    """The word of a watcher that lies is worth nothing, as the design says."""
    groups = [make_group("honest", count=2), make_group("cartel")]
    groups[1] = make_group("exit-scam", parameters=SCAM)
    sleepy = [make_group("free-riding-watcher", count=2)]
    kept, counts = run(make({"shown": "word"}, providers=groups, watchers=sleepy))
    assert counts.caught == 0
    kept, counts = run(make({"shown": "word"}, providers=groups))
    assert counts.caught == 1
    assert len([row for row in kept.read("receipts") if row["is_lie"]]) < 40


def test_requests_are_drawn_as_they_are_configured() -> None:
    """Requests come as a Poisson process of the rate, and tokens have the median."""
    config = make({"tokens": 700})
    drawn = [it for it, _ in zip(draw_requests(config), range(20_000), strict=False)]
    waiting = [it.waiting for it in drawn]
    mean = sum(waiting) / len(waiting)
    spread = math.sqrt(sum((it - mean) ** 2 for it in waiting) / len(waiting))
    assert math.isclose(mean, 0.2, rel_tol=0.03)
    assert math.isclose(spread, mean, rel_tol=0.05)
    assert abs(sorted(it.tokens for it in drawn)[10_000] - 700) < 15
    assert {it.client for it in drawn} == set(range(8))
    other = next(draw_requests(make({"tokens": 700}, seed=9)))
    assert other != drawn[0]


@pytest.mark.parametrize(
    ("service", "values", "told"),
    [
        ({"stake_eth": 3.0}, {}, "raise service.bond_eth"),
        ({"shown": "batch"}, {}, "set service.publish_every above 0"),
        ({"shown": "batch", "publish_every": 100}, {}, "lower service.publish_every"),
        ({"shown": "everything"}, {}, "choose one of receipt, chain, batch, word"),
        ({}, {"fidelity": "played"}, 'set fidelity = "modelled" or "mixed"'),
        ({"min_bond_eth": 0.1}, {"fidelity": "mixed"}, "the contract's least bond of 0.2 ETH"),
        ({"requests_per_block": 0.0}, {}, "there are no jobs"),
        ({"request_per_block": 1.0}, {}, "service.requests_per_block"),
    ],
)
def test_impossible_services(service: Any, values: Any, told: str) -> None:
    """What can't be is refused in one line that says what to choose."""
    with pytest.raises(UsageError) as refusal:
        make(service, **values)
    assert told in refusal.value.message
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize("parameters", [{"way": "magic"}, {"chains": 0}, {"lies": 0}])
def test_impossible_scams(parameters: dict[str, Any]) -> None:
    """A scam of no chain, no lie or no known way is refused."""
    with pytest.raises(UsageError):
        run(make(providers=make_scam(**parameters)))


def play_mixed(config: Config) -> Counter[str]:
    """Play a market whose money is played on the model, too; return the calls that were made."""
    market = Market(config, FixedOutcomes(), Kept())
    market.play()
    assert market._desk is not None
    moves = market._desk.till.moves
    assert isinstance(moves, Played)
    return moves.calls


@pytest.mark.parametrize("way", ["forks", "released"])
@pytest.mark.parametrize("shown", ["receipt", "batch", "word"])
def test_money_is_what_the_model_of_the_service_holds(shown: str, way: str) -> None:
    """Bonds, balances, matches and faults of drawn providers are on the model as in the books."""
    watchers = [*WATCHERS, make_group("griefer", blocks=10)]
    service = {"shown": shown, "publish_every": 8, "sample_rate": 0.0005, "redeem_every": 5}
    config = make(
        service,
        fidelity="mixed",
        sample=1.0,
        jobs=500,
        providers=make_scam(way=way),
        watchers=watchers,
    )
    calls = play_mixed(config)
    assert {"stake", "fund", "redeem", "publish", "commit"} <= set(calls)
    assert calls["prove_conflict"] + calls["prove_unlisted"] + calls["challenge"] > 0


def test_nobody_is_drawn_where_nothing_is_to_be_played() -> None:
    """Of a share of 0 nothing is played; that is what decides."""
    assert not play_mixed(make({}, fidelity="mixed", sample=0.0, jobs=100))


def take_nothing(till: Till, house: House, reporter: Agent, job: int) -> tuple[int, int]:
    """Take no bond for a fault."""
    del till, house, reporter, job
    return 0, 0


def pay_a_third(till: Till, house: House, reporter: Agent, job: int) -> tuple[int, int]:
    """Take a bond, and pay less of it than the service does."""
    del till, reporter, job
    lost_gwei, house.bond_gwei = house.bond_gwei, 0
    return lost_gwei, lost_gwei // 3


def move_half(till: Till, house: House, client: int) -> int:
    """Move half of what a client owes."""
    owed_gwei = house.owed_gwei.pop(client)
    till.balances[client, house.agent.number] -= owed_gwei // 2
    return owed_gwei


@pytest.mark.parametrize(
    ("place", "broken", "service"),
    [
        ((Till, "take_all"), take_nothing, {"shown": "word"}),
        ((Till, "take_all"), pay_a_third, {"shown": "word"}),
        ((Till, "settle_up"), move_half, {}),
        ((matches, "LIES"), (None, None), {"sample_rate": 0.02}),
    ],
)
def test_other_money_than_the_models_is_noticed(
    place: tuple[Any, str], broken: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A market that moves something else than the service does fails, and else it does not."""
    service |= {"redeem_every": 5}
    config = make(service, fidelity="mixed", sample=1.0, jobs=400, providers=make_scam())
    play_mixed(config)
    monkeypatch.setattr(*place, broken)
    matches.make_run.cache_clear()
    try:
        with pytest.raises(OtherMoneyError):
            play_mixed(config)
    finally:
        matches.make_run.cache_clear()


def test_the_table_of_gas_has_what_was_measured() -> None:
    """Each call costs what its line of the committed snapshot says; one without is refused."""
    rows = list(gas.read_rows().values())
    assert rows == gas.measure_rows(rows, read(gas.SNAPSHOT))
    line = Line("receipts", "redeem-later", 3, 60_000, 61_000, 62_000)
    row = gas.read_rows()["service.redeem"]
    assert gas.measure_rows([row], [line])[0].gas == 61_000 != row.gas
    with pytest.raises(UsageError, match="nothing has measured receipts redeem-later"):
        gas.measure_rows([row], [])


def test_a_call_that_the_service_has_not_has_no_gas() -> None:
    """An unknown call is refused, with those that there are."""
    assert gas.find_gas("service.commit") > 21_000
    with pytest.raises(UsageError, match=r"service\.commit"):
        gas.find_gas("service.comit")


def test_all_calls_of_the_table_are_the_services() -> None:
    """Each row is a call of the model; a name that it has not would be seen."""
    assert {name.removeprefix("service.") for name in gas.read_rows()} < set(CALLS)


def test_a_cartel_has_an_honest_twin_in_both_roles() -> None:
    """Its provider does what is agreed and its watcher checks, beside the same random numbers."""
    groups = [make_group("honest", count=2), make_group("cartel")]
    watchers = [make_group("watcher", blocks=10), make_group("cartel", blocks=10)]
    config = make({"sample_rate": 0.02}, providers=groups, watchers=watchers)
    contest = make_contest(config, ["cartel"])
    assert [it.strategy for it in contest.twin.providers] == ["honest", "honest"]
    assert [it.strategy for it in contest.twin.watchers] == ["watcher", "watcher"]
    (attack, lies), (twin, none) = run(contest.attack), run(contest.twin)
    assert lies.cheated > none.cheated == 0
    told = [
        [(row["arrived"], row["value_gwei"]) for row in it.read("jobs")] for it in (attack, twin)
    ]
    assert sorted(told[0]) == sorted(told[1])
