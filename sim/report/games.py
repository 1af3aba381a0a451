"""The games of a results folder whose moves were written down, for the page to show one by one."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from moot.offchain.text import clean
from moot.sim.report.results import Results

MOST = 200
"""Games that a report holds, the first ones; each is some tens of moves."""
MOVE = ("move", "block", "stage", "player", "call", "gas")
"""The columns of a move, as the page has them."""


def collect_games(results: Results) -> tuple[list[dict[str, Any]], int]:
    """Return the games that a report shows, and how many have their moves in the folder.

    A game is an object of what is known of it (`run`, `rep`, `seed`, `game`, `job`, `lineup`,
    `fidelity`, `outcome`, `strategies`) and its `moves`, each a list of the values of `MOVE`.
    """
    if not results.count_rows("moves") or not results.count_rows("games"):
        return [], 0
    moves = results.read("moves", ["game", *MOVE])
    keys = moves.select(["run", "game"]).group_by(["run", "game"], use_threads=False).aggregate([])
    keys = keys.sort_by([("run", "ascending"), ("game", "ascending")])
    shown = [(row["run"], row["game"]) for row in keys.slice(0, MOST).to_pylist()]
    if not shown:
        return [], 0
    last_run = shown[-1][0]
    moves = moves.filter(pc.less_equal(moves["run"], last_run))
    by_game: dict[tuple[int, int], list[list[Any]]] = {key: [] for key in shown}
    for row in moves.to_pylist():
        if (row["run"], row["game"]) in by_game:
            by_game[row["run"], row["game"]].append([_clean(row[name]) for name in MOVE])
    games = _read_heads(results, set(by_game), last_run)
    found = [
        games[key] | {"moves": sorted(rows, key=lambda move: move[0])}
        for key, rows in by_game.items()
        if key in games
    ]
    return found, keys.num_rows


def _read_heads(
    results: Results, wanted: set[tuple[int, int]], last_run: int
) -> dict[tuple[int, int], dict[str, Any]]:
    """Return what is known of games besides their moves."""
    columns = ["game", "job", "lineup", "fidelity", "outcome"]
    games = results.read("games", columns, with_burn_in=True)
    games = games.filter(pc.less_equal(games["run"], last_run))
    strategies = _read_strategies(results, wanted, last_run)
    runs = results.runs.select(["run", "rep", "seed"]).to_pylist()
    whence = {row["run"]: {"rep": row["rep"], "seed": row["seed"]} for row in runs}
    return {
        (row["run"], row["game"]): {name: _clean(value) for name, value in row.items()}
        | whence[row["run"]]
        | {"strategies": _clean("+".join(strategies[row["run"], row["game"]]))}
        for row in games.to_pylist()
        if (row["run"], row["game"]) in wanted
    }


def _read_strategies(
    results: Results, wanted: set[tuple[int, int]], last_run: int
) -> Mapping[tuple[int, int], list[str]]:
    """Return whose conducts met in each game: the strategies, in the order of the lineup."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    if results.count_rows("parties"):
        parties = results.read("parties", ["game", "strategy"], with_burn_in=True)
        for row in parties.filter(pc.less_equal(parties["run"], last_run)).to_pylist():
            if (row["run"], row["game"]) in wanted:
                found[row["run"], row["game"]].append(row["strategy"])
    return found


def _clean(value: object) -> object:
    return clean(value) if isinstance(value, str) else value
