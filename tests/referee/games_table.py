"""One job with several members, played to its end, and everything of it that can be checked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import combinations
from math import ceil, log2
from random import Random
from typing import Any

from moot.contracts.model.checks import find_claim, get_member, name_job, name_match
from moot.contracts.model.step_invariants import get_match_bound
from moot.contracts.model.types import (
    ZERO,
    Address,
    Claim,
    Event,
    Message,
    Pair,
    Store,
    Terms,
    start_facts,
)
from moot.contracts.model.watch import may_play
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import Ending, Outcome, Phase, Reason, Revert, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.play.players import Move, find_move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.providers.run import Run
from tests.referee.games_books import Books
from tests.referee.games_forgery import forge
from tests.referee.games_seats import (
    CLIENT,
    FIRST_JOIN,
    STAKES,
    Seat,
    Tally,
    seat_members,
)
from tests.referee.games_stories import HONEST, SHAPES, Story, get_run
from tests.referee.games_truth import Truth, find_truth

SALT = b"salt".ljust(32, b"\2")
OWN = frozenset({"enter_claimed", "pick_element", "pick_segment"})
"""Moves that only the member may make whose bond they risk."""
_OF_MATCHES = frozenset({"MatchStarted", "Found", "Moved", "MatchEnded"})
DECISIONS = frozenset({Phase.LEAF, Phase.SINK})

Script = dict[tuple[int, int], Move | None]
"""The moves of a match, by the number of moves before and the side; None: it has none."""
Send = Callable[[str, Message, tuple[Any, ...]], Sequence[Event]]
"""Makes a call and returns its events, or raises `Revert`."""


@cache
def get_terms(shape: str, arithmetic: Arithmetic) -> Terms:
    """Return the terms of a job of a shape."""
    return SHAPES[shape].make_terms(CLIENT, STAKES, arithmetic)


@lru_cache(maxsize=1 << 12)
def _get_script(one: Story, other: Story) -> Script:
    """Return the moves of a match between two stories, which are found but once.

    One that did not fit another match between them would be refused.
    """
    del one, other
    return {}


@dataclass(slots=True)
class Table:
    """One job on a referee.

    Attributes:
        number: what everything is drawn from.
        send: makes the calls.
        store: the model.
        rng: chance.
        shape: the kind of job.
        seats: its members.
        block: the block of the next call.
        books: who has beaten whom, and the money.
        boards: the matches that go on.
        scripts: their moves, as far as they are known.
        tally: what has come of it.
        longest: the most moves of a match.
        rules: whether the verifier rules, where one is named.
        helps: whether somebody decides matches in which both sides are wrong.
        is_news: whether other matches may begin than when that was last looked for.
    """

    number: int
    send: Send
    store: Store
    rng: Random
    shape: str
    seats: dict[Address, Seat]
    block: int = 1
    books: Books = field(default_factory=lambda: Books(STAKES.bond_wei, STAKES.reward_wei))
    boards: dict[Pair, Board] = field(default_factory=dict)
    scripts: dict[Pair, Script] = field(default_factory=dict)
    tally: Tally = field(default_factory=lambda: Tally(jobs=1))
    longest: int = 0
    rules: bool = True
    helps: bool = True
    is_news: bool = True

    def play(self) -> Tally:
        """Play the job, check all of it, and return what has come of it."""
        terms = self._terms
        self.rules, self.helps = self.rng.random() < 0.9, self.rng.random() < 0.5
        for seat in self.seats.values():
            self.tally.cheats.update(seat.names)
        self.call("open_job", CLIENT, terms, value_wei=STAKES.reward_wei)
        punctual = [m for m, seat in self.seats.items() if seat.join_block is None]
        for member in punctual:
            digest = hash_commitment(self.store, 0, member, self._get_top(member), SALT)
            self.call(
                "commit", member, 0, digest, name_job(self.store, 0), value_wei=terms.bond_wei
            )
            self.books.hidden.add(member)
        self.block += terms.commit_blocks + 1
        for member in punctual:
            if self.seats[member].reveals:
                self.call("reveal", member, 0, self._get_top(member), SALT)
                self.books.show(member, shares=True)
        self.block += terms.reveal_blocks
        self._dispute()
        self._end()
        return self.tally

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> Sequence[Event]:
        """Make one call, which must be accepted, and read what it announces."""
        events = self.send(name, Message(sender, value_wei, self.block), args)
        self.tally.calls += 1
        for event in events:
            if event.name in _OF_MATCHES:
                self._read(event.name, Pair(*event.args[:3]), event.args[3:])  # type: ignore[arg-type] # the event's own
        return events

    def _read(self, name: str, pair: Pair, args: tuple[Any, ...]) -> None:
        board = self.boards.get(pair)
        if name == "MatchEnded":
            self._judge(pair, *args)
        elif board is None:
            self.boards[pair] = Board(pair, args[0], start_facts(self.store.arithmetic))
            stories = (self.seats[pair.first].story, self.seats[pair.second].story)
            self.scripts[pair] = _get_script(*stories)
        elif name == "Found":
            self.boards[pair] = Board(pair, board.position, args[0], board.nodes, board.data)
        elif name == "Moved":
            self.boards[pair] = Board(pair, args[0], board.facts, *args[1:])

    def refuse(self, reason: Reason, name: str, sender: Address, *args: Any) -> None:
        """Make one call, which must be refused."""
        try:
            self.send(name, Message(sender, 0, self.block), args)
        except Revert as refusal:
            self.tally.refused += 1
            self.expect("refusal", is_so=str(refusal) == reason)
        else:
            self.expect("refusal", is_so=False)

    def expect(self, what: str, *, is_so: bool) -> None:
        """Count what is not as it should be."""
        if not is_so:
            self.tally.wrong[f"{what} in job {self.number}"] += 1

    @property
    def _terms(self) -> Terms:
        return get_terms(self.shape, self.store.arithmetic)

    def _get_run(self, member: Address) -> Run:
        return get_run(self.seats[member].story)

    def _get_top(self, member: Address) -> bytes:
        return self._get_run(member).history.top

    def _dispute(self) -> None:
        while True:
            job = self.store.jobs[0]
            if job.status is not Status.OPEN or (job.claims <= 1 and self.block > job.window_end):
                return
            self._join()
            if self.rng.random() < 0.01:
                is_early = self.block <= job.window_end
                reason = Reason.TOO_EARLY if is_early else Reason.STILL_DISPUTED
                self.refuse(reason, "settle", CLIENT, 0, ZERO)
            if self.is_news:
                self._start()
            for pair in list(self.boards):
                if pair in self.boards:
                    self._turn(self.boards[pair])
            if self.rng.random() < 0.5 or not self.boards:
                self.block, self.is_news = self.block + 1, True

    def _start(self) -> None:
        """Start all matches that may begin now, in any order."""
        while pair := self._find_pair():
            self.call("start_match", CLIENT, *name_match(self.store, pair))
        self.is_news = False

    def _join(self) -> None:
        """Let those join that come late, behind whichever claim they have."""
        for member, seat in self.seats.items():
            if seat.join_block == self.block:
                seat.join_block = None
                self._join_late(member, self._get_top(member))

    def _join_late(self, member: Address, top: bytes) -> None:
        own = find_claim(self.store, 0, top)
        end = FIRST_JOIN + STAKES.window_blocks - 1
        if own and own.meeting:
            end = own.window_end
        if self.block > end:
            self.refuse(Reason.TOO_LATE, "join", member, 0, top, name_job(self.store, 0))
            return
        self.call("join", member, 0, top, name_job(self.store, 0), value_wei=STAKES.bond_wei)
        self.books.show(member, shares=False)
        self.tally.late += 1
        self.is_news = True

    def _find_pair(self) -> Pair | None:
        """Return two members that may play now and don't."""
        found: list[tuple[Address, Claim]] = []
        for member in self.books.left:
            key = get_member(self.store, 0, member).key
            found.append((member, self.store.claims[0, key]))
        if len({claim.top for _, claim in found}) < 2:
            return None
        self.rng.shuffle(found)
        for (one, claim), (other, opposed) in combinations(found, 2):
            pair = Pair(0, min(one, other), max(one, other))
            if pair in self.boards:
                continue
            if may_play(self.store, 0, (claim, opposed), self.block):
                return pair
        return None

    def _turn(self, board: Board) -> None:
        """Let a match go on by one call, or by none if somebody hesitates."""
        pair, position = board.pair, board.position
        if self.block > position.deadline:
            self.call("timeout", CLIENT, pair, position)
            return
        if self.rng.random() < 0.01:
            self.refuse(Reason.CLOCK_RUNNING, "timeout", CLIENT, pair, position)
        if self.block < position.deadline and self.rng.random() < 0.125:
            return
        if position.phase is Phase.VERIFIER:
            self._rule(board)
            return
        for side in (position.mover, 1 - position.mover):
            move = self._find_move(board, side)
            if move is not None:
                self._make(board, side, move)
                return
        if self.helps and position.phase in DECISIONS:
            self._show(board)

    def _find_move(self, board: Board, side: int) -> Move | None:
        """Return the move of a side that has not fallen silent."""
        pair, place = board.pair, (board.position.moves, side)
        seat = self.seats[pair.second if side else pair.first]
        if seat.is_silent:
            return None
        script = self.scripts[pair]
        if place not in script:
            script[place] = find_move(get_run(seat.story), self._terms, board, side)
        return script[place]

    def _make(self, board: Board, side: int, move: Move) -> None:
        """Make a move, as its side or, where anybody may, as somebody else."""
        pair = board.pair
        member = (pair.first, pair.second)[side]
        chance = self.rng.random()
        if chance < 0.02 and self._meddle(board, side, move):
            return
        self.seats[member].moves += 1
        sender = CLIENT if chance < 0.1 and move.call not in OWN else member
        self.call(move.call, sender, pair, board.position, *move.args)
        if chance > 0.98 and pair in self.boards:
            self.refuse(Reason.STALE, move.call, sender, pair, board.position, *move.args)

    def _meddle(self, board: Board, side: int, move: Move) -> bool:
        """Let the other side make a move, forged where anybody may; return if that is accepted.

        It is only where it says the same, as in a part that is not read: the game goes on with it.
        """
        rival, place = (board.pair.second, board.pair.first)[side], (board.pair, board.position)
        if move.call in OWN:
            self.refuse(Reason.NOT_YOURS, move.call, rival, *place, *move.args)
            return False
        args = forge(self.rng, move.args)
        if args == move.args:
            return False
        try:
            self.call(move.call, rival, *place, *args)
        except Revert:
            self.tally.refused += 1
            return False
        return True

    def _show(self, board: Board) -> None:
        """Decide a match for neither side's sake, from what side 0 would show if it were right."""
        run, terms = self._get_run(board.pair.first), self._terms
        facts, position = board.facts, board.position
        if position.phase is Phase.LEAF:
            bits = (make_leaf(run, facts).result, facts.bits[1])
            wishful = replace(board, facts=replace(facts, bits=bits))
        else:
            sink = run.task.program.first_sink + position.index
            nodes = (run.trace(facts.step).node(0, sink), position.nodes[1])
            wishful = replace(board, position=replace(position, nodes=nodes))
        move = find_move(run, terms, wishful, 0)
        assert move is not None
        self.call(move.call, CLIENT, board.pair, position, facts, *move.args[1:])

    def _rule(self, board: Board) -> None:
        """Post what an honest verifier finds: whose output is that of the true run."""
        if not self.rules:
            return
        run = get_run(Story(HONEST, self.shape, arithmetic=self.store.arithmetic))
        right = run.trace(board.facts.step).node(0, board.position.index)
        nodes = board.position.nodes
        outcome = Outcome(nodes.index(right)) if right in nodes else Outcome.NEITHER
        if self.rng.random() < 0.1:
            stranger = board.pair.first
            self.refuse(Reason.NOT_YOURS, "rule", stranger, board.pair, board.position, outcome)
        self.call("rule", CLIENT, board.pair, board.position, outcome)

    def _judge(self, pair: Pair, outcome: Outcome, ending: Ending, _: int) -> None:
        """Compare the end of a match with the stories of its members, and book it."""
        board, members = self.boards[pair], (pair.first, pair.second)
        if outcome is Outcome.UNDECIDED:
            is_due = board.position.phase is Phase.VERIFIER and not self.rules
            self.expect("verdict", is_so=is_due and self.block > board.position.deadline)
            self.tally.endings["clock, undecided"] += 1
            self.is_news = True
            self.books.release(*members)
            self._drop_matches(members)
            return
        seats = [self.seats[member] for member in members]
        truth = find_truth(seats[0].story, seats[1].story)
        is_just = (
            self._is_due(board, truth, seats, outcome)
            if ending is Ending.CLOCK
            else (ending, outcome) == (truth.ending, truth.outcome)
            and _get_place(board) == truth.place
        )
        self.expect("verdict", is_so=is_just)
        self.tally.games += 1
        self.is_news = True
        self.tally.duels += not any(seat.is_honest for seat in seats)
        self.tally.endings[f"{ending.name.lower()}, {outcome.name.lower()}"] += 1
        self.longest = max(self.longest, board.position.moves)
        winner = None if outcome is Outcome.NEITHER else members[outcome]
        losers = [member for member in members if member != winner]
        for loser in losers:
            self.tally.lost.update(self.seats[loser].names)
            self.books.defeat(loser, winner)
        self._drop_matches(losers)

    def _drop_matches(self, members: Iterable[Address]) -> None:
        """Forget the matches of members that are out."""
        for pair in list(self.boards):
            if not {pair.first, pair.second}.isdisjoint(members):
                del self.boards[pair]

    def _is_due(self, board: Board, truth: Truth, seats: list[Seat], outcome: Outcome) -> bool:
        """Whether a clock ran out as it should: on who was silent, or where nobody could move."""
        position = board.position
        can_win = [not seats[side].is_silent and truth.is_right[side] for side in (0, 1)]
        is_stuck = position.phase in DECISIONS and not any(can_win)
        is_silent = seats[position.mover].is_silent and not can_win[position.mover]
        is_late = self.block > position.deadline and outcome == 1 - position.mover
        return is_late and (is_silent or is_stuck)

    def _end(self) -> None:
        """Close the job, let everybody collect, and compare who has won and what was paid."""
        store, left = self.store, self.books.left
        if store.jobs[0].status is Status.OPEN:
            tops = [claim.top for claim in store.claims.values() if claim.contenders]
            self.call("settle", CLIENT, 0, *(tops or [ZERO]))
            rounds = ceil(log2(max(1, len(store.claims))))
            each = STAKES.window_blocks + get_match_bound(self._terms, self.longest) + 1
            limit = store.jobs[0].reveal_deadline + STAKES.window_blocks + 1 + rounds * each
            self.expect("duration", is_so=self.block <= limit)
            joined = {member for _, member in store.members}
            honest = {m for m, seat in self.seats.items() if seat.is_honest and m in joined}
            is_true = all(self.seats[member].story.is_true for member in left)
            released = self.books.released
            is_kept = honest <= left.keys() | released and (is_true or bool(released))
            self.expect("winner", is_so=not honest or is_kept)
        status = store.jobs[0].status
        self.tally.statuses[status.name.lower()] += 1
        owed, burned_wei = self.books.close(CLIENT, status)
        for account in (CLIENT, *self.seats):
            if owed[account]:
                (event,) = self.call("collect", account, 0)
                self.expect("payment", is_so=event.args == (0, account, owed[account]))
            elif self.rng.random() < 0.25:
                self.refuse(Reason.NOTHING_OWED, "collect", account, 0)
        self.expect("burning", is_so=store.burned_wei == burned_wei)
        self.tally.locked_wei += store.balance_wei
        seal = (self.number, self.block, self.tally.calls, sorted(owed.items()), self.tally.endings)
        self.tally.fingerprint = int.from_bytes(keccak256(repr(seal).encode())[:8], "big")


def _get_place(board: Board) -> tuple[int, ...]:
    """Return where a match has found the first difference, as far as it has one."""
    facts, position = board.facts, board.position
    match position.phase:
        case Phase.SINK:
            return (facts.step,)
        case Phase.VERIFIER:
            return (facts.step, position.index)
        case Phase.LEAF:
            return (facts.step, facts.operator, facts.element, facts.low)
    return ()


def play_job(number: int, store: Store, send: Send) -> Tally:
    """Play the job of a number on a new store."""
    rng, shape, seats = seat_members(number, store.arithmetic)
    return Table(number, send, store, rng, shape, seats).play()
