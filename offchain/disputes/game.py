"""A whole game: a job is opened, providers join it, matches are played, and everybody is paid.

The game only carries messages: what a player does is `players.find_move`, what is allowed is the
referee's. Whoever lets its clock run out is timed out by its rival.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from contracts.model.checks import is_challengers_turn
from contracts.model.moves import get_time_left
from contracts.model.referee import get_rivals
from contracts.model.types import NOBODY, ZERO, Address, Event, Job, Match, Terms
from contracts.reasons import Ending, LeafMode, Phase, Standing
from offchain.chain import Receipt
from offchain.disputes.board import Board, read_board
from offchain.disputes.players import Move, find_move
from offchain.disputes.referee import Referee
from offchain.providers.run import Run
from offchain.providers.task import Task

STAGES = {
    Phase.NONE: "payout",
    Phase.HISTORY: "history",
    Phase.ENTER_INTERVAL: "history",
    Phase.INTERVAL: "history",
    Phase.ENTER_TRACE: "trace",
    Phase.TRACE: "trace",
    Phase.ENTER_OPERATOR: "tensor",
    Phase.TENSOR: "tensor",
    Phase.CHUNK: "tensor",
    Phase.FOLD: "fold",
    Phase.LEAF: "leaf",
    Phase.ENTER_STATE: "tensor",
    Phase.STATE: "tensor",
    Phase.SINK: "leaf",
    Phase.VERIFIER: "leaf",
}
"""The stage of a dispute to which a move in each phase of the contract is counted."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """A job's money and time: wei and blocks."""

    bond_wei: int = 10**18
    reward_wei: int = 10**17
    commit_blocks: int = 16
    reveal_blocks: int = 16
    clock_blocks: int = 64
    increment_blocks: int = 4


@dataclass(frozen=True, slots=True)
class Player:
    """A provider at the table: its name begins with its strategy."""

    name: str
    address: Address
    run: Run


@dataclass(frozen=True, slots=True)
class Played:
    """One accepted call: whose, in which stage, and what it announced and cost."""

    stage: str
    player: str
    call: str
    events: tuple[Event, ...]
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A match that is over: its state before the last move, and how it ended (None: void)."""

    match: Match
    board: Board
    winner: int | None
    loser: int | None
    ending: Ending


Ruler = Callable[[Job, Match, Board, "Game"], bool]
"""The bounded verifier's decision: whether the defender's value is upheld."""


@dataclass
class Game:
    """A job on a referee, with its players in the order in which they join.

    Attributes:
        referee: the contract or the model.
        task: what is agreed.
        client: opens the job, pays for it and settles it.
        players: the providers.
        stakes: money and clocks.
        leaf_mode: who decides the leaves.
        verifier: the account that posts the bounded verifier's rulings.
        ruler: the bounded verifier.
        seed: source of the salts.
    """

    referee: Referee
    task: Task
    client: Address
    players: Sequence[Player]
    stakes: Stakes = field(default_factory=Stakes)
    leaf_mode: LeafMode = LeafMode.SCALAR
    verifier: Address = NOBODY
    ruler: Ruler | None = None
    seed: int = 0
    job_id: int = -1
    ended: list[Ended] = field(default_factory=list)

    def play(self) -> Iterator[Played]:
        """Play the game to its end, one accepted call at a time."""
        yield from self._join()
        while True:
            job = self.referee.job(self.job_id)
            if job.is_settled:
                break
            if job.match is not None:
                yield self._move(job, job.match)
            elif get_rivals(job):
                yield self._send("history", "client", "start_match", self.job_id)
            else:
                yield self._send("payout", "client", "settle", self.job_id)
        yield from self._withdraw()

    def address_of(self, player: str) -> Address:
        """Return the account of a player, the client or the verifier."""
        accounts = {"client": self.client, "verifier": self.verifier}
        return (accounts | {p.name: p.address for p in self.players})[player]

    def _send(
        self, stage: str, player: str, call: str, *args: object, value_wei: int = 0
    ) -> Played:
        sender = self.address_of(player)
        outcome = self.referee.transact(call, *args, sender=sender, value_wei=value_wei)
        return Played(stage, player, call, outcome.events, outcome.receipt)

    def make_terms(self) -> Terms:
        """Return the terms of the job."""
        header, data, stakes = self.task.commitment.header, self.task.data_tree, self.stakes
        return Terms(
            operators=header.operators,
            state_slots=header.state_slots,
            batch_slots=header.batch_slots,
            layout=header.layout,
            program_top=header.top,
            start_root=self.task.start_root,
            data_top=data.top if data else ZERO,
            steps=self.task.steps,
            checkpoint_every=self.task.checkpoint_every,
            leaf_mode=self.leaf_mode,
            verifier=self.verifier,
            bond_wei=stakes.bond_wei,
            commit_blocks=stakes.commit_blocks,
            reveal_blocks=stakes.reveal_blocks,
            clock_blocks=stakes.clock_blocks,
            increment_blocks=stakes.increment_blocks,
        )

    def _join(self) -> Iterator[Played]:
        reward = self.stakes.reward_wei
        opened = self._send("joining", "client", "open_job", self.make_terms(), value_wei=reward)
        yield opened
        self.job_id = int(str(opened.events[0].args[0]))
        spawned = np.random.SeedSequence(self.seed).spawn(len(self.players))
        tops = [player.run.history.top for player in self.players]
        salts = [salt.generate_state(8).tobytes() for salt in spawned]
        for player, top, salt in zip(self.players, tops, salts, strict=True):
            digest = self.referee.commitment(self.job_id, player.address, top, salt)
            bond = self.stakes.bond_wei
            yield self._send("joining", player.name, "commit", self.job_id, digest, value_wei=bond)
        self._wait_until(self.referee.job(self.job_id).commit_deadline)
        for player, top, salt in zip(self.players, tops, salts, strict=True):
            yield self._send("joining", player.name, "reveal", self.job_id, top, salt)
        self._wait_until(self.referee.job(self.job_id).reveal_deadline)

    def _wait_until(self, block: int) -> None:
        self.referee.mine(max(0, block - self.referee.block_number()))

    def _move(self, job: Job, match: Match) -> Played:
        """Let the side to move do so, or whoever can end the match, or the clock."""
        stage, position = STAGES[match.phase], self.referee.position(self.job_id, match)
        board = read_board(
            self.referee.events(self.job_id), match, self.task.commitment.header.operators
        )
        if match.phase is Phase.VERIFIER and self.ruler is not None:
            upheld = self.ruler(job, match, board, self)
            played = self._send(stage, "verifier", "rule", self.job_id, position, upheld)
            self._note(match, board, played)
            return played
        for seat in self._order(match):
            move = find_move(self.players[seat].run, job, seat, board)
            if move is not None:
                return self._make(stage, seat, move, match, board)
        return self._time_out(job, match, board)

    @staticmethod
    def _order(match: Match) -> tuple[int, int]:
        """Return the seats, the one whose clock is running first."""
        seats = (match.defender, match.challenger)
        return seats[::-1] if is_challengers_turn(match) else seats

    def _make(self, stage: str, seat: int, move: Move, match: Match, board: Board) -> Played:
        position = self.referee.position(self.job_id, match)
        name = self.players[seat].name
        played = self._send(stage, name, move.call, self.job_id, position, *move.args)
        self._note(match, board, played)
        return played

    def _time_out(self, job: Job, match: Match, board: Board) -> Played:
        left = get_time_left(job, match, self.referee.block_number())
        self.referee.mine(left + 1)
        rival = self._order(match)[1]
        args = (self.job_id, self.referee.position(self.job_id, match))
        played = self._send(STAGES[match.phase], self.players[rival].name, "timeout", *args)
        self._note(match, board, played)
        return played

    def _note(self, match: Match, board: Board, played: Played) -> None:
        for event in played.events:
            if event.name == "MatchEnded":
                _, _, winner, loser, ending = (int(str(arg)) for arg in event.args)
                self.ended.append(Ended(match, board, winner, loser, Ending(ending)))
            elif event.name == "Voided":
                self.ended.append(Ended(match, board, None, None, Ending.VERIFIER))

    def _withdraw(self) -> Iterator[Played]:
        for name in ("client", *(player.name for player in self.players)):
            if self.referee.credit(self.address_of(name)):
                yield self._send("payout", name, "withdraw")

    def get_winners(self) -> list[str]:
        """Return the names of the members that are left with the winning claim."""
        members = self.referee.job(self.job_id).members
        return [
            player.name
            for player, member in zip(self.players, members, strict=True)
            if member.standing is Standing.REVEALED
        ]
