"""Tricks: strategies by which a provider may try to make money of the referee itself.

They lie like the cheats, or work like the honest, and try to gain by how and when they call: every
one is an attack on some other dispute game. What is expected is that none of them pays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from contracts.model.types import ZERO, Pair, Position
from contracts.reasons import Standing
from offchain.commitments.tree import Digest
from offchain.disputes.actors import Player, View
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


class _ZeroPlayer(Player):
    """A member that claims a history whose top is zero."""

    @property
    def claim(self) -> Digest:
        """Zero."""
        return ZERO


class ZeroClaim(Scheme):
    """Claims a history whose top is zero, which nobody can open, and never moves."""

    player = _ZeroPlayer

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

    def enter(self, view: View) -> Iterator[Call]:
        """Join late."""
        if view.block == view.job.reveal_deadline + view.job.terms.window_blocks:
            for member in self.list_outsiders(view):
                yield member.join(view, member.claim)


class Watcher(Scheme):
    """Computes what is agreed, and joins late if nobody has shown the right claim."""

    commit = LateLie.commit

    def enter(self, view: View) -> Iterator[Call]:
        """Join if the claims that are shown are all wrong."""
        shown = set(view.tournament.get_claims())
        for member in self.list_outsiders(view):
            if shown and member.claim not in shown:
                yield member.join(view, member.claim)


class Copy(Scheme):
    """Computes nothing: joins late, with the first claim that somebody has shown, and is silent."""

    commit = LateLie.commit

    def enter(self, view: View) -> Iterator[Call]:
        """Copy a claim."""
        for top in islice(view.tournament.get_claims(), 1):
            for member in self.list_outsiders(view):
                yield member.join(view, top)

    def dispute(self, view: View) -> Iterator[Call]:
        """Make no move."""
        del view
        yield from ()


class Revenant(Scheme):
    """Lies, and joins the same claim from another account whenever an account is defeated."""

    def commit(self, view: View) -> Iterator[Call]:
        """Join with the first account."""
        yield from self.members[0].commit(view)

    def enter(self, view: View) -> Iterator[Call]:
        """Join again, against the claim that has won, while that is allowed."""
        claim = self.members[0].claim
        meeting = view.tournament.meetings.get(claim)
        is_out = claim not in view.tournament.get_claims()
        if meeting is not None and is_out and view.block <= meeting.window_end:
            for member in islice(self.list_outsiders(view), 1):
                yield member.join(view, claim)


class FrontRunner(Scheme):
    """Computes nothing: makes all calls of the others from its own account, a block before them."""

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Copy a call."""
        del view
        yield self.members[0].call(pending.name, *pending.args, value_wei=pending.value_wei)

    def act(self, view: View) -> Iterator[Call]:
        """Make no call except copies."""
        del view
        yield from ()


class Censor(Scheme):
    """Lies, and fills the blocks when its rivals want to move, for half a clock in all."""

    def hold(self, view: View, pending: Call) -> int:
        """Keep out a rival's move while that is paid for."""
        match pending.args[:2]:
            case Pair() as pair, Position() as position if any(self.list_sides(pair)):
                left = view.job.terms.clock_blocks // 2 - self.held_blocks
                blocks = max(0, min(left, position.deadline - view.block))
                self.held_blocks += blocks
                return blocks
        return 0


@dataclass
class Grabber(Scheme):
    """Lies and tells the truth, and tries every call that would pay it if the referee let it.

    To be paid too early and twice, to settle for itself, to rule, to call a rival late, to join
    and to show its claim again, and to repeat its last move; each once in each time of the job.
    """

    _tried: set[object] = field(default_factory=set)
    _last: Call | None = None

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
                yield from self._repeat(view, member)
        for board in list(view.tournament.boards.values()):
            for side, member in self.list_sides(board.pair):
                yield member.call("rule", board.pair, board.position, side)
                if board.position.mover != side:
                    yield member.call("timeout", board.pair, board.position)

    def _repeat(self, view: View, member: Player) -> Iterator[Call]:
        """Yield calls that a member may make once only, or not yet."""
        job_id, bond_wei, top = view.tournament.job_id, view.job.terms.bond_wei, member.claim
        yield member.call("commit", job_id, top, value_wei=bond_wei)
        yield member.call("reveal", job_id, top, member.salt)
        yield member.join(view, top)
        yield member.call("settle", job_id, top)
        yield member.call("collect", job_id)


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
