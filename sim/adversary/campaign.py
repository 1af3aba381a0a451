"""Campaigns: a search of any number of games, in parts that can be played anywhere, in any order.

A part is so many games at one table. It depends on the campaign's seed and its own number alone, so
that parts can be shared out among processes or machines, and a campaign goes on where it was.
"""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.adversary.broken import breaking, find_rule
from moot.sim.adversary.search import Part, search
from moot.sim.adversary.swaps import remembering, seldom_collecting
from moot.sim.adversary.tables import Shop, draw_table
from moot.sim.writing import open_lines

PART_GAMES = 5_000
"""Games of a part; the last one of a campaign may have fewer."""
_TABLES = 1_000_000
"""Numbers of tables that a seed has for itself."""

Progress = Callable[[str, int, int], None]
"""Is called with a name, how many games are played, and how many there will be."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is searched.

    Attributes:
        seed: decides all games.
        program: an example by its name, or a file of the user's.
        size: of an example.
        rule: a rule of the model that is broken, by its name; None for the sound model.
    """

    seed: int = 0
    program: str = "mlp"
    size: str = "tiny"
    rule: str | None = None

    def __post_init__(self) -> None:
        if self.rule is not None:
            find_rule(self.rule)

    def find_table(self, part: int) -> int:
        """Return the number of a part's table."""
        return self.seed * _TABLES + part


def list_parts(games: int) -> list[tuple[int, int]]:
    """Return the number and the games of each part of a campaign of so many games."""
    if games < 1:
        raise UsageError(f"{games} games are none; take 1 or more")
    return [
        (number, min(PART_GAMES, games - first))
        for number, first in enumerate(range(0, games, PART_GAMES))
    ]


def run_campaign(
    campaign: Campaign,
    games: int,
    *,
    processes: int = 1,
    path: Path | None = None,
    progress: Progress = lambda *_: None,
) -> list[Part]:
    """Play a campaign, and return its parts in their order.

    Args:
        campaign: what is searched.
        games: how many are played.
        processes: of this machine; the parts do not depend on it.
        path: a file that gets a line for each part; what it has of this campaign is not played
            again.
        progress: is called after each part.

    Raises:
        UsageError: the file is of another campaign, or the program is none.
    """
    wanted = list_parts(games)
    done = read_parts(path, campaign) if path else {}
    done = {number: done[number] for number, size in wanted if _is_of(done.get(number), size)}
    missing = [part for part in wanted if part[0] not in done]
    played = sum(part.games for part in done.values())
    progress("games", played, games)
    for number, part in _play(campaign, missing, processes):
        done[number] = part
        if path is not None:
            with path.open("ab") as file:
                file.write(msgspec.json.encode([number, part]) + b"\n")
        played += part.games
        progress("games", played, games)
    return [done[number] for number, _ in wanted]


def _is_of(part: Part | None, games: int) -> bool:
    return part is not None and part.games == games


def _play(
    campaign: Campaign, parts: Sequence[tuple[int, int]], processes: int
) -> Iterator[tuple[int, Part]]:
    """Play parts, and yield each with its number as it comes."""
    if processes == 1 or len(parts) < 2:
        for number, games in parts:
            yield number, play_part(campaign, number, games)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(parts)), context) as pool:
        waiting = {pool.submit(play_part, campaign, *part): part[0] for part in parts}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def play_part(campaign: Campaign, number: int, games: int, *, stops: bool = False) -> Part:
    """Play a part; `stops` ends it with the first game that breaks a promise."""
    table = draw_table(open_shop(campaign.program, campaign.size), campaign.find_table(number))
    with seldom_collecting(), remembering(), breaking(campaign.rule):
        return search(table, campaign.seed, games, stops=stops)


@cache
def open_shop(program: str, size: str) -> Shop:
    """Return a program with its runs, which are kept as long as this process lives."""
    return Shop(program, size)


def read_parts(path: Path, campaign: Campaign) -> dict[int, Part]:
    """Return the parts in a campaign's file by their numbers; it is begun if there is none.

    Raises:
        UsageError: it is another campaign's, or none.
    """
    head = msgspec.json.encode(asdict(campaign))
    refusal = f"{path} is of another search, or no file of a search; give another, or remove it"
    lines = open_lines(path, head, refusal)
    try:
        return dict(msgspec.json.decode(line, type=tuple[int, Part]) for line in lines)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is no file of a search: {error}") from error


def add_up(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the sums of parts, and the greatest of what is not summed."""
    summed = ("games", "paths", "cells", "calls", "made", "broken", "seconds")
    best = [part.best_wei for part in parts if part.best_wei is not None]
    return {
        "parts": len(parts),
        **{name: sum(getattr(part, name) for part in parts) for name in summed},
        "accepted": _add(part.tally.accepted for part in parts),
        "refused": _add(part.tally.refused for part in parts),
        "matches": _add(part.matches for part in parts),
        "longest_calls": max(part.longest_calls for part in parts),
        "longest_blocks": max(part.longest_blocks for part in parts),
        "least_margin": min(part.least_margin for part in parts),
        "best_wei": max(best, default=None),
    }


def _add(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))
