"""The opinions of the nodes that are not in use: what each says of the same blocks, once a block.

A node that leaves something out, or tells of what is not, is not known by what it says. So a look
asks the others, too. Where two contradict each other nobody can know which of them is right: then
both are used, in turn, a block each, until they agree. So what is true is known within a block. No
node is believed that has a block before its time, where another one has not.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moot.contracts.model.types import Job, Member
from moot.offchain.chain.accounts.opening import OwnNode
from moot.offchain.chain.answers import parse_log
from moot.offchain.chain.jsonrpc import MANY_LOGS, PAGE_BLOCKS
from moot.offchain.chain.receipts import Log
from moot.offchain.chain.transports import Question
from moot.offchain.errors import NodeError

MOST_JOBS = 50
"""So many jobs are compared in one look, those that were not compared for longest."""
MOST_APART = 2
"""Blocks that one node may be behind another."""
MOST_EARLY = 8
"""Blocks that may come before their time."""
AGAIN_BLOCKS = 16
"""The logs of so many blocks are compared once more: a reorganisation may have replaced them."""
DOUBT_BLOCKS = 64
"""So long a contradiction counts where the node that made it says nothing any more."""
LEAST_S = 1e-3
_LATEST: Question = ("eth_getBlockByNumber", ["latest", False])
_OF_BLOCK = ("hash", "gasLimit", "baseFeePerGas")

State = tuple[Job, Member]
"""A job, and the own account in it."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the node in use has said in a look.

    Attributes:
        head: the latest block, in a node's own words.
        first: the first block of which there are logs.
        logs: the referee's logs from there on.
        states: how jobs stand that are to be compared.
        questions: what others are asked about these.
        read: returns what their answers say; None where these make no sense.
        makes_sense: whether logs can be the referee's.
    """

    head: Mapping[str, Any]
    first: int
    logs: Sequence[Log]
    states: Sequence[State]
    questions: Sequence[Question]
    read: Callable[[Sequence[Any]], Sequence[State] | None]
    makes_sense: Callable[[Sequence[Any]], bool]

    @property
    def number(self) -> int:
        """The number of the latest block."""
        return int(self.head["number"], 16)


@dataclass
class Opinions:
    """The opinions of the nodes that are not in use.

    Attributes:
        node: the nodes.
        address: the referee.
        block_s: the time between blocks.
        is_agreed: whether no node contradicted another when they were compared last.
    """

    node: OwnNode
    address: str
    block_s: float
    is_agreed: bool = True
    _compared: int = -1
    _base: tuple[int, float] | None = None
    _turn: list[int] = field(default_factory=list)
    _doubted: float = -math.inf

    def forget(self, block: int) -> None:
        """Compare anew what comes after a block."""
        self._compared = min(self._compared, block)

    def find_first(self) -> int:
        """Return the first block whose logs are compared."""
        return self._compared + 1 - AGAIN_BLOCKS

    def choose(self, jobs: Sequence[int]) -> list[int]:
        """Return those of some jobs that are compared next."""
        known = [it for it in self._turn if it in {*jobs}]
        known += sorted({*jobs} - {*known})
        chosen = known[:MOST_JOBS]
        self._turn = known[MOST_JOBS:] + chosen
        return chosen

    def compare(self, said: Said) -> str:
        """Return in what another node contradicts the one in use; nothing if none does.

        A node that was contradicted is not compared again for a block's time: it is the other's
        turn. Time says so, and no block's number, which a node may make up.
        """
        number, now = said.number, time.monotonic()
        if now < self._doubted + self.block_s:
            return ""
        latest = self._find_latest(now)
        first = max(said.first, self.find_first(), number - PAGE_BLOCKS + 1)
        wanted = {"address": self.address, "fromBlock": hex(first), "toBlock": hex(number)}
        questions: list[Question] = [
            _LATEST,
            ("eth_getBlockByNumber", [hex(number), False]),
            *([("eth_getLogs", [wanted])] if first <= number else []),
            *said.questions,
            ("eth_syncing", []),
            _LATEST,
        ]
        problem, is_heard = "", False
        for before, block, *answers, syncing, after in self.node.ask_others(questions):
            ends = before, after
            if any(isinstance(it, NodeError) for it in ends) or isinstance(syncing, Mapping):
                continue
            logs = answers.pop(0) if first <= number else []
            if isinstance(logs, list) and not said.makes_sense(logs):
                continue  # it would be left as soon as it is in use
            is_heard = True
            own_early, early = number > latest, int(after["number"], 16) > latest
            if early != own_early:  # either is before its time
                problem = problem or (f"it has block {number} before its time" if own_early else "")
                continue
            found = self._judge(said, ends, block) or _judge_logs(said, first, logs, block)
            if not found and before["hash"] == after["hash"] == said.head["hash"]:
                found = _judge_states(said, answers)
            self._doubted = now if found else self._doubted
            problem = problem or found
        if problem or is_heard or now > self._doubted + DOUBT_BLOCKS * self.block_s:
            self.is_agreed = not problem
        if is_heard and not problem:
            self._base, self._compared = (number, now), number
        return problem

    def _find_latest(self, now: float) -> float:
        """Return the last block that there can be by now; any where nodes have never agreed."""
        if self._base is None:
            return math.inf
        number, since = self._base
        return number + int((now - since) / max(self.block_s, LEAST_S)) + MOST_EARLY

    def _judge(self, said: Said, ends: Sequence[Any], block: Any) -> str:
        """Return in what another node's blocks contradict those of the node in use."""
        _, after = ends
        other = int(after["number"], 16)
        is_far = self._base is None and other < said.number - MOST_EARLY
        if other > said.number + MOST_APART or is_far:
            return f"another has block {other}, and it has {said.number}"
        if isinstance(block, Mapping):
            is_same = all(block[name] == said.head[name] for name in _OF_BLOCK)
        else:  # the other is behind
            (own,) = self.node.ask_many([("eth_getBlockByNumber", [after["number"], False])])
            is_same = isinstance(own, Mapping) and own["hash"] == after["hash"]
        return "" if is_same else f"another has another block {min(said.number, other)}"


def _judge_logs(said: Said, first: int, logs: Any, block: Any) -> str:
    """Return whether another node has other logs up to a block that both have."""
    if not isinstance(block, Mapping) or not isinstance(logs, list) or len(logs) >= MANY_LOGS:
        return ""
    own = [it for it in said.logs if it.place[0] >= first]
    is_same = [*map(parse_log, logs)] == own
    return "" if is_same else f"another has other logs up to block {said.number}"


def _judge_states(said: Said, answers: Sequence[Any]) -> str:
    """Return whether another node has jobs otherwise, after the same block."""
    states = said.read(answers)
    is_same = states is None or list(states) == list(said.states)
    return "" if is_same else f"another has a job otherwise after block {said.number}"
