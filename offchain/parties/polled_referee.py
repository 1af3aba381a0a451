"""A referee seen once a block: in one exchange with a node, whatever the number of jobs followed.

Each look asks for the latest block, for the block up to which was read before, and for the
referee's log since then. Jobs are asked for only where their log says more than moves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.contracts.model.abi import unpack_job, unpack_member
from moot.contracts.model.types import NOBODY, Address, Event, Job, Member
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.chain import Contract
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.answers import parse_data, parse_log
from moot.offchain.chain.jsonrpc import MANY_LOGS, PAGE_BLOCKS
from moot.offchain.chain.receipts import Log
from moot.offchain.chain.transports import Question
from moot.offchain.disputes.referee.on_chain import SENSELESS, ChainReferee
from moot.offchain.errors import ChainUnavailable, NodeError
from moot.offchain.parties.opinions import Opinions, Said, State

TOGETHER = 50
"""Jobs that are asked for in one exchange, two questions each."""
MARKS = 100
"""So many looks are remembered, so that a reorganisation need not be read from the beginning."""
TRIES = 20
"""Looks until one is not disturbed by a block that comes meanwhile."""
MOVES = frozenset({"Found", "Moved"})
"""Events of matches alone: they change neither a job nor a member."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its number and hash; gas that it has room for; the fee that a unit of gas cost."""

    number: int
    digest: str
    gas: int
    base_fee_wei: int


class PolledReferee(ChainReferee):
    """A referee as of the latest look.

    Args:
        chain: the chain.
        contract: the referee.
        arithmetic: of the referee's programs.
        own: the account whose standing is looked at with each job.
        block_s: the time between blocks, in seconds.

    Attributes:
        head: the latest block, as of the latest look.
        news: the jobs that were opened since somebody emptied this list.
        returns: how often a look has found that blocks were replaced.
    """

    head: Block

    def __init__(
        self,
        chain: OwnChain,
        contract: Contract,
        arithmetic: Arithmetic,
        own: Address = NOBODY,
        block_s: float = 12.0,
    ) -> None:
        super().__init__(chain, contract, 0, arithmetic)
        self._opinions = Opinions(chain.node, contract.address, block_s)
        self._logs_read: list[Log] = []
        self._node, self._own = chain.node, own
        self._marks: list[Block] = []
        self._followed: dict[int, list[tuple[int, Event]]] = {}
        self._jobs: dict[int, Job] = {}
        self._members: dict[int, Member] = {}
        self._debts: dict[tuple[int, Address], int] = {}
        self._is_doubtful = False
        self.news: list[int] = []
        self.returns = 0

    def find_jobs(self) -> Iterator[tuple[int, Job, Member]]:
        """Yield all jobs that there are, with where the own account stands in each."""
        first = 0
        while True:
            ids = range(first, first + TOGETHER)
            for job_id, job, member in self._ask_jobs(ids):
                if not job.opened_block:
                    return
                yield job_id, job, member
            first += TOGETHER

    def follow(self, job_id: int) -> Job:
        """Read the log of a job from its opening on, and return the job."""
        ((_, job, member),) = self._ask_jobs([job_id])
        if job_id not in self._followed and job.opened_block:
            self._followed[job_id] = []
            self._begin(job.opened_block)
        self._jobs[job_id], self._members[job_id] = job, member
        return job

    def drop(self, job_id: int) -> None:
        """Keep nothing more of a job."""
        for kept in (self._followed, self._jobs, self._members):
            kept.pop(job_id, None)

    def look(self) -> Block:
        """Look at the chain, and return its latest block.

        Raises:
            ChainUnavailable: the node does not answer, or makes no sense.
        """
        if self._is_doubtful:
            self._begin_anew()
        if not self._marks:
            latest = self._read_block(self._ask([("eth_getBlockByNumber", ["latest", False])])[0])
            self._marks = [latest]
        for _ in range(TRIES):
            if self._look_once():
                return self.head
        raise self.distrust("its latest block changes too often to be read")

    def look_first(self, nodes: int) -> None:
        """Look at the chain for the first time, by another of so many nodes where one errs.

        Whoever opens a connection anew would begin with the same node again.

        Raises:
            ChainUnavailable: none of them answers, and makes sense.
        """
        # One that another has contradicted is looked at again where that one makes no sense.
        for left in reversed(range(2 * nodes - 1)):
            try:
                self.look()
            except ChainUnavailable:
                if not left:
                    raise
            else:
                return

    def distrust(self, problem: str) -> ChainUnavailable:
        """Leave the node, and read all anew with the next look; return the error that says why."""
        self._is_doubtful = True
        return super().distrust(problem)

    def block_number(self) -> int:
        """Return the number of the block of the latest look."""
        return self.head.number

    def block_gas(self) -> int:
        """Return how much gas that block has room for."""
        return self.head.gas

    def job(self, job_id: int) -> Job:
        """Return a job; one that is followed as of the latest look."""
        return self._jobs[job_id] if job_id in self._jobs else super().job(job_id)

    def member(self, job_id: int, address: Address) -> Member:
        """Return a member; the own account in a job that is followed as of the latest look."""
        if address == self._own and job_id in self._members:
            return self._members[job_id]
        return super().member(job_id, address)

    def debt(self, job_id: int, address: Address) -> int:
        """Return what a closed job owes an account, in wei; asked once until something changes."""
        key = job_id, address
        if key not in self._debts:
            self._debts[key] = super().debt(job_id, address)
        return self._debts[key]

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what was announced of a job up to the latest look."""
        if job_id not in self._followed:
            return super().events(job_id)
        return [event for _, event in self._followed[job_id]]

    def _begin(self, opened_block: int) -> None:
        """See to it that the log is read from a block on, all of it anew if need be."""
        if self._marks and opened_block > self._marks[0].number:
            return
        (raw,) = self._ask([("eth_getBlockByNumber", [hex(max(0, opened_block - 1)), False])])
        self._restart(self._read_block(raw))

    def _restart(self, mark: Block) -> None:
        self._marks = [mark]
        self._logs_read.clear()
        self._opinions.forget(mark.number)
        for log in self._followed.values():
            log.clear()

    def _look_once(self) -> bool:
        """Read on; False if it has to be tried again."""
        mark = self._marks[-1]
        latest: Question = ("eth_getBlockByNumber", ["latest", False])
        wanted = {"address": self.address, "fromBlock": hex(mark.number), "toBlock": "latest"}
        before, known, logs, after = self._ask(
            [
                latest,
                ("eth_getBlockByNumber", [hex(mark.number), False]),
                ("eth_getLogs", [wanted]),
                latest,
            ]
        )
        head = self._read_block(before)
        if known is None or self._read_block(known).digest != mark.digest:
            self._go_back()
            return False
        if self._read_block(after).digest != head.digest:
            return False
        found = self._read_logs(logs, mark, head)
        if found is None or any(log.place[0] > head.number for log in found):
            return False
        new = [log for log in found if log.place[0] > mark.number]
        changed = self._take(new)
        self._logs_read += new
        if head.number > mark.number:
            self._marks = [self._marks[0], *self._marks[1:][-MARKS:], head]
        self.head = head
        self._opinions.node.note_base_fee(head.number, int(before["baseFeePerGas"], 16))
        if changed:
            self._refresh(changed)
        self._hear_others(before)
        return True

    def _hear_others(self, head: Mapping[str, Any]) -> None:
        """Leave the node if another one contradicts it; see Opinions.

        Raises:
            ChainUnavailable: one does.
        """
        first = self._opinions.find_first()
        self._logs_read = [log for log in self._logs_read if log.place[0] >= first]
        ids = self._opinions.choose([*self._jobs])
        states = [(self._jobs[it], self._members[it]) for it in ids]
        asked = [self._contract.ask_for(name, *args) for name, args in self._list_calls(ids)]

        def read(answers: Sequence[Any]) -> Sequence[State] | None:
            try:
                found = self._read_jobs(ids, answers)
            except SENSELESS:
                return None
            return [(job, member) for _, job, member in found]

        logs, start = self._logs_read, self._marks[0].number + 1
        said = Said(head, start, logs, states, asked, read, self._makes_sense)
        if problem := self._opinions.compare(said):
            raise self.distrust(problem)

    def _makes_sense(self, raw: Sequence[Any]) -> bool:
        """Return whether logs of a node that is not in use can be of the referee's code."""
        try:
            for log in map(parse_log, raw):
                found = self._contract.read_log(log)
                if not self._reader.is_strange(found.name, found.args):
                    self._read(found)
        except SENSELESS:
            return False
        return True

    def _read_logs(self, raw: Any, mark: Block, head: Block) -> Sequence[Log] | None:
        """Return the logs since a block; page by page where they are too many for one answer."""
        is_long = head.number - mark.number > PAGE_BLOCKS
        if not is_long and not isinstance(raw, NodeError) and len(raw) < MANY_LOGS:
            return [*map(parse_log, raw)]
        found = self._node.get_logs(self._contract.address, mark.number + 1, head.number)
        (again,) = self._ask([("eth_getBlockByNumber", [hex(head.number), False])])
        is_same = again is not None and self._read_block(again).digest == head.digest
        return found if is_same else None

    def _take(self, logs: Iterable[Log]) -> set[int]:
        """Keep the events of jobs that are followed; return which jobs may be others by now."""
        changed = set()
        for log, event in [(log, self._read_log(log)) for log in logs]:
            if event is None:
                continue
            job_id = int(str(event.args[0]))
            if event.name == "JobOpened" and job_id not in self._followed:
                self._followed[job_id] = []
                self.news.append(job_id)
            if job_id in self._followed:
                self._followed[job_id].append((log.place[0], event))
                changed |= {job_id} if event.name not in MOVES else set()
        return changed

    def _read_log(self, log: Log) -> Event | None:
        """Return the event of a log; None if it is of a match that nobody here follows.

        The referee's code is known, and it has no other events: a log that is none of them is the
        node's fault, and may stand in the place of a move.
        """
        with self._decoding("its log"):
            found = self._contract.read_log(log)
            return None if self._reader.is_strange(found.name, found.args) else self._read(found)

    def _go_back(self) -> None:
        """Forget what was read of blocks that the chain does not have any more."""
        self.returns += 1
        questions: list[Question] = [
            ("eth_getBlockByNumber", [hex(mark.number), False]) for mark in self._marks
        ]
        answers = self._ask(questions)
        is_kept = [
            raw is not None and self._read_block(raw).digest == mark.digest
            for mark, raw in zip(self._marks, answers, strict=True)
        ]
        if not any(is_kept):
            self._begin_anew()
        else:
            count = len(is_kept) - is_kept[::-1].index(True)
            self._marks = self._marks[:count]
            last = self._marks[-1].number
            self._logs_read = [log for log in self._logs_read if log.place[0] <= last]
            self._opinions.forget(last)
            for log in self._followed.values():
                log[:] = [it for it in log if it[0] <= self._marks[-1].number]
        self._refresh(self._followed)

    def _begin_anew(self) -> None:
        """Forget all that was read, and look at all jobs anew.

        Where the chain does not have the first block that was read, it begins with the first job.
        """
        first = min((mark.number for mark in self._marks), default=0)
        place: Question = ("eth_getBlockByNumber", [hex(max(0, first - 1)), False])
        raw, latest = self._ask([place, ("eth_getBlockByNumber", ["latest", False])])
        self._restart(self._read_block(latest if raw is None else raw))
        self._refresh(self._followed)
        opened = [it.opened_block for it in self._jobs.values() if it.opened_block]
        if raw is None and opened:
            self._begin(min(opened))
        self._is_doubtful = False

    def _refresh(self, ids: Iterable[int]) -> None:
        """Look at jobs anew."""
        wanted = sorted(ids)
        for key in [key for key in self._debts if key[0] in wanted]:
            del self._debts[key]
        for first in range(0, len(wanted), TOGETHER):
            for job_id, job, member in self._ask_jobs(wanted[first : first + TOGETHER]):
                self._jobs[job_id], self._members[job_id] = job, member

    def _ask_jobs(self, ids: Sequence[int]) -> list[tuple[int, Job, Member]]:
        asked = [self._contract.ask_for(name, *args) for name, args in self._list_calls(ids)]
        answers = self._ask(asked)
        with self._decoding("jobs"):
            return self._read_jobs(ids, answers)

    def _list_calls(self, ids: Sequence[int]) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the getters that say how jobs stand."""
        return [call for it in ids for call in (("jobs", (it,)), ("members", (it, self._own)))]

    def _read_jobs(
        self, ids: Sequence[int], answers: Sequence[Any]
    ) -> list[tuple[int, Job, Member]]:
        """Return what the answers of these getters say; an error of Python's if that is nothing."""
        calls = zip(self._list_calls(ids), answers, strict=True)
        values = [
            self._contract.read_result(name, args, parse_data(raw)) for (name, args), raw in calls
        ]
        found = zip(ids, values[::2], values[1::2], strict=True)
        return [(it, unpack_job(job), unpack_member(own)) for it, job, own in found]

    @property
    def is_agreed(self) -> bool:
        """Whether all nodes that could be asked have said the same at the latest look."""
        return self._opinions.is_agreed

    def _ask(self, questions: Sequence[Question]) -> list[Any]:
        """Ask together; what is refused is an error, but for logs, of which there may be many."""
        with self._clock():
            answers = self._node.ask_many(questions)
        for (method, _), answer in zip(questions, answers, strict=True):
            if isinstance(answer, NodeError) and method != "eth_getLogs":
                raise ChainUnavailable(self._node.url, str(answer)) from answer
        return answers

    def _read_block(self, raw: Mapping[str, Any] | None) -> Block:
        if raw is None:
            raise ChainUnavailable(self._node.url, "it lacks a block that it had a moment ago")
        return Block(
            number=int(raw["number"], 16),
            digest=raw["hash"],
            gas=int(raw["gasLimit"], 16),
            base_fee_wei=int(raw["baseFeePerGas"], 16),
        )
