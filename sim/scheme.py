"""A scheme: an actor with several accounts, which acts in its own time and may answer others.

It knows what the chain shows, what it has itself run, and the calls of others that wait for a
block. Whatever it does is a call of the referee, with its own money, and may be refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.model.checks import get_member
from contracts.model.ledger import calculate_debt
from contracts.model.types import Address, Job, Pair
from contracts.reasons import Standing, Status
from offchain.disputes.actors import Claimant, View
from offchain.disputes.board import Board
from offchain.disputes.referee import Call
from offchain.disputes.tournament import Tournament
from sim.witness import Witness


@dataclass
class LiveView:
    """What the chain shows of a job whenever it is asked: a `View`.

    Attributes:
        witness: the referee; it is only read.
        known: the tournament, as far as the job's events have been read.
    """

    witness: Witness
    known: Tournament

    @property
    def job(self) -> Job:
        """The job as it stands."""
        return self.witness.store.jobs[self.known.job_id]

    @property
    def block(self) -> int:
        """The first block that can have a call that is made now."""
        return self.witness.block_number() + 1

    @property
    def tournament(self) -> Tournament:
        """The tournament as it stands."""
        self.known.read(self.witness.logs[self.known.job_id])
        return self.known

    def get_standing(self, address: Address) -> Standing:
        """Return where an account stands."""
        return get_member(self.witness.store, self.known.job_id, address).standing

    def get_debt(self, address: Address) -> int:
        """Return what the job, which is closed, owes an account, in wei."""
        return calculate_debt(self.witness.store, self.known.job_id, self.job, address)


class Scheme:
    """Plays some accounts like honest ones do, each with its own run; tricks override what differs.

    Args:
        members: the accounts; the first is the one by which the provider is known.
    """

    member: type[Claimant] = Claimant
    """What the accounts do by themselves."""

    def __init__(self, members: Sequence[Claimant]) -> None:
        self.members = tuple(members)
        self.docket = members[0].docket

    def act(self, view: View) -> Iterator[Call]:
        """Yield what there is to do now; every call has been made, or refused, before the next."""
        job, block = view.job, view.block
        if job.status is not Status.OPEN:
            yield from self.collect(view)
        elif block <= job.commit_deadline:
            yield from self.commit(view)
        elif block <= job.reveal_deadline:
            yield from self.reveal(view)
        else:
            yield from self.dispute(view)

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Yield calls to be made before a call of somebody else that waits."""
        del view, pending
        yield from ()

    def hold(self, view: View, pending: Call) -> int:
        """Return for how many blocks a call of somebody else is kept out of the chain."""
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

    def dispute(self, view: View) -> Iterator[Call]:
        """Make the moves that the accounts have in their matches."""
        for pair in list(view.tournament.boards):
            board = view.tournament.boards.get(pair)
            if board is not None:
                yield from self.move(view, board)

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Make the move that an account has in a match, if any, while there is time."""
        if view.block > board.position.deadline:
            return
        for _, member in self.list_sides(board.pair):
            call = member.move(view, board)
            if call is not None:
                yield call
                return

    def list_sides(self, pair: Pair) -> Iterator[tuple[int, Claimant]]:
        """Yield the sides of a match that the scheme's accounts play, each with its account."""
        for side, address in enumerate((pair.first, pair.second)):
            yield from ((side, member) for member in self.members if member.address == address)

    def list_outsiders(self, view: View) -> Iterator[Claimant]:
        """Yield the accounts that have not joined."""
        for member in self.members:
            if view.get_standing(member.address) is Standing.NONE:
                yield member

    def collect(self, view: View) -> Iterator[Call]:
        """Collect what the accounts are owed."""
        for member in self.members:
            yield from member.collect(view)
