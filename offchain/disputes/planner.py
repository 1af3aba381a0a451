"""The planner of calls about a job: a function of the chain's events and of one's own runs.

A plan asks no node and sends nothing. The calls that are most urgent come first, so that whoever
sends them may stop anywhere, look at the chain again, and make a new plan.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.model.types import NOBODY, ZERO, Address, Job, Store, Terms
from contracts.model.words import hash_commitment
from contracts.reasons import Outcome, Phase, Standing, Status
from offchain.commitments.tree import Digest
from offchain.disputes.board import Board
from offchain.disputes.pairing import choose_pairs
from offchain.disputes.players import find_move
from offchain.disputes.referee import Call
from offchain.disputes.tournament import Tournament
from offchain.errors import VerifierError

if TYPE_CHECKING:
    from offchain.disputes.game import Player

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
class Planner:
    """Plans for some players of a job, and for whoever begins matches, ends them and settles.

    Attributes:
        store: an empty one of the referee's, which binds commitments to it.
        job_id: the number of the job.
        terms: its terms.
        players: the providers, each with the salt of its commitment.
        client: the account that begins matches and settles.
        verifier: the account that posts the bounded verifier's rulings.
        ruler: the bounded verifier's decision about a match, if it is asked here.
    """

    store: Store
    job_id: int
    terms: Terms
    players: Sequence[tuple["Player", Digest]]
    client: Address
    verifier: Address = NOBODY
    ruler: Callable[[Board], Outcome] | None = None

    def plan(self, view: View) -> Iterator[Planned]:
        """Yield the calls that there is a reason for, the most urgent first."""
        if view.job.status is not Status.OPEN:
            yield from self._collect(view)
        elif view.block <= view.job.commit_deadline:
            yield from self._commit(view)
        elif view.block <= view.job.reveal_deadline:
            yield from self._reveal(view)
        else:
            yield from self.move_all(view)
            yield from self._begin(view)
            yield from self._settle(view)

    def _list_standing(self, view: View, standing: Standing) -> Iterator[tuple["Player", Digest]]:
        for player, salt in self.players:
            if view.standings[player.address] is standing:
                yield player, salt

    def _commit(self, view: View) -> Iterator[Planned]:
        for player, salt in self._list_standing(view, Standing.NONE):
            top = player.run.history.top
            digest = hash_commitment(self.store, self.job_id, player.address, top, salt)
            args = (self.job_id, digest)
            yield _join(player, Call("commit", player.address, args, self.terms.bond_wei))

    def _reveal(self, view: View) -> Iterator[Planned]:
        for player, salt in self._list_standing(view, Standing.COMMITTED):
            args = (self.job_id, player.run.history.top, salt)
            yield _join(player, Call("reveal", player.address, args))

    def _collect(self, view: View) -> Iterator[Planned]:
        accounts = {"client": self.client} | {p.name: p.address for p, _ in self.players}
        for name, address in accounts.items():
            if view.debts_wei[address]:
                yield Planned("payout", name, Call("collect", address, (self.job_id,)))

    def move_all(self, view: View) -> Iterator[Planned]:
        """Go on with all matches, in the order in which one's own clocks run out.

        All else can wait. Of two calls that would defeat one member the second would be refused.
        """
        boards = view.tournament.boards.values()
        decided: set[Address] = set()
        for board in sorted(boards, key=lambda board: self._get_urgency(board, view.block)):
            planned = self._move(board, view.block)
            losers = _find_losers(board, planned.call) if planned else set()
            if planned is not None and decided.isdisjoint(losers):
                decided |= losers
                yield planned

    def _get_urgency(self, board: Board, block: int) -> tuple[bool, int]:
        deadline = board.position.deadline
        mover = (board.pair.first, board.pair.second)[board.position.mover]
        is_own = any(player.address == mover for player, _ in self.players)
        return block > deadline or not is_own, deadline

    def _move(self, board: Board, block: int) -> Planned | None:
        """Return the call that goes on with a match: a move, a ruling, or that time is over."""
        stage, place = STAGES[board.position.phase], (board.pair, board.position)
        mover = board.position.mover
        addresses = (board.pair.first, board.pair.second)
        players = {player.address: player for player, _ in self.players}
        if block > board.position.deadline:
            rival = addresses[1 - mover]
            name = players[rival].name if rival in players else "client"
            sender = rival if rival in players else self.client
            return Planned(stage, name, Call("timeout", sender, place))
        if board.position.phase is Phase.VERIFIER and self.ruler is not None:
            try:
                outcome = self.ruler(board)
            except VerifierError:
                return None
            return Planned(stage, "verifier", Call("rule", self.verifier, (*place, outcome)))
        for side in (mover, 1 - mover):
            player = players.get(addresses[side])
            move = find_move(player.run, self.terms, board, side) if player else None
            if player is not None and move is not None:
                call = Call(move.call, player.address, (*place, *move.args))
                return Planned(stage, player.name, call)
        return None

    def _begin(self, view: View) -> Iterator[Planned]:
        """Begin the matches that are needed."""
        tops = {player.run.history.top for player, _ in self.players}
        own = tops.pop() if len(tops) == 1 else None
        for pair in choose_pairs(view.tournament, view.block, own):
            call = Call("start_match", self.client, view.tournament.name_match(pair))
            yield Planned("history", "client", call)

    def _settle(self, view: View) -> Iterator[Planned]:
        claims = list(view.tournament.get_claims())
        if len(claims) <= 1 and view.block > view.job.window_end:
            args = (self.job_id, *(claims or [ZERO]))
            yield Planned("payout", "client", Call("settle", self.client, args))


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


def _join(player: "Player", call: Call) -> Planned:
    return Planned("joining", player.name, call)
