"""A scheme: an actor that plays its accounts by itself, in its own time, and may answer others.

It knows what the chain shows, what it has itself run, and the calls of others that wait for a
block. Whatever it does is a call of the referee, with its own money, and may be refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.model.checks import get_member
from contracts.model.ledger import calculate_debt
from contracts.model.types import Address, Job, Member, Pair, Terms
from contracts.reasons import Standing, Status
from offchain.commitments.tree import Digest
from offchain.disputes.board import Board
from offchain.disputes.players import find_move
from offchain.disputes.referee import Call
from offchain.disputes.tournament import Tournament
from offchain.providers.testimony import Testimony
from sim.witness import Witness


@dataclass(frozen=True, slots=True)
class Seat:
    """An account of a provider, with what it has run and the salt of its commitment."""

    name: str
    address: Address
    run: Testimony
    salt: Digest


@dataclass
class Table:
    """The public view of a job.

    Attributes:
        witness: the referee; it is only read.
        terms: the job's terms.
        tournament: the state of the tournament, from the job's events.
    """

    witness: Witness
    terms: Terms
    tournament: Tournament

    @property
    def job_id(self) -> int:
        """The number of the job."""
        return self.tournament.job_id

    @property
    def job(self) -> Job:
        """The job as it stands."""
        return self.witness.store.jobs[self.job_id]

    @property
    def following(self) -> int:
        """The number of the first block that can have a call that is made now."""
        return self.witness.block_number() + 1

    def look(self) -> Tournament:
        """Return the tournament as it stands."""
        self.tournament.read(self.witness.logs[self.job_id])
        return self.tournament

    def get_member(self, address: Address) -> Member:
        """Return a member as it stands."""
        return get_member(self.witness.store, self.job_id, address)

    def get_debt(self, address: Address) -> int:
        """Return what the job, which is closed, owes an account, in wei."""
        return calculate_debt(self.witness.store, self.job_id, self.job, address)


class Scheme:
    """Plays some accounts like honest ones do, each with its own run; tricks override what differs.

    Args:
        seats: the accounts; the first is the one by which the provider is known.
    """

    def __init__(self, seats: Sequence[Seat]) -> None:
        self.seats = tuple(seats)

    def act(self, table: Table) -> Iterator[Call]:
        """Yield what there is to do now; every call has been made, or refused, before the next."""
        job, block = table.job, table.following
        if job.status is not Status.OPEN:
            yield from self.collect(table)
        elif block <= job.commit_deadline:
            yield from self.commit(table)
        elif block <= job.reveal_deadline:
            yield from self.reveal(table)
        else:
            yield from self.dispute(table)

    def precede(self, table: Table, pending: Call) -> Iterator[Call]:
        """Yield calls to be made before a call of somebody else that waits."""
        del table, pending
        yield from ()

    def hold(self, table: Table, pending: Call) -> int:
        """Return for how many blocks a call of somebody else is kept out of the chain."""
        del table, pending
        return 0

    def list_standing(self, table: Table, standing: Standing) -> Iterator[Seat]:
        """Yield the accounts that have this standing in the job."""
        for seat in self.seats:
            if table.get_member(seat.address).standing is standing:
                yield seat

    def get_claim(self, seat: Seat) -> Digest:
        """Return the top of the history that an account claims."""
        return seat.run.history.top

    def commit(self, table: Table) -> Iterator[Call]:
        """Join with hidden claims."""
        for seat in self.list_standing(table, Standing.NONE):
            args = (seat.address, self.get_claim(seat), seat.salt)
            digest = table.witness.commitment(table.job_id, *args)
            yield Call("commit", seat.address, (table.job_id, digest), table.terms.bond_wei)

    def reveal(self, table: Table) -> Iterator[Call]:
        """Show the claims."""
        for seat in self.list_standing(table, Standing.COMMITTED):
            yield Call("reveal", seat.address, (table.job_id, self.get_claim(seat), seat.salt))

    def dispute(self, table: Table) -> Iterator[Call]:
        """Make the moves that the accounts have in their matches."""
        for pair in list(table.look().boards):
            board = table.look().boards.get(pair)
            if board is not None:
                yield from self.move(table, board)

    def move(self, table: Table, board: Board) -> Iterator[Call]:
        """Make the move that an account has in a match, if any, while there is time."""
        if table.following > board.position.deadline:
            return
        for side, seat in self.list_sides(board.pair):
            move = find_move(seat.run, table.terms, board, side)
            if move is not None:
                yield Call(move.call, seat.address, (board.pair, board.position, *move.args))
                return

    def list_sides(self, pair: Pair) -> Iterator[tuple[int, Seat]]:
        """Yield the sides of a match that the scheme's accounts play, each with its account."""
        for side, address in enumerate((pair.first, pair.second)):
            yield from ((side, seat) for seat in self.seats if seat.address == address)

    def collect(self, table: Table) -> Iterator[Call]:
        """Collect what the accounts are owed."""
        for seat in self.seats:
            if table.get_debt(seat.address):
                yield Call("collect", seat.address, (table.job_id,))
