"""The reducer: makes the frames of a record of a referee's entries, one of each, in order.

It asks nobody: the same entries make the same frames, wherever they come from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from moot.contracts.model.types import Address, Event, Pair, Position, Store, start_facts
from moot.contracts.reasons import Ending, Outcome, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import Board, get_pair, read_move
from moot.offchain.record import schema
from moot.offchain.record.books import Books
from moot.offchain.record.entries import Entry
from moot.offchain.record.forms import (
    Course,
    show_account,
    show_claim,
    show_digest,
    show_found,
    show_job,
    show_match,
    show_member,
)
from moot.offchain.record.names import Names
from moot.offchain.record.numbers import Numbers, read_operator, read_scalar
from moot.offchain.record.steps import Formats, read_opening, read_pick
from moot.offchain.record.wording import Teller

_BY_EVENT = {
    "JobOpened": "open_job",
    "Committed": "commit",
    "MatchStarted": "start_match",
    "Settled": "settle",
    "Collected": "collect",
}
"""The calls that one can tell by what they announce."""
_OF_ACCOUNT = frozenset({"Committed", "Claimed", "Collected"})
_OF_MATCH = frozenset({"MatchStarted", "Found", "Moved", "MatchEnded"})


@dataclass
class Reducer:
    """A referee's state, entry by entry.

    Attributes:
        referee: its address.
        chain_id: the number of its chain.
        arithmetic: what its leaf contract computes in.
        names: of the operators of programs, as far as they are at hand.
        books: the referee's state after the last entry.
    """

    referee: Address
    chain_id: int
    arithmetic: Arithmetic
    names: Names = lambda _: ()
    books: Books = field(init=False)
    _courses: dict[Pair, Course] = field(init=False, default_factory=dict)
    _known: dict[Digest, Sequence[str]] = field(init=False, default_factory=dict)
    _teller: Teller = field(init=False)

    def __post_init__(self) -> None:
        store = Store(self.chain_id, self.referee, arithmetic=self.arithmetic)
        self.books = Books(store)
        self._teller = Teller(self._name_operator)

    def _name_operator(self, job_id: int, index: int) -> str:
        """Return the name of an operator, empty where nobody knows it or it is the state."""
        terms = self.books.store.jobs[job_id].terms
        if terms.program_top not in self._known:
            self._known[terms.program_top] = self.names(terms)
        names = self._known[terms.program_top]
        return names[index] if index < len(names) else ""

    def reduce(self, entries: Iterable[Entry]) -> list[schema.Frame]:
        """Return the frames of further entries."""
        return [self._read(entry) for entry in entries]

    def _read(self, entry: Entry) -> schema.Frame:
        """Return the frame of the next entry."""
        first = entry.events[0]
        name = entry.call or _BY_EVENT.get(first.name, "")
        job_id = int(str(first.args[0]))
        text = self._teller.tell(name, entry.events)
        pairs = dict.fromkeys(get_pair(it) for it in entry.events if it.name in _OF_MATCH)
        befores = {pair: self._courses.get(pair) for pair in pairs}
        for event in entry.events:
            if event.name == "JobOpened" and entry.job is not None:
                self.books.open(job_id, entry.job)
            self.books.apply(event, entry.block)
            self._follow(event, entry)
        move = self._picture(next(iter(pairs)), befores) if pairs else _Move()
        changed = self._collect(job_id, entry)
        return schema.Frame(
            block=entry.block,
            job=job_id,
            text=text,
            call=_show_call(entry, name),
            match=move.match,
            pick=move.pick,
            opening=move.opening,
            jobs=changed.jobs,
            members=changed.members,
            claims=changed.claims,
            matches=changed.matches,
        )

    def _follow(self, event: Event, entry: Entry) -> None:
        """Go on with the match that an event is about."""
        match event.name, event.args[3:]:
            case "MatchStarted", (Position() as position,):
                self._start(get_pair(event), position, entry.block)
            case (("Found" | "Moved"), _):
                pair = get_pair(event)
                course = self._courses[pair]
                board = read_move(course.board, event)
                node = course.node
                if entry.encoding:
                    node = read_operator(entry.encoding, self.arithmetic)
                self._courses[pair] = replace(course, board=board, node=node)
            case "MatchEnded", (Outcome() as outcome, Ending() as ending, _):
                self._end(get_pair(event), outcome, ending, entry)

    def _start(self, pair: Pair, position: Position, block: int) -> None:
        claims = [self.books.get_claim(pair.job_id, it).top for it in (pair.first, pair.second)]
        board = Board(pair, position, start_facts(self.arithmetic))
        number = len(self._courses)
        self._courses[pair] = Course(number, (claims[0], claims[1]), block, board)

    def _end(self, pair: Pair, outcome: Outcome, ending: Ending, entry: Entry) -> None:
        course, terms = self._courses[pair], self.books.store.jobs[pair.job_id].terms
        scalar = course.scalar
        if entry.leaf is not None:
            scalar = read_scalar(self.arithmetic, terms, course.board.facts, entry.leaf)
        end = schema.End(
            ending=ending.name.lower(), outcome=outcome.name.lower(), block=entry.block
        )
        self._courses[pair] = replace(course, scalar=scalar, end=end)

    def _picture(self, pair: Pair, befores: dict[Pair, Course | None]) -> "_Move":
        """Return what a move picks and opens; a call that begins or ends a match does neither."""
        before, after = befores[pair], self._courses[pair]
        if before is None or before.board.position == after.board.position:
            return _Move(after.number)
        numbers = Numbers(self.arithmetic, after.node)
        formats = Formats(
            lambda index: self._name_operator(pair.job_id, index),
            numbers.element,
            numbers.accumulator,
        )
        boards = (before.board, after.board)
        return _Move(after.number, read_pick(*boards, formats), read_opening(*boards, formats))

    def _collect(self, job_id: int, entry: Entry) -> "_Changed":
        """Return the entities that an entry has changed, as they are now."""
        books, store = self.books, self.books.store
        names = {event.name for event in entry.events}
        moved = dict.fromkeys(get_pair(it) for it in entry.events if it.name in _OF_MATCH)
        if names <= {"Found", "Moved"}:
            return _Changed(matches=[self._show_match(pair) for pair in moved])
        accounts = [it for pair in moved for it in (pair.first, pair.second)]
        accounts += [str(it.args[1]) for it in entry.events if it.name in _OF_ACCOUNT]
        moved |= dict.fromkeys(self._stop_matches(job_id, entry.block))
        members = [it for it in dict.fromkeys(accounts) if (job_id, it) in store.members]
        keys = dict.fromkeys(store.members[job_id, it].key for it in members)
        claims = [store.claims[job_id, key] for key in keys if (job_id, key) in store.claims]
        return _Changed(
            jobs=[show_job(books, job_id)],
            members=[show_member(books, job_id, address) for address in members],
            claims=[show_claim(job_id, claim) for claim in claims],
            matches=[self._show_match(pair) for pair in moved],
        )

    def _stop_matches(self, job_id: int, block: int) -> list[Pair]:
        """Note which matches nobody can end any more, and return them."""
        store = self.books.store
        stopped = []
        for pair, course in self._courses.items():
            if pair.job_id != job_id or course.end is not None:
                continue
            members = (store.members[job_id, it] for it in (pair.first, pair.second))
            if store.jobs[job_id].status is Status.OPEN and all(it.is_contender for it in members):
                continue
            end = schema.End(ending="stopped", outcome="undecided", block=block)
            self._courses[pair] = replace(course, end=end)
            stopped.append(pair)
        return stopped

    def _show_match(self, pair: Pair) -> schema.Match:
        course = self._courses[pair]
        node, index = course.node, course.board.facts.operator
        name = self._name_operator(pair.job_id, index)
        found = show_found(course, Numbers(self.arithmetic, node), name)
        digest = self.books.store.matches.get(pair)
        return show_match(course, found, show_digest(digest) if digest else "")


@dataclass(frozen=True, slots=True)
class _Changed:
    matches: list[schema.Match]
    jobs: list[schema.Job] = field(default_factory=list)
    members: list[schema.Member] = field(default_factory=list)
    claims: list[schema.Claim] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Move:
    match: int | None = None
    pick: schema.Pick | None = None
    opening: schema.Opening | None = None


def _show_call(entry: Entry, name: str) -> schema.Call:
    return schema.Call(
        name=name,
        sender=show_account(entry.sender),
        transaction=entry.transaction,
        gas=entry.gas,
        calldata_bytes=entry.calldata_bytes,
        gas_price_wei=str(entry.gas_price_wei),
    )
