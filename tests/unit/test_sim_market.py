"""A market on the model: who wins, who is slashed, and that equal seeds give equal results."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from moot.contracts.model.types import Address
from moot.offchain.disputes.referee import Answer, Call, Referee
from moot.offchain.disputes.terms import Stakes
from moot.offchain.errors import ChainError, UsageError
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.agents import Provider, View, Work, check_providers, make_providers
from moot.sim.files import Folder
from moot.sim.market import Market, take_stretch
from moot.sim.mix import Group
from moot.sim.results import Fate, JobResult, Outcome
from moot.sim.strategies import STRATEGIES, TRICKS
from moot.sim.tables import make_job_record, make_object, summarise_market
from tests.sim_helpers import make_task, open_model_market, play_model_market, transact_each

MIX = "honest=3,lazy=1,wrong-output=1,silent=1"
CROWD = "honest=4," + ",".join(f"{name}=1" for name in CHEATS if name != "stale-optimizer")


@pytest.fixture(scope="module")
def market() -> Market:
    """A market in which every cheat that the tiny program allows has a provider."""
    return open_model_market(CROWD, 24, 3)


@pytest.fixture(scope="module")
def results(market: Market) -> list[JobResult]:
    """Its jobs, played once."""
    return list(market.play())


def test_honest_providers_are_never_slashed(results: list[JobResult]) -> None:
    """Whoever is honest is right and wins, in every job, against every cheat."""
    honest = [e for result in results for e in result.entries if e.strategy == "honest"]
    assert len(honest) > 10
    assert all(entry.is_right and entry.fate is Fate.WON for entry in honest)
    assert all(entry.profit_wei > 0 for entry in honest)


def test_one_honest_provider_is_enough(results: list[JobResult]) -> None:
    """The client gets the right answer whenever an honest provider sits in the job."""
    saved = [r for r in results if any(e.strategy == "honest" for e in r.entries)]
    assert len(saved) > 10
    assert all(result.outcome is Outcome.RIGHT for result in saved)


def test_without_an_honest_provider_a_wrong_answer_is_seen(results: list[JobResult]) -> None:
    """A job among cheats alone may be settled on a lie, and is then counted as wrong."""
    wrong = [result for result in results if result.outcome is Outcome.WRONG]
    assert wrong
    for result in wrong:
        winners = [entry for entry in result.entries if entry.fate is Fate.WON]
        assert winners
        assert not any(entry.is_right for entry in winners)


def test_every_cheat_has_been_seen(results: list[JobResult]) -> None:
    """The market of the other tests is one in which all strategies have played."""
    played = {entry.strategy for result in results for entry in result.entries}
    assert played == {"honest", *CHEATS} - {"stale-optimizer"}


def test_claims_that_differ_leave_one(results: list[JobResult]) -> None:
    """Each match defeats one provider, and those who are left share one claim."""
    for result in results:
        slashed = [entry for entry in result.entries if entry.fate is Fate.SLASHED]
        assert len(slashed) == len(result.matches) >= result.claims - 1
        assert bool(result.matches) == (result.claims > 1)


def test_value_is_conserved(results: list[JobResult]) -> None:
    """What the accounts lose in a job is burned or paid for gas; the contract keeps nothing."""
    for result in results:
        flows = result.flows
        assert flows.sum_wei == 0
        assert flows.contract_wei == 0
        profits = sum(entry.profit_wei for entry in result.entries)
        assert flows.accounts_wei == profits + result.client_wei + result.verifier_wei


class Watched:
    """A referee whose calls are noted, and on which money moves when a job is settled."""

    def __init__(self, referee: Referee, moved_wei: dict[Address, int]) -> None:
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self._referee = referee
        self._moved_wei = moved_wei

    def __getattr__(self, name: str) -> object:
        return getattr(self._referee, name)

    def transact(self, name: str, *args: object, sender: Address, value_wei: int = 0) -> object:
        """Note a call and make it."""
        self.calls.append((name, args))
        return self._referee.transact(name, *args, sender=sender, value_wei=value_wei)

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Note calls and make them, one after the other."""
        return transact_each(self, calls)  # type: ignore[arg-type] # by __getattr__

    def balance(self, address: Address) -> int:
        """Return a balance after what has moved."""
        settled = sum(name == "settle" for name, _ in self.calls)
        return self._referee.balance(address) + settled * self._moved_wei.get(address, 0)


def watch(market: Market, moved_wei: dict[Address, int]) -> tuple[Market, Watched]:
    """Return the same market on a watched referee."""
    watched = Watched(market.venue.referee, moved_wei)
    venue = replace(market.venue, referee=watched)  # type: ignore[arg-type] # by __getattr__
    return replace(market, venue=venue), watched


def test_money_from_nowhere_is_noticed() -> None:
    """A balance that changes behind the referee's back stops the market."""
    honest = open_model_market("honest=2", 1, 0)
    market, _ = watch(honest, {honest.venue.client: 1})
    with pytest.raises(ChainError, match="do not add up by 1 wei"):
        list(market.play())


def test_what_the_contract_keeps_is_counted() -> None:
    """Money that goes from an account to the contract is not lost, but seen there."""
    honest = open_model_market("honest=2", 1, 0)
    market, _ = watch(honest, {honest.venue.client: -1, honest.venue.referee.address: 1})
    (result,) = market.play()
    (usual,) = open_model_market("honest=2", 1, 0).play()
    assert result.flows.contract_wei == 1
    assert result.flows.accounts_wei == usual.flows.accounts_wei - 1


def test_salts_are_drawn_anew_for_every_job() -> None:
    """No salt comes twice in a market, and they hang on the seed."""

    def draw_salts(seed: int) -> list[object]:
        market, watched = watch(open_model_market("honest=2", 3, seed), {})
        list(market.play())
        return [args[-1] for name, args in watched.calls if name == "reveal"]

    salts = draw_salts(1)
    assert len(set(salts)) == len(salts) == 6
    assert draw_salts(1) == salts
    assert not set(draw_salts(2)) & set(salts)


def test_the_tables_sum_to_the_jobs(market: Market, results: list[JobResult]) -> None:
    """Rows by strategy hold every provider's part in every job exactly once."""
    summary = summarise_market(market.agents, results)
    entries = [entry for result in results for entry in result.entries]
    assert sum(row.jobs for row in summary.strategies) == len(entries)
    assert sum(row.right for row in summary.strategies) == sum(e.is_right for e in entries)
    assert sum(row.profit_wei for row in summary.strategies) == summary.totals.providers_wei
    assert sum(row.providers for row in summary.strategies) == len(market.agents)
    for row in summary.strategies:
        assert row.won + row.slashed + row.refunded == row.jobs
    totals = summary.totals
    assert totals.right + totals.wrong + totals.void == totals.jobs == len(results)
    gained = totals.client_wei + totals.verifier_wei + totals.providers_wei
    assert gained + totals.burned_wei + totals.fees_wei == 0


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two markets with one seed leave the same files; another seed leaves others."""

    def leave(seed: int, name: str) -> dict[str, bytes]:
        folder = Folder(tmp_path / name)
        market = open_model_market(MIX, 4, seed)
        results = []
        for result in market.play():
            folder.append(result)
            results.append(result)
        folder.finish(summarise_market(market.agents, results))
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    first, again, other = leave(1, "first"), leave(1, "again"), leave(2, "other")
    assert set(first) == {"jobs.csv", "strategies.csv", "gas.csv"}
    assert first == again
    assert first["jobs.csv"] != other["jobs.csv"]
    assert first["strategies.csv"] != other["strategies.csv"]


def test_a_longer_market_begins_like_a_shorter_one() -> None:
    """The first jobs do not depend on how many follow."""
    assert play_model_market(MIX, 5, 1)[:2] == play_model_market(MIX, 2, 1)


def test_lines_are_on_disk_while_the_market_goes_on(tmp_path: Path) -> None:
    """A job's line can be read as soon as the job is settled, and says what the job came to."""
    folder = Folder(tmp_path / "tables")
    path = tmp_path / "tables" / "jobs.csv"
    for count, result in enumerate(open_model_market(MIX, 3, 1).play(), start=1):
        folder.append(result)
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == count
        assert rows[-1] == {key: str(cell) for key, cell in make_job_record(result).items()}


def test_everything_can_be_said_in_json(market: Market, results: list[JobResult]) -> None:
    """The one object has every job and every table, in types that JSON has."""
    summary = summarise_market(market.agents, results)
    told = json.loads(json.dumps(make_object(summary, results)))
    assert set(told) == {"strategies", "gas", "jobs", "totals", "conservation"}
    assert [job["number"] for job in told["jobs"]] == list(range(len(results)))
    assert told["conservation"]["sum_wei"] == 0
    assert told["totals"]["jobs"] == len(results)


def test_agents_only_look_and_answer() -> None:
    """The same view and stream give the same action; honest ones draw nothing from the stream."""
    task = make_task()
    view = View(0, task, Stakes(), 10**20)
    for strategy in set(STRATEGIES) - {"stale-optimizer"}:
        agent = Provider(f"{strategy}-1", strategy)
        actions = [agent.act(view, np.random.default_rng(5)) for _ in range(2)]
        assert all(isinstance(action, Work) for action in actions)
        once, again = ([vars(b) for b in action.behaviours] for action in actions)
        assert once == again
        assert len(once) == agent.accounts
        behaviour = "honest" if strategy == "watcher" else strategy
        assert strategy in TRICKS or actions[0].behaviours[0].name == behaviour
    rng = np.random.default_rng(5)
    Provider("honest-1", "honest").act(view, rng)
    assert rng.integers(2**63) == np.random.default_rng(5).integers(2**63)


def test_providers_are_named_for_their_strategies() -> None:
    """Names are numbered within a strategy, in the order of the mix."""
    providers = make_providers([Group("honest", 2), Group("lazy", 1)])
    assert [provider.name for provider in providers] == ["honest-1", "honest-2", "lazy-1"]


def test_an_impossible_cheat_is_refused_before_anything_runs() -> None:
    """A program without an optimizer's state has no provider that keeps it stale."""
    providers = make_providers([Group("honest", 1), Group("stale-optimizer", 1)])
    with pytest.raises(UsageError, match="stale-optimizer needs a program whose optimizer"):
        check_providers(providers, make_task())
    check_providers(make_providers([Group("honest", 1), Group("lazy", 1)]), make_task())


def test_jobs_have_data_of_their_own() -> None:
    """Job n trains on the n-th stretch of the data, and its data root shows it."""
    task = make_task()
    stretches = [take_stretch(task, number) for number in range(3)]
    assert stretches[0].data_root == task.data_root
    assert len({stretch.data_root for stretch in stretches}) == 3
    assert len({stretch.start_root for stretch in stretches}) == 1
    assert np.array_equal(stretches[2].batch(1)[0], task.batch(2 * task.steps + 1)[0])


def test_an_output_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """A file in the place of the directory is refused on one line."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write") as refusal:
        Folder(tmp_path / "file")
    assert "\n" not in str(refusal.value)


def test_tables_of_an_earlier_market_do_not_stay(tmp_path: Path, results: list[JobResult]) -> None:
    """A market that is cut short does not leave its lines beside another one's tables."""
    names = {"strategies.csv", "gas.csv", "jobs.csv"}
    for name in names:
        (tmp_path / name).write_text("earlier")
    folder = Folder(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.read_text() == "earlier"} == names
    folder.append(results[0])
    folder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]
    assert "earlier" not in (tmp_path / "jobs.csv").read_text()


def test_a_market_without_a_job_leaves_nothing(tmp_path: Path) -> None:
    """What is interrupted before the first job takes its new directories away, and no others."""
    Folder(tmp_path / "new" / "tables").close()
    assert list(tmp_path.iterdir()) == []
    Folder(tmp_path).close()
    assert tmp_path.exists()
