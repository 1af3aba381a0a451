"""A synthetic job on both referees, with the next move of each side of its matches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from moot.contracts.model.checks import name_match
from moot.contracts.model.types import Address, Event, Job, Pair, Position, Terms
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Ending, Outcome, Phase
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.players import decide, find_move
from moot.offchain.disputes.play.tournament import Tournament, order_pair
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.providers.task import Task
from moot.offchain.providers.testimony import Testimony
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size, make_task
from tests.attacks.twin import Twin
from tests.lockstep.story import assemble, commit, join

SALT = b"\x5a" * 32
SMALL = Size(checkpoints=5, checkpoint_every=4, operators=9, rows=8, columns=16, terms=70)
"""Trees of odd sizes, two chunks a tensor, and two rounds of a fold."""
HONEST = None
LIE = Lie(step=6, operator=4, element=77, term=33)
"""A lie in the middle of the history, of the trace, of the tensor and of the fold."""
REWARD_WEI = 1001
STAKES = Stakes(
    commit_blocks=10, reveal_blocks=10, window_blocks=20, clock_blocks=20, increment_blocks=3
)


@dataclass
class Court:
    """A job, with one account for each of some runs.

    Attributes:
        referee: both referees.
        task: the program, the start, the data and the length.
        runs: the run of each member, which it claims.
        changes: the terms that differ from the usual ones of these tests.
    """

    referee: Twin
    task: Task
    runs: Sequence[Testimony]
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the job."""
        accounts = self.referee.accounts
        self.client, self.members = accounts[0], list(accounts[1 : 1 + len(self.runs)])
        self.terms: Terms = replace(make_terms(self.task, STAKES), **self.changes)
        self.job_id = len(self.referee.store.jobs)
        self.referee.call("open_job", self.client, self.terms, value_wei=REWARD_WEI)

    @property
    def job(self) -> Job:
        """The job, as it stands."""
        return self.referee.store.jobs[self.job_id]

    @property
    def synthetic(self) -> ProductTask:
        """The task, if it is a synthetic one."""
        assert isinstance(self.task, ProductTask)
        return self.task

    @property
    def named(self) -> int:
        """What calls that join the job name it by besides its number."""
        return hash_job(self.job)

    def get_top(self, seat: int) -> Digest:
        """Return the claim of a member."""
        return self.runs[seat].history.top

    def commit(self, seat: int) -> None:
        """Let a member join."""
        member, top = self.members[seat], self.get_top(seat)
        assert commit(self.referee.both, member, top, SALT, self.job_id) is None

    def reveal(self, seat: int) -> None:
        """Let a member show its claim."""
        self.referee.call("reveal", self.members[seat], self.job_id, self.get_top(seat), SALT)

    def join(self, seat: int) -> None:
        """Let a member join late."""
        member, top = self.members[seat], self.get_top(seat)
        assert join(self.referee.both, member, top, self.job_id) is None

    def assemble(self, seats: Sequence[int] | None = None) -> "Court":
        """Let members join and reveal, all unless some are named, and wait until revealing ends."""
        seats = range(len(self.runs)) if seats is None else seats
        tops = {self.members[seat]: self.get_top(seat) for seat in seats}
        assemble(self.referee.both, tops, SALT, job_id=self.job_id)
        return self

    def get_pair(self, one: int = 0, other: int = 1) -> Pair:
        """Return the match of two members."""
        return order_pair(self.job_id, self.members[one], self.members[other])

    def start(self, one: int = 0, other: int = 1) -> Pair:
        """Begin a match of two members."""
        pair = self.get_pair(one, other)
        self.referee.call("start_match", self.client, *self.name_match(pair))
        return pair

    def name_match(self, pair: Pair) -> tuple[Any, ...]:
        """Return the arguments of the call that begins a match."""
        return name_match(self.referee.store, pair)

    def begin(self) -> Pair:
        """Assemble, and begin the match of the first two members."""
        return self.assemble().start()

    def look(self, pair: Pair) -> Board | None:
        """Return the public view of a match; None if it is not being played."""
        tournament = Tournament(self.job_id, self.terms)
        tournament.read(self.referee.events(self.job_id))
        return tournament.boards.get(pair)

    def at(self, pair: Pair) -> Position:
        """Return the position of a match."""
        board = self.look(pair)
        assert board is not None, "the match is over"
        return board.position

    def find(self, pair: Pair, board: Board | None = None) -> Call:
        """Return the next move of a match: of the side to move, or else of whoever can end it.

        The match is as it is public, if not said otherwise.
        """
        board = board or self.look(pair)
        assert board is not None, "the match is over"
        members, mover = (pair.first, pair.second), board.position.mover
        for side in (mover, 1 - mover):
            run = self.runs[self.members.index(members[side])]
            move = find_move(run, self.terms, board, side)
            if move is not None:
                return Call(move.call, members[side], (pair, board.position, *move.args))
        assert board.position.phase is Phase.LEAF, "nobody has a move"
        return self.make_leaf(pair, self.members.index(pair.first))

    def make_leaf(self, pair: Pair, seat: int) -> Call:
        """Return the leaf of a match, proven in the trees of one member, whoever wins by it."""
        board, member = self.look(pair), self.members[seat]
        assert board is not None, "the match is over"
        move = decide(self.runs[seat], board, (pair.first, pair.second).index(member))
        return Call(move.call, member, (pair, board.position, *move.args))

    def make(self, call: Call) -> Sequence[Event]:
        """Make a call."""
        return self.referee.call(call.name, call.sender, *call.args)

    def refuse(self, call: Call, **changes: Any) -> str:
        """Make a call that must be refused, with another sender or arguments; return why."""
        call = replace(call, **changes)
        return self.referee.refused(call.name, call.sender, *call.args)

    def play(
        self, pair: Pair, until: Callable[[Position], bool] = lambda _: False
    ) -> Sequence[Event]:
        """Play until a match has reached a place, or is over; return the last call's events."""
        events: Sequence[Event] = ()
        for _ in count():
            board = self.look(pair)
            if board is None or until(board.position):
                return events
            events = self.make(self.find(pair))
        raise AssertionError

    def play_to(self, pair: Pair, phase: Phase, *, entered: int | None = None) -> None:
        """Play until a phase has begun and, if `entered` is given, so many sides have entered."""
        self.play(pair, lambda at: at.phase is phase and entered in {None, at.entered})
        assert self.look(pair) is not None, f"the match never came to {phase.name}"

    def await_call(self, pair: Pair, name: str) -> Call:
        """Play on until a call of this name is due, and return it."""
        while (call := self.find(pair)).name != name:
            self.make(call)
        return call

    def finish(self, pair: Pair) -> tuple[Address | None, Ending]:
        """Play a match to its end; return who won it and why it ended."""
        return read_end(self.play(pair))

    def wait(self) -> None:
        """Let all windows pass."""
        self.referee.mine(max(0, self.job.window_end - self.referee.block_number()))

    def settle(self, seat: int) -> None:
        """Close the job once all windows are over; the member of a seat is left."""
        self.wait()
        self.referee.call("settle", self.client, self.job_id, self.get_top(seat))


class FalseFlag(ProductRun):
    """Claims the true history, and defends it with the traces of a lie, up to the true state."""

    def hash_state(self, step: int) -> Digest:
        """Return the root of the true state before a step."""
        return ProductRun(self.task).hash_state(step)


def open_court(referee: Twin, *lies: Lie | None, size: Size = SMALL, **changes: object) -> Court:
    """Open a synthetic job with a member for every lie, or for HONEST.

    Args:
        referee: both referees.
        lies: the lie of each member.
        size: how long the job is.
        changes: what the terms say that is not usual here.
    """
    task = make_task(size)
    return Court(referee, task, [ProductRun(task, lie) for lie in lies], changes)


def read_end(events: Sequence[Event]) -> tuple[Address | None, Ending]:
    """Return who won a match, and why it ended."""
    *pair, outcome, ending, _ = events[-1].args
    assert events[-1].name == "MatchEnded"
    if outcome == Outcome.NEITHER:
        return None, Ending(int(str(ending)))
    return str(pair[1:][int(str(outcome))]), Ending(int(str(ending)))
