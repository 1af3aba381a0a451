"""A whole game: a job is opened, providers join it, matches are played, and everybody is paid.

The game only carries messages: what a player does is `players.find_move`, what is allowed is the
referee's. It remembers nothing that the chain does not: one that is made anew with the number of
the job goes on where the other was stopped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from contracts.model.types import NOBODY, ZERO, Address, Event, Terms
from contracts.reasons import LeafMode, Outcome, Phase, Reason, Standing, Status
from offchain.chain import Receipt
from offchain.commitments.tree import Digest
from offchain.disputes.board import Board
from offchain.disputes.players import find_move
from offchain.disputes.referee import Referee
from offchain.disputes.tournament import Ended, Tournament
from offchain.errors import RefereeError, Reverted
from offchain.providers.run import Run
from offchain.providers.task import Task

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

LEFT = frozenset({Standing.REVEALED, Standing.LATE, Standing.PAID})
"""Where a member stands whose claim has not been defeated."""

OVERTAKEN = frozenset({Reason.STALE, Reason.MATCH_EXISTS, Reason.CLAIM_MEETING, Reason.CLOSED})
"""Why a call is refused that somebody else has made already, or made pointless."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """A job's money and time: wei and blocks."""

    bond_wei: int = 10**18
    reward_wei: int = 10**17
    commit_blocks: int = 16
    reveal_blocks: int = 16
    window_blocks: int = 16
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


Ruler = Callable[[Terms, Board, "Game"], Outcome]
"""The bounded verifier's decision: whose output is right, if anybody's."""


@dataclass
class Game:
    """A job on a referee, with its players in the order in which they join.

    Attributes:
        referee: the contract or the model.
        task: what is agreed.
        client: opens the job, pays for it, starts its matches and settles it.
        players: the providers.
        stakes: money and clocks.
        leaf_mode: who decides the leaves.
        verifier: the account that posts the bounded verifier's rulings.
        ruler: the bounded verifier.
        seed: source of the salts.
        job_id: the number of the job; -1 until it is open.
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

    def play(self) -> Iterator[Played]:
        """Play the game to its end, one accepted call at a time."""
        yield from self._open()
        while True:
            has_acted = False
            for played in self._take_turn():
                has_acted = True
                if played is not None:
                    yield played
            if not has_acted and self.referee.job(self.job_id).status is not Status.OPEN:
                return
            if not has_acted:
                self._wait()

    def address_of(self, player: str) -> Address:
        """Return the account of a player, the client or the verifier."""
        accounts = {"client": self.client, "verifier": self.verifier}
        return (accounts | {p.name: p.address for p in self.players})[player]

    def find_player(self, address: Address) -> Player | None:
        """Return the player with an account, if it is one of these."""
        return next((player for player in self.players if player.address == address), None)

    @property
    def ended(self) -> Sequence[Ended]:
        """The matches that have ended, in order."""
        return self._look().ended

    def get_winners(self) -> list[str]:
        """Return the names of the members that are left with the winning claim."""
        standings = {p.name: self.referee.member(self.job_id, p.address) for p in self.players}
        return [name for name, member in standings.items() if member.standing in LEFT]

    @cached_property
    def terms(self) -> Terms:
        """The terms of the job."""
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
            window_blocks=stakes.window_blocks,
            clock_blocks=stakes.clock_blocks,
            increment_blocks=stakes.increment_blocks,
        )

    @cached_property
    def _tournament(self) -> Tournament:
        return Tournament(self.job_id, self.terms)

    def _look(self) -> Tournament:
        """Return the tournament as it stands on the chain."""
        self._tournament.read(self.referee.events(self.job_id))
        return self._tournament

    def _send(
        self, stage: str, player: str, call: str, *args: object, value_wei: int = 0
    ) -> Played | None:
        """Make a call; None if somebody else has been faster."""
        sender = self.address_of(player)
        try:
            outcome = self.referee.transact(call, *args, sender=sender, value_wei=value_wei)
        except (RefereeError, Reverted) as refusal:
            if refusal.reason not in OVERTAKEN:
                raise
            return None
        return Played(stage, player, call, outcome.events, outcome.receipt)

    def _get_next_block(self) -> int:
        """Return the first block in which a call can be."""
        return self.referee.block_number() + 1

    def _open(self) -> Iterator[Played]:
        if self.job_id < 0:
            reward = self.stakes.reward_wei
            opened = self._send("joining", "client", "open_job", self.terms, value_wei=reward)
            assert opened is not None, "nobody can be faster"
            self.job_id = int(str(opened.events[0].args[0]))
            yield opened

    def _take_turn(self) -> Iterator[Played | None]:
        """Let everybody do once what the time of the job is for."""
        job, block = self.referee.job(self.job_id), self._get_next_block()
        if job.status is not Status.OPEN:
            yield from self._collect()
        elif block <= job.commit_deadline:
            yield from self._commit()
        elif block <= job.reveal_deadline:
            yield from self._reveal()
        else:
            yield from self._play_matches()
            claims = list(self._look().get_claims())
            job = self.referee.job(self.job_id)
            if len(claims) <= 1 and self._get_next_block() > job.window_end:
                yield self._send("payout", "client", "settle", self.job_id, *(claims or [ZERO]))

    def _list_standing(self, standing: Standing) -> list[tuple[Player, Digest]]:
        """Return the players that stand somewhere, with the salts of their commitments."""
        spawned = np.random.SeedSequence(self.seed).spawn(len(self.players))
        salts = [salt.generate_state(8).tobytes() for salt in spawned]
        return [
            (player, salt)
            for player, salt in zip(self.players, salts, strict=True)
            if self.referee.member(self.job_id, player.address).standing is standing
        ]

    def _commit(self) -> Iterator[Played | None]:
        for player, salt in self._list_standing(Standing.NONE):
            top = player.run.history.top
            digest = self.referee.commitment(self.job_id, player.address, top, salt)
            args, bond = (self.job_id, digest), self.stakes.bond_wei
            yield self._send("joining", player.name, "commit", *args, value_wei=bond)

    def _reveal(self) -> Iterator[Played | None]:
        for player, salt in self._list_standing(Standing.COMMITTED):
            args = (self.job_id, player.run.history.top, salt)
            yield self._send("joining", player.name, "reveal", *args)

    def _play_matches(self) -> Iterator[Played | None]:
        """Begin the matches that can begin, and move once in each, the most urgent first."""
        for pair in list(self._look().find_pairs(self._get_next_block())):
            args = self._look().name_match(pair)
            yield self._send("history", "client", "start_match", *args)
        boards = self._look().boards
        for pair in sorted(boards, key=lambda pair: boards[pair].position.deadline):
            board = self._look().boards.get(pair)
            if board is not None:
                yield from self._move(board)

    def _move(self, board: Board) -> Iterator[Played | None]:
        """Let the side to move do so, or whoever can end the match, or the clock."""
        stage, place = STAGES[board.position.phase], (board.pair, board.position)
        mover = board.position.mover
        addresses = (board.pair.first, board.pair.second)
        if self._get_next_block() > board.position.deadline:
            rival = self.find_player(addresses[1 - mover])
            yield self._send(stage, rival.name if rival else "client", "timeout", *place)
            return
        if board.position.phase is Phase.VERIFIER and self.ruler is not None:
            outcome = self.ruler(self.terms, board, self)
            yield self._send(stage, "verifier", "rule", *place, outcome)
            return
        for side in (mover, 1 - mover):
            player = self.find_player(addresses[side])
            move = find_move(player.run, self.terms, board, side) if player else None
            if player is not None and move is not None:
                yield self._send(stage, player.name, move.call, *place, *move.args)
                return

    def _wait(self) -> None:
        """Let time pass until a clock has run out, or a window is over."""
        tournament, job = self._look(), self.referee.job(self.job_id)
        ends = [board.position.deadline for board in tournament.boards.values()]
        ends += [*tournament.list_windows(), job.commit_deadline, job.reveal_deadline]
        following = self._get_next_block()
        end = min(end for end in [*ends, job.window_end] if end >= following)
        self.referee.mine(end + 1 - following)

    def _collect(self) -> Iterator[Played | None]:
        for name in ("client", *(player.name for player in self.players)):
            if self.referee.debt(self.job_id, self.address_of(name)):
                yield self._send("payout", name, "collect", self.job_id)
