"""The state of a tournament, read from a job's events: contenders, meetings and matches."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from moot.contracts.model.types import (
    ZERO,
    Address,
    Event,
    MatchArgs,
    Pair,
    Position,
    Terms,
)
from moot.contracts.reasons import Ending, Outcome
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import Board, follow, get_pair


@dataclass(frozen=True, slots=True)
class Meeting:
    """A claim's latest meeting; up to block `window_end` anybody may join either claim."""

    rival: Digest
    window_end: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished match: its state before the last move, and how it ended."""

    board: Board
    outcome: Outcome
    ending: Ending

    @property
    def losing_sides(self) -> tuple[int, ...]:
        """The sides that are out: one, or both."""
        return tuple(side for side in (0, 1) if side != self.outcome)


@dataclass(slots=True)
class Tournament:
    """A job's claims and matches, read from its events alone.

    Whoever was killed makes a new one, and knows as much as before.

    Attributes:
        job_id: the job.
        terms: its terms.
        arithmetic: of its program.
        contenders: the members that have not been defeated, with the tops of their claims.
        meetings: the last meeting of every claim that has met another.
        boards: the matches between contenders that are being played.
        ended: the matches that have ended, in order.
    """

    job_id: int
    terms: Terms
    arithmetic: Arithmetic = ORDERED
    contenders: dict[Address, Digest] = field(default_factory=dict)
    meetings: dict[Digest, Meeting] = field(default_factory=dict)
    boards: dict[Pair, Board] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    _seen: list[Event] = field(default_factory=list)

    def read(self, log: Sequence[Event]) -> None:
        """Read on, to the end of the job's log; anew, if it does not begin as it did before.

        A log that contradicts itself leaves nothing behind.

        Raises:
            ValueError: it contradicts itself, as no log of the contract does.
        """
        if log[: len(self._seen)] != self._seen:
            self._clear()
        try:
            for event in log[len(self._seen) :]:
                self._apply(event)
        except (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
            self._clear()
            raise ValueError(f"the log of job {self.job_id} contradicts itself") from error
        except ValueError:
            self._clear()
            raise
        self._seen = list(log)

    def fork(self) -> "Tournament":
        """Return one that knows the same, and reads on by itself."""
        known = (self.contenders.copy(), self.meetings.copy(), self.boards.copy())
        rest = (self.ended.copy(), self._seen.copy())
        return Tournament(self.job_id, self.terms, self.arithmetic, *known, *rest)

    def _clear(self) -> None:
        for known in (self.contenders, self.meetings, self.boards, self.ended, self._seen):
            known.clear()

    def _apply(self, event: Event) -> None:
        match event.name, event.args[1:]:
            case "Claimed", (str(member), bytes(top)):
                self.contenders[member] = top
            case "MatchStarted", (_, _, Position() as position):
                follow(self.boards, event, self.arithmetic)
                self._meet(get_pair(event), position)
            case (("Found" | "Moved"), _) if get_pair(event) in self.boards:
                follow(self.boards, event, self.arithmetic)
            case "MatchEnded", (_, _, Outcome() as outcome, Ending() as ending, _):
                self._end(get_pair(event), outcome, ending)
            case "Settled", _:
                self.boards.clear()

    def _meet(self, pair: Pair, position: Position) -> None:
        first, second = self.contenders[pair.first], self.contenders[pair.second]
        if first not in self.meetings or self.meetings[first].rival != second:
            started = position.deadline - self.terms.clock_blocks
            end = started + self.terms.window_blocks
            self.meetings |= {first: Meeting(second, end), second: Meeting(first, end)}

    def _end(self, pair: Pair, outcome: Outcome, ending: Ending) -> None:
        ended = Ended(self.boards[pair], outcome, ending)
        self.ended.append(ended)
        losers = {(pair.first, pair.second)[side] for side in ended.losing_sides}
        for loser in losers:
            del self.contenders[loser]
        for other in list(self.boards):
            if not losers.isdisjoint((other.first, other.second)):
                del self.boards[other]

    def get_claims(self) -> dict[Digest, list[Address]]:
        """Return the claims that have contenders, with these, both in the order of showing."""
        claims: dict[Digest, list[Address]] = {}
        for member, top in self.contenders.items():
            claims.setdefault(top, []).append(member)
        return claims

    def list_windows(self) -> list[int]:
        """Return the last block of each window that keeps a claim from meeting another."""
        claims = self.get_claims()
        windows = [self.meetings[top] for top in claims if top in self.meetings]
        return [meeting.window_end for meeting in windows if meeting.rival not in claims]

    def is_free(self, top: Digest, block: int) -> bool:
        """Whether a claim may meet another in a block."""
        meeting = self.meetings.get(top)
        if meeting is None:
            return True
        return block > meeting.window_end and meeting.rival not in self.contenders.values()

    def name_match(self, pair: Pair) -> MatchArgs:
        """Return the arguments of the call that begins a match of two contenders."""
        first, second = self.contenders[pair.first], self.contenders[pair.second]
        met, others = self.meetings.get(first), self.meetings.get(second)
        rivals = (met.rival if met else ZERO, others.rival if others else ZERO)
        if rivals == (second, first):
            rivals = (ZERO, ZERO)
        return (pair.job_id, pair.first, pair.second, (first, second), rivals)


def order_pair(job_id: int, one: Address, other: Address) -> Pair:
    """Return the match of two members: the lower address is first."""
    first, second = sorted((one, other), key=lambda address: int(address, 16))
    return Pair(job_id, first, second)
