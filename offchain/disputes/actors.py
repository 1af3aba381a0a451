"""The actors of a job: each says what it would do now, from what the chain shows and its own run.

An actor asks no node, sends nothing and remembers nothing that the chain does not. A new kind of
actor is a subclass that overrides what it does otherwise.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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

STAGES = {
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


@dataclass(frozen=True, slots=True)
class View:
    """The state of a job that the chain shows at one moment.

    Attributes:
        job: the job.
        block: the first block in which a call can be.
        tournament: claims and matches, from the job's events.
        standings: where accounts stand, while the job is joined.
        debts_wei: what accounts are owed, once it is closed.
    """

    job: Job
    block: int
    tournament: Tournament
    standings: Mapping[Address, Standing]
    debts_wei: Mapping[Address, int]

    def count_idle_blocks(self) -> int:
        """Return how many blocks pass until a clock has run out, or a window is over."""
        job, tournament = self.job, self.tournament
        ends = [board.position.deadline for board in tournament.boards.values()]
        ends += [*tournament.list_windows(), job.commit_deadline, job.reveal_deadline]
        return min(e for e in [*ends, job.window_end] if e >= self.block) + 1 - self.block


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned call, with its stage and its player."""

    stage: str
    player: str
    call: Call


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

    def commit(self, view: View) -> Iterator[Planned]:
        """Yield what there is to do while claims are hidden."""
        del view
        yield from ()

    def reveal(self, view: View) -> Iterator[Planned]:
        """Yield what there is to do while claims are shown."""
        del view
        yield from ()

    def move(self, view: View, board: Board) -> Planned | None:
        """Return the call that goes on with a match, if it is this actor's."""
        del view, board
        return None

    def manage(self, view: View) -> Iterator[Planned]:
        """Yield what there is to do for the tournament, and for the job's end."""
        del view
        yield from ()

    def collect(self, view: View) -> Iterator[Planned]:
        """Yield what there is to do once the job is closed."""
        if view.debts_wei.get(self.address):
            yield self._plan("payout", "collect", self.docket.job_id)

    def _plan(self, stage: str, call: str, *args: object, value_wei: int = 0) -> Planned:
        return Planned(stage, self.name, Call(call, self.address, args, value_wei))


@dataclass(frozen=True, slots=True)
class Member(Actor):
    """A provider that joins with its claim, and defends it with every move that there is.

    Attributes:
        run: what it has run.
        salt: hides its claim.
    """

    run: Testimony
    salt: Digest

    def commit(self, view: View) -> Iterator[Planned]:
        """Join with a hidden claim."""
        docket = self.docket
        if view.standings[self.address] is Standing.NONE:
            claim = (self.address, self.run.history.top, self.salt)
            digest = hash_commitment(docket.store, docket.job_id, *claim)
            bond_wei = docket.terms.bond_wei
            yield self._plan("joining", "commit", docket.job_id, digest, value_wei=bond_wei)

    def reveal(self, view: View) -> Iterator[Planned]:
        """Show the claim."""
        if view.standings[self.address] is Standing.COMMITTED:
            args = (self.docket.job_id, self.run.history.top, self.salt)
            yield self._plan("joining", "reveal", *args)

    def move(self, view: View, board: Board) -> Planned | None:
        """Make the move that its side has, or say that the other side's time is over."""
        position, members = board.position, (board.pair.first, board.pair.second)
        side, place = members.index(self.address), (board.pair, position)
        if view.block > position.deadline:
            is_rival = side != position.mover
            return self._plan(STAGES[position.phase], "timeout", *place) if is_rival else None
        move = find_move(self.run, self.docket.terms, board, side)
        if move is None:
            return None
        return self._plan(STAGES[position.phase], move.call, *place, *move.args)


@dataclass(frozen=True, slots=True)
class Client(Actor):
    """Whoever begins the matches that are needed, ends those that nobody plays, and settles.

    Attributes:
        list_claims: returns the tops of the claims that it defends, if any.
    """

    list_claims: Callable[[], set[Digest]]

    def move(self, view: View, board: Board) -> Planned | None:
        """Say that a side's time is over."""
        position = board.position
        if view.block <= position.deadline:
            return None
        return self._plan(STAGES[position.phase], "timeout", board.pair, position)

    def manage(self, view: View) -> Iterator[Planned]:
        """Begin matches; settle if no claim is left to be met."""
        tops = self.list_claims()
        own = tops.pop() if len(tops) == 1 else None
        for pair in choose_pairs(view.tournament, view.block, own):
            yield self._plan("history", "start_match", *view.tournament.name_match(pair))
        claims = list(view.tournament.get_claims())
        if len(claims) <= 1 and view.block > view.job.window_end:
            yield self._plan("payout", "settle", self.docket.job_id, *(claims or [ZERO]))


@dataclass(frozen=True, slots=True)
class Caller(Actor):
    """Whoever posts the bounded verifier's rulings.

    Attributes:
        ruler: the bounded verifier's decision about a match.
    """

    ruler: Callable[[Board], Outcome]

    def move(self, view: View, board: Board) -> Planned | None:
        """Rule, if the match waits for it and the verifier can tell."""
        position = board.position
        if position.phase is not Phase.VERIFIER or view.block > position.deadline:
            return None
        try:
            outcome = self.ruler(board)
        except VerifierError:
            return None
        return self._plan(STAGES[position.phase], "rule", board.pair, position, outcome)

    def collect(self, view: View) -> Iterator[Planned]:
        """Collect nothing: rulings are not paid for."""
        del view
        yield from ()
