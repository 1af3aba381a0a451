"""The witness notices whatever a referee does against the rules, in any simulation."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model import ledger
from moot.contracts.model.invariants import BrokenInvariantError
from moot.contracts.model.types import ZERO, Address, Event
from moot.offchain.chain import Chain, tester
from moot.offchain.disputes.chain_referee import ChainReferee
from moot.offchain.disputes.referee import Answer, Call, ModelReferee, Outcome
from moot.offchain.disputes.terms import make_terms
from moot.offchain.errors import Reverted
from moot.offchain.providers.behaviour import Behaviour
from moot.sim import market as module
from moot.sim.agents import View, Work
from moot.sim.market import Market
from moot.sim.results import Fate
from moot.sim.swarm import Swarm, draw_lies
from moot.sim.witness import Witness
from tests.sim_helpers import make_task, open_model_market, transact_each

SEED = 3


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


def open_market() -> Market:
    """Return a market with a dispute in its first jobs."""
    return open_model_market("honest=1,lazy=1", 2, SEED)


def test_a_false_announcement_is_seen() -> None:
    """An event that the model does not announce stops the market, and the seed is named."""

    def forget(name: str, events: tuple[Event, ...]) -> tuple[Event, ...]:
        return () if name == "settle" else events

    market = open_market()
    unlawful = Unlawful(market.venue.referee, forget)  # type: ignore[arg-type] # it is a model
    venue = replace(market.venue, referee=unlawful)  # type: ignore[arg-type] # by __getattr__
    with pytest.raises(BrokenInvariantError, match=f"seed {SEED}: settle .*announced_is_true"):
        list(replace(market, venue=venue).play())


def test_a_call_that_should_be_refused_is_seen() -> None:
    """A referee that accepts what the model refuses is named, with the model's reason."""
    address = Address("0x" + "00" * 19 + "01")
    referee = ModelReferee({address: 0})
    witness = Witness(referee, "a test")
    referee.transact = lambda *_, **__: Outcome((), None)  # type: ignore[method-assign] # accepts all
    with pytest.raises(BrokenInvariantError, match=r"a test: collect .*no such job"):
        witness.transact("collect", 0, sender=address)


def test_a_broken_invariant_is_named_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the law itself is broken, the market says in which call, and which sentence is false."""
    defeat = ledger._defeat

    def keep_prize(*args: Any) -> None:
        defeat(*args)
        store, job_id = args[:2]
        store.put(store.jobs, job_id, replace(store.jobs[job_id], forfeits=7))

    monkeypatch.setattr(ledger, "_defeat", keep_prize)
    message = f"seed {SEED}: .*prizes_are_conserved: Every lost bond is one prize"
    with pytest.raises(BrokenInvariantError, match=message):
        list(open_market().play())


def test_a_swarm_is_witnessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same breach is seen in a swarm."""
    monkeypatch.setattr(ledger, "_defeat", lambda *_: None)
    accounts = [Address(f"0x{number:040x}") for number in range(1, 5)]
    swarm = Swarm(ModelReferee(dict.fromkeys(accounts, 10**24)), accounts, draw_lies(3, 3))
    with pytest.raises(BrokenInvariantError, match=r"a swarm of 3: .*defeat_takes_a_match"):
        swarm.play()


def test_every_call_of_a_market_is_witnessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps are checked as calls are accepted, and who is honest is known in each job."""
    witnesses = []

    class Noted(Witness):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            witnesses.append(self)

    monkeypatch.setattr(module, "Witness", Noted)
    market = open_market()
    list(market.play())
    (witness,) = witnesses
    model = market.venue.referee
    assert isinstance(model, ModelReferee)
    for job_id in range(market.jobs):
        assert witness.logs[job_id] == list(model.events(job_id))
        assert len(witness.watcher.honest[job_id]) == 1
    names = ("jobs", "members", "claims", "matches", "balance_wei", "burned_wei")
    assert all(getattr(witness.store, name) == getattr(model.store, name) for name in names)


def test_what_refused_calls_cost_is_noted() -> None:
    """Also of calls that are sent at once, each with its gas, and with the fee that it paid."""
    chain = Chain(tester.Tester(3), None)
    contract = deploy_referee(chain, chain.accounts[0])
    client, first, second = chain.accounts
    witness = Witness(ChainReferee(chain, contract, 0), "a test")
    opening = Call("open_job", client, (make_terms(make_task()),), 10**17)
    early = [Call("settle", account, (0, ZERO)) for account in (first, second)]
    before_wei = {account: witness.balance(account) for account in (first, second)}
    answers = witness.transact_all([opening, *early])
    assert isinstance(answers[0], Outcome)
    with pytest.raises(Reverted):
        witness.transact("settle", 0, ZERO, sender=second)
    assert [refusal.sender for refusal in witness.refusals] == [first, second, second]
    for account, wei in before_wei.items():
        own = [refusal for refusal in witness.refusals if refusal.sender == account]
        assert all(refusal.call == "settle" and refusal.gas > 21_000 for refusal in own)
        assert sum(refusal.fee_wei for refusal in own) == wei - witness.balance(account)


class Patron:
    """An honest provider that opens the job itself."""

    name, strategy, accounts = "shill-1", "shill", 1

    def act(self, view: View, rng: np.random.Generator) -> Work:
        """Work, and pay for it."""
        del view, rng
        return Work((Behaviour(),), is_client=True)


def test_those_who_act_together_are_refused_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a client that is a provider, too, collects once."""
    witnesses: list[Witness] = []

    class Noted(Witness):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            witnesses.append(self)

    monkeypatch.setattr(module, "Witness", Noted)
    market = open_model_market("honest=1,shill=1", 1, SEED)
    market = replace(market, agents=[market.agents[0], Patron()])
    (result,) = market.play()
    assert all(entry.fate is Fate.WON for entry in result.entries)
    assert witnesses[0].refusals == []
