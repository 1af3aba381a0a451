"""The world of a game: the referee's model, the honest provider, and the block that is being made.

In each block the honest provider plans its calls from what the block before has left. The adversary
sees them, and makes calls of its own before and after them; at some tables it can keep them out for
some blocks, which is less than clocks have room for. A world is
forked to go on from it in several ways.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from moot.contracts.model.types import Address, Event, Job, Pair
from moot.contracts.reasons import Revert, Standing, Status
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.game import is_overtaken
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.port import Call, ModelReferee
from moot.sim.adversary.tables import Table

Choice = tuple[Any, ...]
"""What an adversary does, by its name and a few small values; the same wherever it is played."""

Path = tuple["Path", Choice] | None
"""All choices of a game so far: those before the last, and the last."""


@dataclass(slots=True)
class World:
    """A game as it stands.

    Attributes:
        table: the job, and who takes part.
        referee: the model, whose latest block is the one that is being made.
        view: what the honest provider sees.
        party: the honest provider.
        pending: its calls for this block, as long as they are not made.
        said: the claims that the adversary's accounts have joined with, by their names.
        path: the adversary's choices.
        calls: all accepted calls, with their blocks; None where nobody asks for them.
        refused: why a call of the honest provider was refused that nobody has overtaken.
        margin: the least share of its clock that the honest provider had left when it moved.
        moves: how many calls were accepted.
        closed_block: in which the job was closed; 0 if it is open.
        skips: whether blocks are passed over in which an arena waits, since there is nothing to do.
        idle: how much of the log was known when the honest provider began to wait, and until when.
        held: for how many blocks the honest provider's calls were kept out.
        print: tells games with other calls, or calls in other blocks, apart.
    """

    table: Table
    referee: ModelReferee
    view: ChainView
    party: Party
    pending: tuple[Call, ...] = ()
    said: tuple[str, ...] = ()
    path: Path = None
    calls: list[tuple[int, Call]] | None = None
    refused: str = ""
    margin: float = 1.0
    moves: int = 0
    closed_block: int = 0
    print: int = 0
    held: int = 0
    skips: bool = False
    idle: tuple[int, int] = (0, 0)

    @property
    def block(self) -> int:
        """The block that is being made."""
        return self.referee.block_number()

    @property
    def job(self) -> Job:
        """The job."""
        return self.referee.store.jobs[0]

    @property
    def tournament(self) -> Tournament:
        """The job's claims and matches."""
        return self.view.tournament

    @property
    def log(self) -> Sequence[Event]:
        """What was announced of the job."""
        return self.referee.events(0)

    @property
    def is_closed(self) -> bool:
        """Whether the job is."""
        return self.job.status is not Status.OPEN

    def fork(self) -> "World":
        """Return a world that goes its own way."""
        referee = self.referee.fork()
        view = ChainView(referee, self.view.tournament.fork(), self.view.named)
        calls = None if self.calls is None else self.calls.copy()
        kept = (self.pending, self.said, self.path, calls, self.refused, self.margin, self.moves)
        twin = World(self.table, referee, view, copy(self.party), *kept)
        twin.skips, twin.idle = self.skips, self.idle
        twin.closed_block, twin.print, twin.held = self.closed_block, self.print, self.held
        return twin

    def attempt(self, call: Call) -> bool:
        """Make a call in this block; return whether it was accepted."""
        try:
            self.referee.make(call)
        except Revert:
            return False
        self._note(call)
        return True

    def release(self) -> None:
        """Let the honest provider's calls into the block."""
        pending, self.pending = self.pending, ()
        for call in pending:
            try:
                self.referee.make(call)
            except Revert as refusal:
                if not is_overtaken(refusal):
                    self.refused = f"{call.name}: {refusal.reason}"
                continue
            self._note(call)

    def hold(self) -> None:
        """Keep the honest provider's calls out of the block; it plans them again."""
        self.pending, self.held = (), self.held + 1

    def advance(self) -> None:
        """End the block, and begin the next one."""
        if self.pending:
            self.release()
        if self._is_idle():
            self.referee.mine(1)
            return
        view = self.view.look()
        self.pending = tuple(self.party.act(view))
        if self.skips and not self.pending and not self.is_closed:
            self.idle = (len(self.log), view.block + view.count_idle_blocks())
        for call in self.pending:
            if call.name not in _ELSEWHERE and (match := self.tournament.boards.get(call.args[0])):
                left = (match.position.deadline - view.block) / match.position.clock_blocks
                self.margin = min(self.margin, max(left, 0.0))
        self.referee.mine(1)

    def _is_idle(self) -> bool:
        """Whether the honest provider would wait, as in an arena: nothing has happened or ended."""
        known, until = self.idle
        return len(self.log) == known and self.block + 1 < until

    def _note(self, call: Call) -> None:
        self.moves += 1
        match = call.args[0]
        said = self.referee.match(match) if isinstance(match, Pair) else call.args[1:]
        self.print = hash((self.print, self.block, call.name, call.sender, said))
        if self.calls is not None:
            self.calls.append((self.block, call))
        if self.is_closed and not self.closed_block:
            self.closed_block = self.block
        self.view.tournament.read(self.referee.events(0))

    @property
    def opened_block(self) -> int:
        """The block in which the job was opened."""
        return self.table.place.block + 1

    def get_standing(self, account: Address) -> Standing:
        """Return where an account stands."""
        return self.referee.member(0, account).standing


_ELSEWHERE = frozenset({"commit", "reveal", "join", "start_match", "settle", "collect", "timeout"})
"""Calls that are none of a match's moves."""


def begin(table: Table, *, remembers: bool = True, records: bool = False) -> World:
    """Return the game of a table in the first block after its job was opened.

    Args:
        table: the table.
        remembers: whether the honest provider computes each move once for all games.
        records: whether calls are kept.
    """
    referee = table.open()
    opening = Call("open_job", table.client, (table.terms,), table.reward_wei, "client")
    referee.mine(1)
    referee.make(opening)
    tournament = Tournament(0, table.terms, referee.arithmetic)
    world = World(table, referee, ChainView(referee, tournament), table.seat(remembers=remembers))
    world.skips = remembers and table.patience is None
    world.said = ("",) * len(table.accounts)
    if records:
        world.calls = [(world.block, opening)]
    world.advance()
    return world


def list_path(world: World) -> list[Choice]:
    """Return all choices of a world's game, the first one first."""
    choices, path = [], world.path
    while path is not None:
        path, choice = path
        choices.append(choice)
    return choices[::-1]
