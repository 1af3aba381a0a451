"""The actors of a job: each says what it would do now, from what the chain shows and its own run.

An actor asks no node, sends nothing and remembers nothing that the chain does not. A new kind of
actor is a subclass that overrides what it does otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from moot.contracts.model.types import ZERO, Address, Job
from moot.contracts.reasons import Outcome, Phase, Standing
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.pairing import choose_pairs
from moot.offchain.disputes.play.players import find_move
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import VerifierError
from moot.offchain.providers.testimony import Testimony


class View(Protocol):
    """What the chain shows of a job to its actors, who can only read it."""

    @property
    def job(self) -> Job:
        """The job."""

    @property
    def named(self) -> int:
        """What the job's terms were when the actor took it: calls that join it say so.

        A job that has come to its number since, or will before the call is made, refuses the call.
        """

    @property
    def block(self) -> int:
        """The first block in which a call can be."""

    @property
    def tournament(self) -> Tournament:
        """The job's number and terms; its claims and matches, from its events."""

    def get_standing(self, address: Address) -> Standing:
        """Return where an account stands."""

    def get_debt(self, address: Address) -> int:
        """Return what a closed job owes an account, in wei."""

    def hide(self, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest with which an account commits to a claim."""


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor that does nothing: what others do is a method of the job's time for it.

    Attributes:
        name: whose calls they are.
        address: the account that sends them.
    """

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

    def enter(self, view: View) -> Iterator[Call]:
        """Yield the call that joins late, after claims were shown, if this is the time for it."""
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
            yield self.call("collect", view.tournament.job_id)

    def call(self, name: str, *args: object, value_wei: int = 0) -> Call:
        """Return a call from the actor's account."""
        return Call(name, self.address, args, value_wei, self.name)


@dataclass(frozen=True, slots=True)
class Player(Actor):
    """A provider that joins with its claim, and defends it with every move that there is.

    The name of a player begins with its strategy.

    Attributes:
        run: what it has run.
        salt: hides its claim; a game deals out salts of its own.
    """

    run: Testimony
    salt: Digest = ZERO

    @property
    def claim(self) -> Digest:
        """The top of the history that it claims."""
        return self.run.history.top

    def commit(self, view: View) -> Iterator[Call]:
        """Join with a hidden claim."""
        if view.get_standing(self.address) is Standing.NONE:
            digest = view.hide(self.address, self.claim, self.salt)
            known = view.tournament
            args = (known.job_id, digest, view.named)
            yield self.call("commit", *args, value_wei=known.terms.bond_wei)

    def reveal(self, view: View) -> Iterator[Call]:
        """Show the claim."""
        if view.get_standing(self.address) is Standing.COMMITTED:
            yield self.call("reveal", view.tournament.job_id, self.claim, self.salt)

    def join(self, view: View, top: Digest) -> Call:
        """Return the call that joins late with a claim."""
        known = view.tournament
        args = (known.job_id, top, view.named)
        return self.call("join", *args, value_wei=known.terms.bond_wei)

    def move(self, view: View, board: Board) -> Call | None:
        """Make the move that its side has, or say that the other side's time is over."""
        position, members = board.position, (board.pair.first, board.pair.second)
        side, place = members.index(self.address), (board.pair, position)
        if view.block > position.deadline:
            is_rival = side != position.mover
            return self.call("timeout", *place) if is_rival else None
        move = find_move(self.run, view.tournament.terms, board, side)
        if move is None:
            return None
        return self.call(move.call, *place, *move.args)


@dataclass(frozen=True, slots=True)
class Client(Actor):
    """Whoever begins the matches that are needed, ends those that nobody plays, and settles.

    Attributes:
        players: the players for whom it acts, if any.
    """

    players: Sequence[Player]

    def move(self, view: View, board: Board) -> Call | None:
        """Say that a side's time is over."""
        position = board.position
        if view.block <= position.deadline:
            return None
        return self.call("timeout", board.pair, position)

    def manage(self, view: View) -> Iterator[Call]:
        """Begin matches; settle if no claim is left to be met."""
        tops = {player.claim for player in self.players}
        own = tops.pop() if len(tops) == 1 else None
        for pair in choose_pairs(view.tournament, view.block, own):
            yield self.call("start_match", *view.tournament.name_match(pair))
        claims = list(view.tournament.get_claims())
        if len(claims) <= 1 and view.block > view.job.window_end:
            yield self.call("settle", view.tournament.job_id, *(claims or [ZERO]))


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
        return self.call("rule", board.pair, position, outcome)

    def collect(self, view: View) -> Iterator[Call]:
        """Collect nothing: rulings are not paid for."""
        del view
        yield from ()
