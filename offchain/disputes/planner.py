"""The planner of a job's calls, for actors that send them together.

A plan asks no node and sends nothing. The calls that are most urgent come first, so that whoever
sends them may stop anywhere, look at the chain again, and make a new plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.model.types import Address
from contracts.reasons import Phase, Status
from offchain.disputes.actors import Actor, Member, Planned, View
from offchain.disputes.board import Board
from offchain.disputes.referee import Call


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for some actors of a job, so that no two of them make the same call.

    Attributes:
        members: those that have joined, or will.
        others: those that act where no member does: who rules, and who begins, ends and settles.
    """

    members: Sequence[Member]
    others: Sequence[Actor] = ()

    def plan(self, view: View) -> Iterator[Planned]:
        """Yield the calls that there is a reason for, the most urgent first."""
        if view.job.status is not Status.OPEN:
            for actor in (*self.others, *self.members):
                yield from actor.collect(view)
        elif view.block <= view.job.commit_deadline:
            for actor in self.members:
                yield from actor.commit(view)
        elif view.block <= view.job.reveal_deadline:
            for actor in self.members:
                yield from actor.reveal(view)
        else:
            yield from self._move_all(view)
            for actor in self.others:
                yield from actor.manage(view)

    def _move_all(self, view: View) -> Iterator[Planned]:
        """Go on with all matches, in the order in which one's own clocks run out.

        All else can wait. Of two calls that would defeat one member the second would be refused.
        """
        members = {member.address: member for member in self.members}

        def get_urgency(board: Board) -> tuple[bool, int]:
            deadline = board.position.deadline
            return view.block > deadline or _list_sides(board)[0] not in members, deadline

        decided: set[Address] = set()
        for board in sorted(view.tournament.boards.values(), key=get_urgency):
            sides = (members[side] for side in _list_sides(board) if side in members)
            calls = (actor.move(view, board) for actor in (*sides, *self.others))
            planned = next(filter(None, calls), None)
            losers = _find_losers(board, planned.call) if planned else set()
            if planned is not None and decided.isdisjoint(losers):
                decided |= losers
                yield planned


def _list_sides(board: Board) -> tuple[Address, Address]:
    """Return who has to move, and the other side."""
    sides = (board.pair.first, board.pair.second)
    return sides[board.position.mover], sides[1 - board.position.mover]


def _find_losers(board: Board, call: Call) -> set[Address]:
    """Return who is out if a call that ends its match is accepted; nobody, if it ends none."""
    members = (board.pair.first, board.pair.second)
    match call.name, call.args:
        case "timeout", _ if board.position.phase is Phase.VERIFIER:
            return set(members)
        case "timeout", _:
            return {members[board.position.mover]}
        case (("leaf" | "prove_sink"), (_, _, _, int(side), *_)):
            return {members[1 - side]}
        case "rule", (_, _, outcome):
            return {member for side, member in enumerate(members) if side != outcome}
    return set()
