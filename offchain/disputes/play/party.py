"""A party of a job: actors that act together, so that no two of them make the same call.

A party asks no node and sends nothing. The calls that are most urgent come first, so that whoever
sends them may stop anywhere, look at the chain again, and ask again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moot.contracts.model.types import Address
from moot.contracts.reasons import Phase, Status
from moot.offchain.disputes.play.actors import Actor, Player, View
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call


@dataclass
class Party:
    """Actors that act together; a subclass may see the calls of others that wait for a block.

    Attributes:
        members: those that have joined, or will.
        others: those that act where no member does: who rules, and who begins, ends and settles.
        joins_at_once: whether all its calls are sent at once while claims are hidden and shown, and
            not only as many as it has room for in a block.
    """

    members: Sequence[Player]
    others: Sequence[Actor] = ()
    joins_at_once: bool = False

    def act(self, view: View) -> Iterator[Call]:
        """Yield the calls that there is a reason for, the most urgent first.

        Who joins late comes alone: it changes what else there is to do.
        """
        if view.job.status is not Status.OPEN:
            yield from self.collect(view)
        elif view.block <= view.job.commit_deadline:
            yield from self.commit(view)
        elif view.block <= view.job.reveal_deadline:
            yield from self.reveal(view)
        else:
            yield from list(self.enter(view)) or self.dispute(view)

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Yield calls to be made before a call of somebody else that waits, if it can be seen."""
        del view, pending
        yield from ()

    def hold(self, view: View, pending: Call) -> int:
        """Return for how many blocks to keep a call of somebody else out of the chain."""
        del view, pending
        return 0

    def commit(self, view: View) -> Iterator[Call]:
        """Join with hidden claims."""
        for member in self.members:
            yield from member.commit(view)

    def reveal(self, view: View) -> Iterator[Call]:
        """Show the claims."""
        for member in self.members:
            yield from member.reveal(view)

    def enter(self, view: View) -> Iterator[Call]:
        """Join late."""
        for member in self.members:
            yield from member.enter(view)

    def dispute(self, view: View) -> Iterator[Call]:
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
            moves = (actor.move(view, board) for actor in (*sides, *self.others))
            move = next((call for call in moves if call is not None), None)
            losers = _find_losers(board, move) if move else set()
            if move is not None and decided.isdisjoint(losers):
                decided |= losers
                yield move
        for actor in self.others:
            yield from actor.manage(view)

    def collect(self, view: View) -> Iterator[Call]:
        """Collect once for each account: a client may be a provider, too."""
        paid: set[Address] = set()
        for actor in (*self.others, *self.members):
            for call in actor.collect(view):
                if call.sender not in paid:
                    paid.add(call.sender)
                    yield call


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
