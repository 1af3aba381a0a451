"""The checked referee notices whatever a referee does against the rules, in any simulation."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model import ledger
from moot.contracts.model.store_invariants import BrokenInvariantError
from moot.contracts.model.types import ZERO, Address, Event
from moot.offchain.chain import Chain, tester
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Answer, Call, ModelReferee, Outcome
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import Reverted
from moot.sim.checked_referee import CheckedReferee
from moot.sim.economy.receipts import WON
from moot.sim.relay import read_cost
from moot.sim.strategies import STRATEGIES, Conduct
from moot.sim.swarm import Swarm, draw_lies
from tests.case_helpers import list_addresses, run_case
from tests.sim_helpers import make_task, open_referee, transact_each

LINEUP, NUMBER = ("lazy", "honest"), 3
LABEL = r"case 3 of lazy\+honest"


class Unlawful:
    """A model that announces something else, or accepts what it should refuse.

    Args:
        referee: the model.
        distort: changes what a call has announced.
    """

    def __init__(
        self, referee: ModelReferee, distort: Callable[[str, tuple[Event, ...]], tuple[Event, ...]]
    ) -> None:
        self._referee = referee
        self._distort = distort

    def __getattr__(self, name: str) -> object:
        return getattr(self._referee, name)

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call, and distort what it announces."""
        outcome = self._referee.transact(name, *args, sender=sender, value_wei=value_wei)
        return replace(outcome, events=self._distort(name, outcome.events))

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls one after the other."""
        return transact_each(self, calls)  # type: ignore[arg-type] # by __getattr__


def test_a_false_announcement_is_seen() -> None:
    """An event that the model does not announce stops the game, and the case is named."""

    def forget(name: str, events: tuple[Event, ...]) -> tuple[Event, ...]:
        return () if name == "settle" else events

    unlawful: Any = Unlawful(open_referee(list_addresses(LINEUP)), forget)
    with pytest.raises(BrokenInvariantError, match=f"{LABEL}: settle .*announced_is_true"):
        run_case(*LINEUP, number=NUMBER, referee=unlawful)


def test_a_call_that_should_be_refused_is_seen() -> None:
    """A referee that accepts what the model refuses is named, with the model's reason."""
    address = Address("0x" + "00" * 19 + "01")
    referee = ModelReferee({address: 0})
    checked = CheckedReferee(referee, "a test")
    referee.transact = lambda *_, **__: Outcome((), None)  # type: ignore[method-assign] # accepts all
    with pytest.raises(BrokenInvariantError, match=r"a test: collect .*no such job"):
        checked.transact("collect", 0, sender=address)


def test_a_broken_invariant_is_named_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the law itself is broken, it is said in which call, and which sentence is false."""
    defeat = ledger._defeat

    def keep_prize(*args: Any) -> None:
        defeat(*args)
        store, job_id = args[:2]
        store.put(store.jobs, job_id, replace(store.jobs[job_id], forfeits=7))

    monkeypatch.setattr(ledger, "_defeat", keep_prize)
    message = f"{LABEL}: .*prizes_are_conserved: Every lost bond is one prize"
    with pytest.raises(BrokenInvariantError, match=message):
        run_case(*LINEUP, number=NUMBER)


def test_a_swarm_is_witnessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same breach is seen in a swarm."""
    monkeypatch.setattr(ledger, "_defeat", lambda *_: None)
    accounts = [Address(f"0x{number:040x}") for number in range(1, 5)]
    swarm = Swarm(ModelReferee(dict.fromkeys(accounts, 10**24)), accounts, draw_lies(3, 3))
    with pytest.raises(BrokenInvariantError, match=r"a swarm of 3: .*defeat_takes_a_match"):
        swarm.play()


def test_every_call_of_a_case_is_witnessed() -> None:
    """As many steps are checked as calls are accepted, and who is honest is known in each job."""
    referee = open_referee(list_addresses(LINEUP))
    checked = run_case(*LINEUP, number=NUMBER, referee=referee).referee
    assert checked.logs[0] == list(referee.events(0))
    assert len(checked.watcher.honest[0]) == 1
    names = ("jobs", "members", "claims", "matches", "balance_wei", "burned_wei")
    assert all(getattr(checked.store, name) == getattr(referee.store, name) for name in names)


def test_what_refused_calls_cost_is_read() -> None:
    """Also of calls that are sent at once, each with its gas, and with the fee that it paid."""
    chain = Chain(tester.Tester(3), None)
    contract = deploy_referee(chain, chain.accounts[0])
    client, first, second = chain.accounts
    checked = CheckedReferee(ChainReferee(chain, contract, 0), "a test")
    opening = Call("open_job", client, (make_terms(make_task()),), 10**17)
    early = [Call("settle", account, (0, ZERO)) for account in (first, second)]
    before_wei = {account: checked.balance(account) for account in (first, second)}
    opened, *refused = checked.transact_all([opening, *early])
    assert isinstance(opened, Outcome)
    with pytest.raises(Reverted):
        checked.transact("settle", 0, ZERO, sender=client)
    for account, answer in zip((first, second), refused, strict=True):
        gas, fee_wei = read_cost(answer)
        assert gas > 21_000
        assert fee_wei == before_wei[account] - checked.balance(account)


def test_those_who_act_together_are_refused_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a client that is an honest provider, too, collects once."""
    patron = Conduct("works, and pays for it", ("honest",), is_client=True)
    monkeypatch.setitem(STRATEGIES, "patron", patron)  # type: ignore[arg-type] # it is a dict
    checked = run_case("honest", "patron")
    assert all(row.fate == WON for row in checked.receipts.accounts if row.seat is not None)
    answers = [answer for _, _, answer in checked.played.recorder.made]
    assert all(isinstance(answer, Outcome) for answer in answers)
