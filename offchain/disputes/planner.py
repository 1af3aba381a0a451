"""The planner of a job's calls, for actors that send them together.

A plan asks no node and sends nothing. The calls that are most urgent come first, so that whoever
sends them may stop anywhere, look at the chain again, and make a new plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.model.types import Address, Pair
from contracts.reasons import Phase, Status
from offchain.disputes.actors import Actor, Claimant, View
from offchain.disputes.board import Board
from offchain.disputes.referee import Call

_STAGES = {
    Phase.HISTORY: "history",
    Phase.INTERVAL: "history",
    Phase.TRACE: "trace",
    Phase.TENSOR: "tensor",
    Phase.CHUNK: "tensor",
    Phase.STATE: "tensor",
    Phase.FOLD: "fold",
    Phase.LEAF: "leaf",
    Phase.SINK: "leaf",
    Phase.VERIFIER: "leaf",
}
"""The stage of a dispute to which a move in each phase of the contract is counted."""

_JOINING = frozenset({"open_job", "commit", "reveal", "join"})


def get_stage(call: Call) -> str:
    """Return the stage of a dispute to which a call is counted."""
    if isinstance(call.args[0], Pair):
        return _STAGES[call.args[1].phase]
    if call.name == "start_match":
        return "history"
    return "joining" if call.name in _JOINING else "payout"


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned call, with its stage and its player."""

    stage: str
    player: str
    call: Call


def plan_calls(actor: Actor, calls: Iterator[Call]) -> Iterator[Planned]:
    """Yield an actor's calls with their stages."""
    for call in calls:
        yield Planned(get_stage(call), actor.name, call)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for some actors of a job, so that no two of them make the same call.

    Attributes:
        members: those that have joined, or will.
        others: those that act where no member does: who rules, and who begins, ends and settles.
    """

    members: Sequence[Claimant]
    others: Sequence[Actor] = ()

    def plan(self, view: View) -> Iterator[Planned]:
        """Yield the calls that there is a reason for, the most urgent first."""
        if view.job.status is not Status.OPEN:
            yield from self._collect(view)
        elif view.block <= view.job.commit_deadline:
            for member in self.members:
                yield from plan_calls(member, member.commit(view))
        elif view.block <= view.job.reveal_deadline:
            for member in self.members:
                yield from plan_calls(member, member.reveal(view))
        else:
            yield from self._move_all(view)
            for actor in self.others:
                yield from plan_calls(actor, actor.manage(view))

    def _collect(self, view: View) -> Iterator[Planned]:
        """Collect once for each account: a client may be a provider, too."""
        paid: set[Address] = set()
        for actor in (*self.others, *self.members):
            for planned in plan_calls(actor, actor.collect(view)):
                if planned.call.sender not in paid:
                    paid.add(planned.call.sender)
                    yield planned

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
            planned = self._move(view, board, [*sides, *self.others])
            losers = _find_losers(board, planned.call) if planned else set()
            if planned is not None and decided.isdisjoint(losers):
                decided |= losers
                yield planned

    def _move(self, view: View, board: Board, actors: Sequence[Actor]) -> Planned | None:
        """Return the call of the first actor who has one about a match."""
        for actor in actors:
            call = actor.move(view, board)
            if call is not None:
                return Planned(get_stage(call), actor.name, call)
        return None


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
