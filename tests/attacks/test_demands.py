"""What demands cost whoever makes and answers them, and how much a party asks about them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.deployment import bind_referee, deploy_availability, deploy_referee
from moot.contracts.model.abi import pack_args
from moot.contracts.model.answers import MIN_DEPOSIT_WEI, Subject, make_subject
from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import DemandStatus, Part, PromiseStatus
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Chain, Contract
from moot.offchain.chain.accounts import FeePolicy, NodeAccount, open_chain
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.transports import Question
from moot.offchain.disputes.availability.delivery import Sharer, count_payable, register
from moot.offchain.disputes.availability.demands import (
    ANSWER_GAS,
    Lack,
    Place,
    calculate_share,
    find_answer,
    list_demand,
)
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties import daemon
from moot.offchain.parties.answers import Answers, choose_deposit
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.polled_referee import PolledReferee
from moot.offchain.parties.promises import MOST_CALLS, Promises
from moot.offchain.parties.provider import Provider
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import Result
from tests.quick import every, share
from tests.referee.deliveries import HISTORY, PLACES, SHARERS, find, win_with_premium
from tests.referee.promises import TASK
from tests.referee.stage import CLIENT

ETHER = 10**18
REWARD_WEI = ETHER
TERMS = make_terms(
    replace(TASK, steps=205), Stakes(commit_blocks=300, reveal_blocks=16, bond_wei=MIN_BOND_WEI)
)
ANSWER_BLOCKS, LAST_BLOCK = 20, 900


class Counted(Local):
    """A way to a node that counts exchanges."""

    def __init__(self, node: DevNode) -> None:
        super().__init__(node)
        self.exchanges: list[int] = []

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        self.exchanges.append(1)
        return super().ask(method, params)

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport."""
        before = len(self.exchanges)
        found = super().ask_many(questions)
        self.exchanges[before:] = [len(questions)]
        return found


class Market:
    """A chain with a referee and promises, a client, a stranger, and a party that demands."""

    def __init__(self, folder: Path) -> None:
        self.node, self.folder = DevNode(accounts=4), folder
        self.chain = Chain(JsonRpc("here", 10.0, Local(self.node)), None)
        owner, self.client, self.stranger, self.own = self.chain.accounts
        self.referee = deploy_referee(self.chain, owner)
        self.contract: Contract = deploy_availability(self.chain, owner)
        self.court = ChainReferee(self.chain, self.referee, 0)
        self.transport = Counted(self.node)
        self.opened: list[OwnChain] = []

    def post(self, deposit_wei: int = MIN_DEPOSIT_WEI) -> tuple[int, Subject]:
        """Open a job whose client promises that it can be had."""
        made = self.court.transact("open_job", TERMS, sender=self.client, value_wei=REWARD_WEI)
        job_id = int(str(made.events[0].args[0]))
        subject = make_subject(TERMS, self.referee.address, job_id)
        args = (*pack_args((subject,)), deposit_wei, ANSWER_BLOCKS, LAST_BLOCK)
        self.contract.transact("promise", *args, sender=self.client, value=ETHER)
        return job_id, subject

    def demand(self, subject: Subject, places: Sequence[Place]) -> None:
        """Let a stranger demand something."""
        own, value = pack_args((subject,)), MIN_DEPOSIT_WEI
        calls = [
            self.contract.prepare("demand", *own, *it, sender=self.stranger, value=value)
            for it in (list_demand(place, None) for place in places)
        ]
        self.contract.send(calls)

    def begin(self, **settings: Any) -> Promises:
        """Return the promises as a process sees them that has just begun."""
        return Promises(self.sit(**settings))

    def sit(self, **settings: Any) -> PartyContext:
        """Seat the party at a new context."""
        for chain in self.opened:
            chain.close()
        signer = NodeAccount(self.own, self.transport)
        chain = open_chain(self.transport, [signer], FeePolicy(), folder=self.folder)
        self.opened = [chain]
        told = Settings(availability=self.contract.address, **{"demand_budget": 10.0, **settings})
        sight = PolledReferee(chain, bind_referee(chain, self.referee.address), ORDERED, self.own)
        sight.look()
        return PartyContext(told, chain, sight, self.own, lambda *_, **__: None)

    def spend(self) -> int:
        """Return the party's balance, in wei."""
        return self.chain.balance(self.own)


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    """Yield a market."""
    found = Market(tmp_path)
    yield found
    for chain in found.opened:
        chain.close()


def list_places(count: int) -> list[Place]:
    """Return the first chunks of so many tensors of the data."""
    return [(Part.DATA.value, index, 0) for index in range(count)]


def lack(count: int) -> Lack:
    """Return the lack of so many parts."""
    return Lack(list_places(count)[:MOST_CALLS], count)


def test_a10_a_look_costs_the_same_however_many_demands_were_ever_made(market: Market) -> None:
    """With 400 demands a block is one exchange of five questions."""
    before, more = 3, share(400)
    job_id, subject = market.post()
    party = market.begin()
    jobs = {job_id: party._context.referee.follow(job_id)}
    asked = []
    for places in (list_places(before), list_places(before + more)[before:]):
        market.demand(subject, places)
        party.act(jobs, {})
        market.chain.mine(1)
        market.transport.exchanges.clear()
        party.act(jobs, {})
        asked.append(list(market.transport.exchanges))
    assert asked == [[5], [5]]
    view = party.look(job_id, jobs[job_id])
    assert view is not None
    assert len(view.list_open()) == before + more


def test_a10_demands_come_after_all_moves_of_a_turn(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be had asks and sends nothing until moves are made, and a turn stays cheap."""
    job_id, subject = market.post()
    provider = Provider(market.sit(folder=str(market.folder / "own"), demand_share=1.0))
    provider._resume()
    provider.take_turn()
    work = provider.works[job_id]
    market.transport.exchanges.clear()
    failed = Result(job_id, "it is not there", is_final=False, lack=lack(3))
    provider.note_failure(work, failed)
    assert market.transport.exchanges == []
    made: list[str] = []
    monkeypatch.setattr(daemon, "take_turns", lambda *_: made.append("moves") or [])
    monkeypatch.setattr(Answers, "send", lambda _, calls: made.extend(it.name for it in calls))
    provider.take_turn()
    assert made == ["moves", *["demand"] * 3]
    asked = []
    for places in (list_places(3), list_places(40)[3:]):
        provider._demands[job_id] = work.job
        market.demand(subject, places)
        provider.take_turn()
        provider._demands[job_id] = work.job
        market.chain.mine(1)
        market.transport.exchanges.clear()
        provider.take_turn()
        asked.append(sum(market.transport.exchanges))
    assert asked[0] == asked[1] <= 10


def test_a10_what_a_look_tells_is_what_the_contract_has(market: Market) -> None:
    """Open, shown, unanswered and returned demands are told apart without a question for each."""
    job_id, subject = market.post()
    party = market.begin()
    job = party._context.referee.follow(job_id)
    party.act({job_id: job}, {job_id: lack(3)})
    market.demand(subject, [(Part.PROGRAM.value, 0, 0), (Part.START.value, 1, 0)])
    call = find_shown(subject)
    market.contract.transact(*call, sender=market.stranger)
    market.chain.mine(ANSWER_BLOCKS + 2)
    for _ in range(3):
        party._context.referee.look()
        party.act({job_id: job}, {})
    view = party.look(job_id, job)
    assert view is not None
    assert view.promise.status is PromiseStatus.BROKEN
    found = {place: demand.status for place, demand in view.demands.items()}
    own = [found.pop(place) for place in list_places(3)]
    assert own == [DemandStatus.SHOWN, *[DemandStatus.RETURNED] * 2]
    assert set(found.values()) == {DemandStatus.OPEN}
    assert party.act({job_id: job}, {})[job_id].is_due is False


def find_shown(subject: Subject) -> tuple[Any, ...]:
    """Return the call that shows the first of `list_places`."""
    move = find_answer(replace(TASK, steps=205), list_places(1)[0])
    return (move.call, *pack_args((subject, *move.args)))


def test_a9_demands_of_a_job_cost_a_share_of_its_reward(market: Market) -> None:
    """What lacks more than the share covers is not demanded at all: not the first part of it."""
    job_id, _ = market.post()
    party = market.begin(demand_share=0.1)
    job, before = party._context.referee.follow(job_id), market.spend()
    found = party.act({job_id: job}, {job_id: lack(20)})[job_id]
    assert "20 demands at least" in found.problem
    assert not found.is_due
    assert market.spend() == before
    found = party.act({job_id: job}, {job_id: lack(8)})[job_id]
    assert (found.problem, found.is_waiting) == ("", True)
    assert 0 < before - market.spend() <= calculate_share(job, 0.1)
    assert "10 demands at least" in party.act({job_id: job}, {job_id: more(2)})[job_id].problem


def more(count: int) -> Lack:
    """Return the lack of other parts."""
    places = [(Part.START.value, index, 0) for index in range(count)]
    return Lack(places, count)


def test_a9_reward_is_shared_with_whoever_has_committed(market: Market) -> None:
    """A job that others have joined pays less, and so less is paid for it."""
    job_id, _ = market.post()
    job = market.begin()._context.referee.follow(job_id)
    assert calculate_share(job, 0.25) == REWARD_WEI // 4
    assert calculate_share(replace(job, hidden=4), 0.25) == REWARD_WEI // 20


def test_a9_all_jobs_have_one_budget_which_outlives_the_process(market: Market) -> None:
    """A client that opens many jobs with few gaps each gets no more than the budget, ever."""
    jobs = [market.post()[0] for _ in range(6)]
    before = market.spend()
    for job_id in jobs:
        party = market.begin(demand_share=0.1, demand_budget=0.1)
        job = party._context.referee.follow(job_id)
        party.act({job_id: job}, {job_id: lack(4)})
    assert 4 * MIN_DEPOSIT_WEI < before - market.spend() <= ETHER // 10


def test_a9_deposits_that_come_back_count_no_more(market: Market) -> None:
    """A client that breaks its promise does not use the budget up."""
    job_id, _ = market.post()
    party = market.begin(demand_share=0.1, demand_budget=0.05)
    jobs = {job_id: party._context.referee.follow(job_id)}
    party.act(jobs, {job_id: lack(4)})
    other, _ = market.post()
    wanted = {**jobs, other: party._context.referee.follow(other)}
    assert party.act(wanted, {other: lack(4)})[other].problem
    market.chain.mine(ANSWER_BLOCKS + 2)
    party.act(jobs, {})
    assert not party.act(wanted, {other: lack(4)})[other].problem


def test_a9_nothing_is_demanded_that_comes_too_late(market: Market) -> None:
    """An answer after the last block to commit is of no use, however cheap it is."""
    job_id, _ = market.post()
    party = market.begin()
    job = party._context.referee.follow(job_id)
    market.chain.mine(job.commit_deadline - market.chain.block_number() - ANSWER_BLOCKS)
    assert "an answer may take" in party.act({job_id: job}, {job_id: lack(1)})[job_id].problem


def test_a10_calls_of_a_block_are_few_and_nobody_waits_for_a_fee(market: Market) -> None:
    """Demands of all jobs together fill no block, and none is sent that no block would take."""
    first, second = market.post()[0], market.post()[0]
    party = market.begin(demand_share=1.0)
    jobs = {it: party._context.referee.follow(it) for it in (first, second)}
    lacks = {first: lack(12), second: lack(12)}
    cheap = replace(party._context.settings, max_fee_gwei=0.0)
    dear, party._context.settings = party._context.settings, cheap
    before = market.spend()
    party.act(jobs, lacks)
    assert market.spend() == before
    party._context.settings = dear
    party.act(jobs, lacks)
    views = [party.look_at({name: 0})[name] for name in map(party._name, jobs, jobs.values())]
    assert sum(len(view.demands) for view in views) == MOST_CALLS


def test_a10_own_demands_are_found_without_a_look_at_every_job(market: Market) -> None:
    """A party that begins anew reads one log, whatever jobs and demands there were."""
    subjects = [market.post()[1] for _ in range(4)]
    party = market.begin()
    job = party._context.referee.follow(2)
    party.act({2: job}, {2: lack(2)})
    for subject in subjects:
        market.demand(subject, list_places(10)[4:])
    party = market.begin()
    market.transport.exchanges.clear()
    assert [job_id for job_id, _ in party.find_due()] == [2]
    assert len(market.transport.exchanges) <= 8


@pytest.mark.parametrize("max_fee_gwei", [1.0, 50.0, 200.0])
def test_a9_the_deposit_pays_for_an_answer_at_the_highest_fee(max_fee_gwei: float) -> None:
    """Whoever answers what it has promised never pays more gas than it is paid."""
    assert choose_deposit(max_fee_gwei) >= ANSWER_GAS * int(max_fee_gwei * GWEI)
    assert choose_deposit(max_fee_gwei) >= MIN_DEPOSIT_WEI


@pytest.mark.parametrize("price_gwei", every(6, [1, 50, 400, 4_000]))
def test_d9_a_sharer_pays_no_more_for_answers_than_its_part_of_the_premium(price_gwei: int) -> None:
    """A client that overtakes each answer to its own demands, or makes it dear, ends by that."""
    both, sharer = win_with_premium(), SHARERS[0]
    assert both.make(register(sharer, both.view(), HISTORY)) is None
    price_wei, spent_wei = price_gwei * GWEI, 0
    part_wei = both.vault.promises[both.result].bond_wei
    for place in PLACES:
        both.demand(CLIENT, place)
        view = both.view()
        most = count_payable(view, sharer, spent_wei, price_wei)
        calls = [*Sharer(sharer, find, most).act(view)]
        spent_wei += len(calls) * ANSWER_GAS * price_wei
        assert both.show(CLIENT, place) is None
        assert all(both.make(call) is not None for call in calls)
    assert spent_wei <= part_wei
    assert (spent_wei == len(PLACES) * ANSWER_GAS * price_wei) == (
        len(PLACES) * ANSWER_GAS * price_wei <= part_wei
    )


def test_d9_a_sharer_that_is_paid_for_its_answers_goes_on(market: Market) -> None:
    """Deposits that it has earned count against the gas that it has paid."""
    del market
    both, sharer = win_with_premium(), SHARERS[0]
    both.make(register(sharer, both.view(), HISTORY))
    price_wei = 50 * GWEI
    before = count_payable(both.view(), sharer, 0, price_wei)
    for place in PLACES:
        both.demand(CLIENT, place)
        assert both.show(sharer, place) is None
    spent_wei = len(PLACES) * ANSWER_GAS * price_wei
    assert count_payable(both.view(), sharer, spent_wei, price_wei) >= before
