"""The actors of a job: each says what it would do now, from what the chain shows and its own run.

An actor asks no node, sends nothing and remembers nothing that the chain does not. A new kind of
actor is a subclass that overrides what it does otherwise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from contracts.model.types import ZERO, Address, Job, Store, Terms
from contracts.model.words import hash_commitment
from contracts.reasons import Outcome, Phase, Standing
from offchain.commitments.tree import Digest
from offchain.disputes.board import Board
from offchain.disputes.pairing import choose_pairs
from offchain.disputes.players import find_move
from offchain.disputes.referee import Call
from offchain.disputes.tournament import Tournament
from offchain.errors import VerifierError
from offchain.providers.testimony import Testimony


@dataclass(frozen=True, slots=True)
class Player:
    """A provider at the table: its name begins with its strategy."""

    name: str
    address: Address
    run: Testimony


@dataclass(frozen=True, slots=True)
class Docket:
    """What all actors of a job know of it.

    Attributes:
        store: an empty one of the referee's, which binds commitments to it.
        job_id: the number of the job.
        terms: its terms.
    """

    store: Store
    job_id: int
    terms: Terms


class View(Protocol):
    """What the chain shows of a job, at one moment or whenever it is asked."""

    @property
    def job(self) -> Job:
        """The job."""

    @property
    def block(self) -> int:
        """The first block in which a call can be."""

    @property
    def tournament(self) -> Tournament:
        """Claims and matches, from the job's events."""

    def get_standing(self, address: Address) -> Standing:
        """Return where an account stands."""

    def get_debt(self, address: Address) -> int:
        """Return what a closed job owes an account, in wei."""


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor that does nothing: what others do is a method of the job's time for it.

    Attributes:
        docket: the job.
        name: whose calls they are.
        address: the account that sends them.
    """

    docket: Docket
    name: str
    address: Address

    def commit(self, view: View) -> Iterator[Call]:
        """Yield what there is to do while claims are hidden."""
        del view
        yield from ()

    def reveal(self, view: View) -> Iterator[Call]:
        """Yield what there is to do while claims are shown."""
        del view
        yield from ()

    def move(self, view: View, board: Board) -> Call | None:
        """Return the call that goes on with a match, if it is this actor's."""
        del view, board
        return None

    def manage(self, view: View) -> Iterator[Call]:
        """Yield what there is to do for the tournament, and for the job's end."""
        del view
        yield from ()

    def collect(self, view: View) -> Iterator[Call]:
        """Yield what there is to do once the job is closed."""
        if view.get_debt(self.address):
            yield self._call("collect", self.docket.job_id)

    def _call(self, name: str, *args: object, value_wei: int = 0) -> Call:
        return Call(name, self.address, args, value_wei)


@dataclass(frozen=True, slots=True)
class Claimant(Actor):
    """A provider that joins with its claim, and defends it with every move that there is.

    Attributes:
        run: what it has run.
        salt: hides its claim.
    """

    run: Testimony
    salt: Digest

    @property
    def claim(self) -> Digest:
        """The top of the history that it claims."""
        return self.run.history.top

    def commit(self, view: View) -> Iterator[Call]:
        """Join with a hidden claim."""
        docket = self.docket
        if view.get_standing(self.address) is Standing.NONE:
            hidden = (self.address, self.claim, self.salt)
            digest = hash_commitment(docket.store, docket.job_id, *hidden)
            bond_wei = docket.terms.bond_wei
            yield self._call("commit", docket.job_id, digest, value_wei=bond_wei)

    def reveal(self, view: View) -> Iterator[Call]:
        """Show the claim."""
        if view.get_standing(self.address) is Standing.COMMITTED:
            args = (self.docket.job_id, self.claim, self.salt)
            yield self._call("reveal", *args)

    def move(self, view: View, board: Board) -> Call | None:
        """Make the move that its side has, or say that the other side's time is over."""
        position, members = board.position, (board.pair.first, board.pair.second)
        side, place = members.index(self.address), (board.pair, position)
        if view.block > position.deadline:
            is_rival = side != position.mover
            return self._call("timeout", *place) if is_rival else None
        move = find_move(self.run, self.docket.terms, board, side)
        if move is None:
            return None
        return self._call(move.call, *place, *move.args)


@dataclass(frozen=True, slots=True)
class Client(Actor):
    """Whoever begins the matches that are needed, ends those that nobody plays, and settles.

    Attributes:
        list_claims: returns the tops of the claims that it defends, if any.
    """

    list_claims: Callable[[], set[Digest]]

    def move(self, view: View, board: Board) -> Call | None:
        """Say that a side's time is over."""
        position = board.position
        if view.block <= position.deadline:
            return None
        return self._call("timeout", board.pair, position)

    def manage(self, view: View) -> Iterator[Call]:
        """Begin matches; settle if no claim is left to be met."""
        tops = self.list_claims()
        own = tops.pop() if len(tops) == 1 else None
        for pair in choose_pairs(view.tournament, view.block, own):
            yield self._call("start_match", *view.tournament.name_match(pair))
        claims = list(view.tournament.get_claims())
        if len(claims) <= 1 and view.block > view.job.window_end:
            yield self._call("settle", self.docket.job_id, *(claims or [ZERO]))


@dataclass(frozen=True, slots=True)
class Caller(Actor):
    """Whoever posts the bounded verifier's rulings.

    Attributes:
        ruler: the bounded verifier's decision about a match.
    """

    ruler: Callable[[Board], Outcome]

    def move(self, view: View, board: Board) -> Call | None:
        """Rule, if the match waits for it and the verifier can tell."""
        position = board.position
        if position.phase is not Phase.VERIFIER or view.block > position.deadline:
            return None
        try:
            outcome = self.ruler(board)
        except VerifierError:
            return None
        return self._call("rule", board.pair, position, outcome)

    def collect(self, view: View) -> Iterator[Call]:
        """Collect nothing: rulings are not paid for."""
        del view
        yield from ()
