"""Cells: what games have in common, so that a search knows where it has been."""

from dataclasses import dataclass
from math import log, sqrt
from random import Random

from moot.contracts.model.types import Address
from moot.offchain.disputes.referee.board import Board
from moot.sim.adversary.scripts import GARBAGE, RIGHT
from moot.sim.adversary.tables import Table
from moot.sim.adversary.world import World

Cell = tuple[object, ...]
"""The stage of a job, where accounts stand, and how each match stands, without any value."""

_MOST_KEPT = 3_000
"""Worlds that are kept to go on from; each takes some kilobytes."""
_TRIED = 12
"""Kept worlds that are drawn, of which the most promising one is gone on from."""
_CURIOSITY = 0.4
_FEW = 4
"""Blocks, prizes and the like are told apart below this number."""


def find_cell(world: World) -> Cell:
    """Return the cell of a world at the beginning of a block."""
    job, block = world.job, world.block
    stages = (job.commit_deadline, job.reveal_deadline, job.window_end)
    accounts = tuple(
        (world.get_standing(account), _name_kind(said))
        for account, said in zip(world.table.accounts, world.said, strict=True)
    )
    boards = tuple(sorted(_describe(world, board) for board in world.tournament.boards.values()))
    tallies = (job.claims, min(job.meetings, _FEW), min(job.defeated, _FEW))
    return (sum(block > end for end in stages), accounts, tallies, boards)


def _name_kind(said: str) -> str:
    return said if said in {"", RIGHT, GARBAGE} else "wrong"


def _describe(world: World, board: Board) -> tuple[object, ...]:
    """Return the sides of a match, its phase, and what is left of both clocks."""
    it, table = board.position, world.table
    left = max(min(it.deadline - world.block, _FEW), -1)
    members = (board.pair.first, board.pair.second)
    sides = tuple(_name_side(table, world.said, account) for account in members)
    where = (int(it.phase), it.entered, it.mover, min(it.level, _FEW))
    return (*sides, *where, left, min(it.spare_blocks, _FEW))


def _name_side(table: Table, said: tuple[str, ...], account: Address) -> str:
    if account == table.honest:
        return "honest"
    return _name_kind(said[table.accounts.index(account)])


@dataclass(slots=True)
class _Kept:
    """A world that was kept, how often it was gone on from, and what came of it."""

    world: World
    visits: int = 0
    best: float = 0.0


class Archive:
    """The cells that a search has seen, with a world of each of the first of them."""

    def __init__(self) -> None:
        self.seen: dict[Cell, int] = {}
        self._kept: list[_Kept] = []
        self._places: dict[Cell, int] = {}
        self._total = 0

    def note(self, world: World) -> Cell:
        """Count a world, and keep it if its cell is new and there is room; return the cell."""
        cell = find_cell(world)
        count = self.seen.get(cell, 0)
        self.seen[cell] = count + 1
        if count == 0 and len(self._kept) < _MOST_KEPT and not world.is_closed:
            self._places[cell] = len(self._kept)
            self._kept.append(_Kept(world.fork()))
        return cell

    def choose(self, random: Random) -> World | None:
        """Return a world to go on from: one of the most promising, or of those seldom tried."""
        if not self._kept:
            return None
        self._total += 1
        drawn = [random.choice(self._kept) for _ in range(_TRIED)]
        best = max(drawn, key=self._rate)
        best.visits += 1
        return best.world.fork()

    def _rate(self, kept: _Kept) -> float:
        """Return the upper confidence bound of what may come of a kept world."""
        return kept.best + _CURIOSITY * sqrt(log(1 + self._total) / (1 + kept.visits))

    def reward(self, cells: list[Cell], value: float) -> None:
        """Tell the worlds of cells through which a game went what has come of it."""
        for cell in cells:
            place = self._places.get(cell)
            if place is not None:
                self._kept[place].best = max(self._kept[place].best, value)
