"""The looks of a party: how much they ask, and what they know of a chain that is replaced."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moot.contracts.deployment import bind_referee, deploy_referee
from moot.contracts.model.types import NOBODY, Event
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Ending, Outcome
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Chain, endpoints
from moot.offchain.chain.accounts import FeePolicy, open_chain
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.transports import Question
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import ChainUnavailable
from moot.offchain.parties.context import connected_context
from moot.offchain.parties.event_log import EventLog, Getter
from moot.offchain.parties.polled_referee import PolledReferee
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.turns import Seat, see
from moot.sim.synthetic.products import Size, make_task

TERMS = make_terms(make_task(Size()), Stakes(commit_blocks=4, reveal_blocks=4))
LOOK = 4


class Counted(Local):
    """A way to a node that counts exchanges, and may give other answers."""

    def __init__(self, node: DevNode) -> None:
        super().__init__(node)
        self.asked: list[Sequence[Question]] = []
        self.change: Any = None

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport."""
        self.asked.append(questions)
        answers = super().ask_many(questions)
        return answers if self.change is None else self.change(questions, answers)


class Court:
    """A referee on a new chain, a client who opens jobs there, and a sight."""

    def __init__(self, folder: Path) -> None:
        node = DevNode(accounts=3)
        self.chain = Chain(JsonRpc("here", 10.0, Local(node)), None)
        self.contract = deploy_referee(self.chain, self.chain.accounts[0])
        self.referee = ChainReferee(self.chain, self.contract, 0)
        self.client, self.member = self.chain.accounts[1:]
        self.transport, self.way = Counted(node), Local(node)
        self.own: OwnChain = open_chain(self.transport, [], FeePolicy(), folder=folder)
        bound = bind_referee(self.own, self.contract.address)
        self.sight = PolledReferee(self.own, bound, ORDERED, self.member)

    def open_job(self) -> int:
        """Open a job."""
        made = self.referee.transact("open_job", TERMS, sender=self.client, value_wei=10**17)
        return int(str(made.events[0].args[0]))

    def commit(self, job_id: int) -> None:
        """Let the member join."""
        bond_wei = TERMS.bond_wei
        args = (job_id, b"\1" * 32, hash_job(self.referee.job(job_id)))
        self.referee.transact("commit", *args, sender=self.member, value_wei=bond_wei)


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    """Yield a court."""
    found = Court(tmp_path)
    yield found
    found.own.close()


def test_an_idle_look_is_one_exchange(court: Court) -> None:
    """Whatever is followed, a block without news costs one exchange of four questions."""
    court.sight.look()
    for _ in range(3):
        court.open_job()
    court.sight.look()
    court.transport.asked.clear()
    court.chain.mine(1)
    assert court.sight.look().number == court.chain.block_number()
    assert [len(questions) for questions in court.transport.asked] == [LOOK]
    assert [court.sight.job(job_id).client for job_id in range(3)] == [court.client] * 3
    assert len(court.transport.asked) == 1


@pytest.mark.parametrize("is_move", [True, False])
def test_moves_of_matches_ask_for_no_job(
    court: Court, monkeypatch: pytest.MonkeyPatch, *, is_move: bool
) -> None:
    """An event that changes neither a job nor a member costs no question; any other costs two."""
    job_id = court.open_job()
    court.sight.follow(job_id)
    court.sight.look()
    if is_move:
        monkeypatch.setattr("moot.offchain.parties.polled_referee.MOVES", frozenset({"Committed"}))
    court.commit(job_id)
    court.transport.asked.clear()
    court.sight.look()
    assert [len(it) for it in court.transport.asked] == ([LOOK] if is_move else [LOOK, 2])
    assert [event.name for event in court.sight.events(job_id)] == ["JobOpened", "Committed"]


def test_a_look_knows_what_the_chain_says(court: Court) -> None:
    """Jobs, standings and events are as whoever asks for each by itself finds them."""
    first = court.open_job()
    court.sight.look()
    assert court.sight.news == []
    court.sight.follow(first)
    second = court.open_job()
    court.commit(first)
    court.sight.look()
    assert court.sight.news == [second]
    for job_id in (first, second):
        assert court.sight.job(job_id) == court.referee.job(job_id)
        assert court.sight.events(job_id) == court.referee.events(job_id)
        own = court.sight.member(job_id, court.member)
        assert own == court.referee.member(job_id, court.member)
    assert court.sight.member(first, NOBODY) == court.referee.member(first, NOBODY)


def test_a_replaced_chain_is_read_anew(court: Court) -> None:
    """What blocks said that are gone is forgotten, however deep the replacement is."""
    first = court.open_job()
    court.sight.follow(first)
    court.sight.look()
    mark = court.chain.snapshot()
    court.commit(first)
    court.sight.look()
    second = court.open_job()
    court.sight.look()
    assert court.sight.returns == 0
    court.chain.revert(mark)
    court.chain.mine(5)
    court.sight.look()
    assert court.sight.returns == 1
    assert court.sight.events(first) == court.referee.events(first)
    assert court.sight.job(first) == court.referee.job(first)
    assert court.sight.events(second) == []
    assert not court.sight.job(second).opened_block


def test_a_block_that_comes_meanwhile_makes_a_look_again(court: Court) -> None:
    """The answers of a look are of one chain: if its end has changed meanwhile, it is repeated."""
    first = court.open_job()
    court.sight.follow(first)
    court.sight.look()

    def grow(questions: Sequence[Question], answers: list[Any]) -> list[Any]:
        court.transport.change = None
        court.commit(first)
        answers[-1] = Local.ask_many(court.transport, questions[-1:])[0]
        return answers

    court.transport.change = grow
    court.sight.look()
    assert court.sight.events(first) == court.referee.events(first)


def test_nonsense_is_the_nodes_failure(court: Court) -> None:
    """Answers that make no sense, or are refused, end in an error of the chain."""
    court.sight.look()
    for wrong in ({"result": {"number": "?"}}, {"error": {"code": 1, "message": "no"}}):
        court.transport.change = lambda _, answers, wrong=wrong: [wrong] * len(answers)
        with pytest.raises(ChainUnavailable):
            court.sight.look()


def _add_unknown(log: dict[str, Any]) -> list[Any]:
    return [log, log | {"topics": ["0x" + "56" * 32], "logIndex": "0x7"}]


LOGS: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "a topic that the contract does not have": lambda log: [
        log | {"topics": ["0x" + "56" * 32, *log["topics"][1:]]}
    ],
    "one more of such a topic": _add_unknown,
    "no topic": lambda log: [log | {"topics": []}],
    "a topic more": lambda log: [log | {"topics": [*log["topics"], "0x" + "00" * 32]}],
    "twice": lambda log: [log, log],
    "backwards": lambda log: [log | {"logIndex": "0x9"}, log],
    "of another contract": lambda log: [log | {"address": NOBODY}],
    "of an earlier block": lambda log: [log | {"blockNumber": "0x0"}],
    "of a block to come": lambda log: [log | {"blockNumber": "0xffff"}],
    "of a block before the first": lambda log: [log | {"blockNumber": "-0x1"}],
    "removed": lambda log: [log | {"removed": True}],
    "with less data": lambda log: [log | {"data": log["data"][:-64]}],
    "with more data": lambda log: [log | {"data": log["data"] + "00" * 32}],
}


def test_a_log_that_cannot_be_is_the_nodes_failure(court: Court) -> None:
    """Form, order and content of logs: nothing of them is kept, and the next look is right."""
    court.sight.look()
    for case, change in LOGS.items():
        job_id = court.open_job()
        court.transport.change = partial(_change_last_log, change)
        with pytest.raises(ChainUnavailable):
            court.sight.look()
        court.transport.change = None
        court.sight.look()
        assert court.sight.events(job_id) == court.referee.events(job_id), case
    assert court.sight.news == [*range(len(LOGS))]


def _change_last_log(
    change: Callable[[dict[str, Any]], list[Any]], questions: Sequence[Question], answers: list[Any]
) -> list[Any]:
    for (method, _), answer in zip(questions, answers, strict=True):
        if method == "eth_getLogs":
            answer["result"][-1:] = change(answer["result"][-1])
    return answers


def test_a_number_that_cannot_be_is_no_block(court: Court) -> None:
    """A latest block before the first, of no canonical number, or far ahead is not believed."""
    before = court.sight.look()

    def lie(number: object, questions: Sequence[Question], answers: list[Any]) -> list[Any]:
        for (method, params), answer in zip(questions, answers, strict=True):
            if method == "eth_getBlockByNumber" and params[0] == "latest":
                answer["result"]["number"] = number
        return answers

    for number in ("-0x5", "0x05", hex(2**40), hex(2**39), "5", None, 5, 5.0):
        court.transport.change = partial(lie, number)
        with pytest.raises(ChainUnavailable):
            court.sight.look()
    court.transport.change = None
    assert court.sight.look() == before


def test_events_that_contradict_each_other_end_nobody(court: Court) -> None:
    """What a node tells of a job may make no sense together: it is told, and all is read anew."""
    first, second = court.open_job(), court.open_job()
    told: list[str] = []
    seats = {}
    court.sight.look()
    for job_id in (first, second):
        terms = court.sight.follow(job_id).terms
        court.sight.look()
        view = ChainView(court.sight, Tournament(job_id, terms)).look()
        seats[job_id] = Seat(view, Party((), ()))
    context: Any = SimpleNamespace(
        referee=court.sight, tell=lambda _, line, **__: told.append(line), settings=Settings()
    )
    pair = (first, court.member, court.client)
    ended = Event("MatchEnded", (*pair, Outcome.FIRST, Ending.CLOCK, 0))
    court.sight._followed[first].append((court.sight.head.number, ended))
    assert not see(context, seats[first])
    assert see(context, seats[second])
    assert len(told) == 1
    assert "cannot be" in told[0]
    court.sight.look()
    assert see(context, seats[first])
    assert court.sight.events(first) == court.referee.events(first)


def _revert(questions: Sequence[Question], answers: list[Any]) -> list[Any]:
    error = {"error": {"code": 3, "message": "execution reverted", "data": "0x"}}
    return [
        error if method == "eth_call" else answer
        for (method, _), answer in zip(questions, answers, strict=True)
    ]


def _never_rest(numbers: Iterator[int], questions: Sequence[Question], answers: list[Any]) -> Any:
    for (method, params), answer in zip(questions, answers, strict=True):
        if method == "eth_getBlockByNumber" and params[0] == "latest":
            answer["result"]["hash"] = f"0x{next(numbers):064x}"
    return answers


LIES: dict[str, Callable[[Sequence[Question], list[Any]], list[Any]]] = {
    "a getter that reverts": _revert,
    "a log that is none of the contract's": partial(
        _change_last_log, LOGS["a topic that the contract does not have"]
    ),
    "a latest block that never rests": partial(_never_rest, count(1)),
}


@pytest.fixture
def nodes(court: Court, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """Give the court's node two addresses, of which the first lies where a test says so."""
    ways = {"lying": court.transport, "honest": court.way}
    monkeypatch.setattr(endpoints, "open_transport", ways.__getitem__)
    return (*ways,)


@pytest.mark.parametrize("lie", LIES)
def test_a_node_that_errs_about_a_log_is_left(
    court: Court, nodes: Sequence[str], tmp_path: Path, lie: str
) -> None:
    """What a node says of a followed contract makes no sense: the next look is at another node."""
    told: list[str] = []
    own = open_chain(nodes, [], FeePolicy(), folder=tmp_path / "own", say=told.append)
    log = EventLog(own, bind_referee(own, court.contract.address))
    job_id = court.open_job()
    firsts = {job_id.to_bytes(32, "big"): 0}
    getters: list[Getter] = [("jobs", (job_id,))]
    court.transport.change = LIES[lie]
    with pytest.raises(ChainUnavailable):
        log.look(firsts, getters)
    assert "using honest" in told[-1]
    (events,) = log.look(firsts, getters).events.values()
    assert [event.name for event in events] == ["JobOpened"]
    own.close()


def test_a_party_begins_with_another_node_where_one_errs(
    court: Court, nodes: Sequence[str]
) -> None:
    """Whoever starts beside a node that makes no sense is at work, by the next, at once."""
    settings = Settings(chain=",".join(nodes), referee=court.contract.address)
    court.transport.change = LIES["a latest block that never rests"]
    with connected_context(settings, lambda *_, **__: None, []) as context:
        assert context.referee.block_number() == court.chain.block_number()


def test_logs_that_make_no_sense_contradict_nobody(court: Court, nodes: Sequence[str]) -> None:
    """What is none of the referee's code is no opinion: the node in use is not left for it."""
    settings = Settings(chain=",".join(reversed(nodes)), referee=court.contract.address)
    with connected_context(settings, lambda *_, **__: None, []) as context:
        job_id = court.open_job()
        court.transport.change = LIES["a log that is none of the contract's"]
        context.referee.look()
        assert context.chain.node.in_use == "honest"
        assert context.referee.is_agreed
        assert job_id in context.referee.news
