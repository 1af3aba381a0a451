"""The events of a contract about some of its things, followed in one exchange a look.

A look costs the same however many events there ever were: it reads the log from the block on up to
which it was read before, and asks what else is wanted in the same exchange.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moot.offchain.chain import Contract
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.answers import parse_log
from moot.offchain.chain.jsonrpc import MANY_LOGS, PAGE_BLOCKS
from moot.offchain.chain.receipts import Event, Log
from moot.offchain.chain.transports import Question
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import BadCall, ChainUnavailable, NodeError

TRIES = 20
"""Looks until one is not disturbed by a block that comes meanwhile."""
TOGETHER = 100
"""So many getters are asked in one exchange."""
_LATEST: Question = ("eth_getBlockByNumber", ["latest", False])

Getter = tuple[str, tuple[Any, ...]]
"""A getter of a contract, and its arguments."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look has found.

    Attributes:
        block: the latest block.
        events: all that was announced, by what it is about.
        answers: what the getters say.
    """

    block: int
    events: Mapping[Digest, Sequence[Event]]
    answers: Sequence[Any]


@dataclass
class EventLog:
    """The log of a contract about what is followed: events whose first topic names it.

    Attributes:
        chain: the chain.
        contract: the contract.
    """

    chain: OwnChain
    contract: Contract
    _mark: tuple[int, str] | None = None
    _events: dict[Digest, list[Event]] = field(default_factory=dict)

    def look(self, firsts: Mapping[Digest, int], getters: Sequence[Getter]) -> Looked:
        """Return the events about some things, each since a block, and what getters say.

        What is not asked for any more is forgotten.

        Raises:
            ChainUnavailable: the node does not answer, or makes no sense.
        """
        for name in self._events.keys() - firsts.keys():
            del self._events[name]
        for _ in range(TRIES):
            found = self._look_once(firsts, getters)
            if found is not None:
                return found
        raise self._fail("its latest block changes too often to be read")

    def ask(self, getters: Sequence[Getter]) -> list[Any]:
        """Return what getters say after the latest block."""
        answers: list[Any] = []
        for first in range(0, len(getters), TOGETHER):
            some = getters[first : first + TOGETHER]
            raw = self._ask([self.contract.ask_for(name, *args) for name, args in some])
            answers += self._read_all(some, raw)
        return answers

    def read_since(self, block: int) -> tuple[int, list[Event]]:
        """Return the latest block, and all that was announced of anything since a block."""
        number, _ = self._read_block(self._ask([_LATEST])[0])
        logs = self.chain.node.get_logs(self.contract.address, max(0, block), number)
        return number, [event for _, event in self._read_events(logs)]

    def _look_once(self, firsts: Mapping[Digest, int], getters: Sequence[Getter]) -> Looked | None:
        """Read on; None if it has to be tried again."""
        self._mark = self._mark or self._read_block(self._ask([_LATEST])[0])
        number, digest = self._mark
        for name in firsts.keys() - self._events.keys():
            logs = self._get_logs(firsts[name], number, [name])
            self._events[name] = [event for _, event in self._read_events(logs)]
        names = sorted(self._events)
        wanted = {"address": self.contract.address, "fromBlock": hex(number), "toBlock": "latest"}
        questions: list[Question] = [_LATEST, ("eth_getBlockByNumber", [hex(number), False])]
        questions += [self.contract.ask_for(name, *args) for name, args in getters]
        topics = [None, ["0x" + name.hex() for name in names]]
        if names:
            questions.append(("eth_getLogs", [wanted | {"topics": topics}]))
        before, known, *answers, after = self._ask([*questions, _LATEST])
        if known is None or self._read_block(known)[1] != digest:
            self._mark = None
            self._events.clear()
            return None
        head = self._read_block(before)
        if self._read_block(after) != head:
            return None
        logs = self._read_logs(answers.pop(), number, head[0], names) if names else []
        for name, event in self._read_events(log for log in logs if log.place[0] > number):
            if name in self._events:
                self._events[name].append(event)
        self._mark = head
        found = {name: tuple(events) for name, events in self._events.items()}
        return Looked(head[0], found, self._read_all(getters, answers))

    def _read_events(self, logs: Iterable[Log]) -> list[tuple[Digest, Event]]:
        """Return the events of logs, each with what it is about."""
        try:
            return [(log.topics[1], self.contract.read_log(log)) for log in logs]
        except (BadCall, IndexError) as error:
            raise self._fail("it has logs that are none of the contract's") from error

    def _read_logs(self, raw: Any, mark: int, head: int, names: Sequence[Digest]) -> Sequence[Log]:
        """Return the logs since a block; page by page where they are too many for one answer."""
        is_long = head - mark > PAGE_BLOCKS
        if is_long or isinstance(raw, NodeError) or len(raw) >= MANY_LOGS:
            return self._get_logs(mark + 1, head, names)
        with self._understanding():
            return [*map(parse_log, raw)]

    def _get_logs(self, first: int, last: int, names: Sequence[Digest]) -> Sequence[Log]:
        return self.chain.node.get_logs(self.contract.address, first, last, names)

    def _read_all(self, getters: Sequence[Getter], raw: Sequence[str]) -> list[Any]:
        with self._understanding():
            return [
                self.contract.read_result(name, args, bytes.fromhex(it.removeprefix("0x")))
                for (name, args), it in zip(getters, raw, strict=True)
            ]

    def _ask(self, questions: Sequence[Question]) -> list[Any]:
        answers = self.chain.node.ask_many(questions)
        for (method, _), answer in zip(questions, answers, strict=True):
            if isinstance(answer, NodeError) and method != "eth_getLogs":
                raise self._fail(str(answer)) from answer
        return answers

    def _read_block(self, raw: Mapping[str, Any]) -> tuple[int, str]:
        with self._understanding():
            return int(raw["number"], 16), str(raw["hash"])

    @contextmanager
    def _understanding(self) -> Iterator[None]:
        """Make nonsense of a node's answer an error of the chain."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._fail("its answers make no sense") from error

    def _fail(self, problem: str) -> ChainUnavailable:
        return self.chain.node.distrust(problem)
