"""Tricks: strategies by which a provider may try to make money of the referee itself.

They lie like the cheats, or work like the honest, and try to gain by how and when they call: every
one is an attack on some other dispute game. What is expected is that none of them pays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from contracts.model.types import ZERO, Pair, Position
from contracts.reasons import Standing
from offchain.commitments.tree import Digest
from offchain.disputes.actors import Claimant, View
from offchain.disputes.board import Board
from offchain.disputes.referee import Call
from offchain.providers.behaviour import Behaviour
from offchain.providers.cheats import Lazy, make_cheat
from offchain.providers.task import Task
from sim.scheme import Scheme
from sim.strategy import Strategy


class Hidden(Scheme):
    """Joins, looks at what the others show, and never shows its own claim."""

    def reveal(self, view: View) -> Iterator[Call]:
        """Show nothing."""
        del view
        yield from ()


class _ZeroClaimant(Claimant):
    """A member that claims a history whose top is zero."""

    @property
    def claim(self) -> Digest:
        """Zero."""
        return ZERO


class ZeroClaim(Scheme):
    """Claims a history whose top is zero, which nobody can open, and never moves."""

    member = _ZeroClaimant

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Make no move."""
        del view, board
        yield from ()


class LastBlock(Scheme):
    """Lies, and makes every move in the last block of its clock."""

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Wait until the clock's last block."""
        if view.block >= board.position.deadline:
            yield from super().move(view, board)


class LateLie(Scheme):
    """Joins with a lie in the last block in which a new claim may join, which prolongs the job."""

    def commit(self, view: View) -> Iterator[Call]:
        """Stay away."""
        del view
        yield from ()

    def dispute(self, view: View) -> Iterator[Call]:
        """Join late, and defend the lie."""
        if view.block == view.job.reveal_deadline + self.docket.terms.window_blocks:
            yield from join(self.list_outsiders(view), lambda member: member.claim)
        yield from super().dispute(view)


class Copy(Scheme):
    """Computes nothing: joins late, with the first claim that somebody has shown, and is silent."""

    commit = LateLie.commit

    def dispute(self, view: View) -> Iterator[Call]:
        """Copy a claim."""
        shown = list(view.tournament.get_claims())
        if shown:
            yield from join(self.list_outsiders(view), lambda _: shown[0])


class Revenant(Scheme):
    """Lies, and joins the same claim from another account whenever an account is defeated."""

    def commit(self, view: View) -> Iterator[Call]:
        """Join with the first account."""
        yield from self.members[0].commit(view)

    def dispute(self, view: View) -> Iterator[Call]:
        """Join again, against the claim that has won, while that is allowed."""
        claim = self.members[0].claim
        meeting = view.tournament.meetings.get(claim)
        is_out = claim not in view.tournament.get_claims()
        if meeting is not None and is_out and view.block <= meeting.window_end:
            fresh = list(self.list_outsiders(view))[:1]
            yield from join(fresh, lambda member: member.claim)
        yield from super().dispute(view)


def join(members: Iterable[Claimant], claim: Callable[[Claimant], Digest]) -> Iterator[Call]:
    """Yield the calls by which some accounts join late, each with its claim."""
    for member in members:
        docket = member.docket
        args = (docket.job_id, claim(member))
        yield Call("join", member.address, args, docket.terms.bond_wei)


class FrontRunner(Scheme):
    """Computes nothing: makes all calls of the others from its own account, a block before them."""

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Copy a call."""
        del view
        yield Call(pending.name, self.members[0].address, pending.args, pending.value_wei)

    def act(self, view: View) -> Iterator[Call]:
        """Make no call except copies."""
        del view
        yield from ()


class Censor(Scheme):
    """Lies, and fills the blocks when its rivals want to move, for half a clock in all."""

    spent_blocks = 0

    def hold(self, view: View, pending: Call) -> int:
        """Keep out a rival's move while that is paid for."""
        match pending.args[:2]:
            case Pair() as pair, Position() as position if any(self.list_sides(pair)):
                left = self.docket.terms.clock_blocks // 2 - self.spent_blocks
                blocks = max(0, min(left, position.deadline - view.block))
                self.spent_blocks += blocks
                return blocks
        return 0


class Grabber(Scheme):
    """Lies and tells the truth, and tries every call that would pay it if the referee let it.

    To be paid too early and twice, to settle for itself, to rule, to call a rival late, to join
    and to show its claim again, and to repeat its last move; each once in each time of the job.
    """

    def __init__(self, members: Sequence[Claimant]) -> None:
        super().__init__(members)
        self._tried: set[object] = set()
        self._last: Call | None = None

    def act(self, view: View) -> Iterator[Call]:
        """Do as the others do, and grab."""
        for call in super().act(view):
            self._last = call
            yield call
        for call in self._list_grabs(view):
            stage = view.job.status, view.block > view.job.reveal_deadline
            attempt = (call.name, call.sender, stage)
            if attempt not in self._tried:
                self._tried.add(attempt)
                yield call

    def _list_grabs(self, view: View) -> Iterator[Call]:
        if self._last is not None:
            yield self._last
        for member in self.members:
            if view.get_standing(member.address) is not Standing.NONE:
                yield from self._repeat(member)
        for board in list(view.tournament.boards.values()):
            for side, member in self.list_sides(board.pair):
                yield Call("rule", member.address, (board.pair, board.position, side))
                if board.position.mover != side:
                    yield Call("timeout", member.address, (board.pair, board.position))

    def _repeat(self, member: Claimant) -> Iterator[Call]:
        """Yield calls that a member may make once only, or not yet."""
        own, top, docket = member.address, member.claim, member.docket
        yield Call("commit", own, (docket.job_id, top), docket.terms.bond_wei)
        yield Call("reveal", own, (docket.job_id, top, member.salt))
        yield Call("join", own, (docket.job_id, top), docket.terms.bond_wei)
        yield Call("settle", own, (docket.job_id, top))
        yield Call("collect", own, (docket.job_id,))


def draw_lie(task: Task, rng: np.random.Generator) -> Behaviour:
    """Return a behaviour that lies and defends its lie with every move."""
    return make_cheat("wrong-output", task, rng)


def draw_one(task: Task, rng: np.random.Generator) -> list[Behaviour]:
    """Return one behaviour that lies."""
    return [draw_lie(task, rng)]


def draw_both(task: Task, rng: np.random.Generator) -> list[Behaviour]:
    """Return two behaviours, of which one lies and the other is honest."""
    return [draw_lie(task, rng), Behaviour()]


def draw_truths(task: Task, rng: np.random.Generator) -> list[Behaviour]:
    """Return three honest behaviours."""
    del task, rng
    return [Behaviour(), Behaviour(), Behaviour()]


def draw_nothing(task: Task, rng: np.random.Generator) -> list[Behaviour]:
    """Return the behaviour that computes nothing."""
    del task, rng
    return [Lazy(step=0)]


TRICKS: Mapping[str, Strategy] = {
    "hidden": Strategy(draw_one, scheme=Hidden),
    "zero-claim": Strategy(draw_nothing, scheme=ZeroClaim),
    "last-block": Strategy(draw_one, scheme=LastBlock),
    "censor": Strategy(draw_one, scheme=Censor),
    "late-lie": Strategy(draw_one, scheme=LateLie),
    "copy": Strategy(draw_nothing, scheme=Copy),
    "front-runner": Strategy(draw_nothing, scheme=FrontRunner),
    "revenant": Strategy(lambda task, rng: [draw_lie(task, rng)] * 2, 2, Revenant),
    "sybil": Strategy(lambda task, rng: [draw_lie(task, rng) for _ in range(3)], 3),
    "crowd": Strategy(lambda task, rng: [draw_lie(task, rng)] * 2, 2),
    "split": Strategy(draw_truths, 3),
    "self-play": Strategy(draw_both, 2),
    "shill": Strategy(draw_one, is_client=True),
    "grabber": Strategy(draw_both, 2, Grabber),
}
"""Each trick by its name."""
