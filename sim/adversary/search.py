"""The search of a part: so many games at one table, drawn and guided, each judged at its end.

A *game* is a path from the job's opening to its end: all of its calls are legal, each was made on
the model of the referee, and it was judged. A game that goes on from a kept world has that world's
calls, too; they are not made again. A part's games depend on its seed and number alone.
"""

import time
from dataclasses import dataclass, field
from random import Random

from moot.contracts.reasons import Ending
from moot.sim.adversary.cells import Archive, Cell
from moot.sim.adversary.judge import Verdict
from moot.sim.adversary.play import Tally, count, draw_temper, play_out
from moot.sim.adversary.tables import Table
from moot.sim.adversary.world import Choice, World, begin, list_path

_DRAWN = 0.35
"""The share of games that begin at the job's opening; the others go on from a kept world."""
_MOST_FOUND = 5
"""Games that are kept of those that break a promise."""
_SAMPLED = 500
"""One game in so many, and a part's last, are told by their choices, to be judged again."""


@dataclass(frozen=True, slots=True)
class Found:
    """A game that breaks a promise, or one that was drawn: its number, its choices, its verdict."""

    game: int
    choices: tuple[Choice, ...]
    verdict: Verdict


@dataclass(slots=True)
class Part:
    """What a part has come to.

    Attributes:
        number: its table.
        games: how many were played.
        paths: how many of them differ in their accepted calls or the blocks of these.
        cells: how many abstract states were seen.
        calls: of all games, those of kept worlds counted in each game.
        made: of these, how many were made on the model.
        matches: matches that ended, by how.
        longest_calls, longest_blocks: of any game.
        least_margin: the least share of its clock that the honest provider had left when it moved.
        best_wei: the most that an adversary had beyond what it may have; at most 0.
        tally: what was tried, by kind.
        broken: how many games have broken a promise.
        found: the first of them.
        sampled: some others.
        seconds: of a core.
    """

    number: int
    games: int = 0
    paths: int = 0
    cells: int = 0
    calls: int = 0
    made: int = 0
    matches: dict[str, int] = field(default_factory=dict)
    longest_calls: int = 0
    longest_blocks: int = 0
    least_margin: float = 1.0
    best_wei: int | None = None
    tally: Tally = field(default_factory=Tally)
    broken: int = 0
    found: list[Found] = field(default_factory=list)
    sampled: list[Found] = field(default_factory=list)
    seconds: float = 0.0


def search(table: Table, seed: int, games: int, *, stops: bool = False) -> Part:
    """Play so many games at a table.

    Args:
        table: the table.
        seed: of the search; with the table's number it decides each game.
        games: how many.
        stops: whether the first game that breaks a promise ends the search.
    """
    started = time.process_time()
    random = Random(f"search {seed} {table.number}")  # noqa: S311 - not a secret
    part, archive, prints = Part(table.number), Archive(), set[int]()
    root = begin(table)
    for game in range(games):
        kept = None if random.random() < _DRAWN else archive.choose(random)
        world = kept or root.fork()
        verdict = _play(world, archive, random, part)
        prints.add(world.print)
        is_sampled = game % _SAMPLED == _SAMPLED - 1 or game == games - 1
        if (verdict.broken and len(part.found) < _MOST_FOUND) or is_sampled:
            found = Found(game, tuple(list_path(world)), verdict)
            (part.found if verdict.broken else part.sampled).append(found)
        if verdict.broken and stops:
            break
    part.paths, part.cells = len(prints), len(archive.seen)
    part.seconds = time.process_time() - started
    return part


def _play(world: World, archive: Archive, random: Random, part: Part) -> Verdict:
    """Play one game, count it, and tell the archive."""
    cells: list[Cell] = []
    before = world.moves
    verdict = play_out(
        world, draw_temper(random), random, part.tally, lambda it: cells.append(archive.note(it))
    )
    archive.reward(cells, rate(verdict, world))
    part.games += 1
    part.broken += bool(verdict.broken)
    part.calls += world.moves
    part.made += world.moves - before
    part.longest_calls = max(part.longest_calls, world.moves)
    part.longest_blocks = max(part.longest_blocks, verdict.blocks[0])
    part.least_margin = min(part.least_margin, world.margin)
    gain = verdict.adversary_wei[0] - verdict.adversary_wei[1]
    part.best_wei = gain if part.best_wei is None else max(part.best_wei, gain)
    for event in world.log:
        if event.name == "MatchEnded" and isinstance(ending := event.args[4], Ending):
            count(part.matches, ending.name.lower())
    return verdict


def rate(verdict: Verdict, world: World) -> float:
    """Return how near a game came to harm: late answers, a long job, money that is not lost."""
    if verdict.broken:
        return 2.0
    blocks, bound = verdict.blocks
    gained, allowed = verdict.adversary_wei
    kept = max(0.0, 1 + (gained - allowed) / world.table.terms.bond_wei)
    return 0.4 * (1 - world.margin) + 0.3 * blocks / bound + 0.3 * kept
