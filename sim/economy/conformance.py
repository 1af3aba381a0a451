"""The conformance kit: what a user's strategy is tried on before anybody relies on its results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moot.offchain.errors import MootError
from moot.sim.economy.config import Config, parse_config
from moot.sim.economy.market import Market
from moot.sim.economy.simulate import make_outcomes
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.strategies.table import make_strategy

SEEDS = (0, 1, 2)
JOBS = 400


class Finding(NamedTuple):
    """A finding of the kit.

    Attributes:
        check: what was tried.
        is_met: whether the strategy does what is asked.
        detail: what it has done instead, or how much of it was seen.

    Example:
        >>> import moot
        >>> moot.Finding("it takes part", True, "in 9 jobs").is_met
        True
    """

    check: str
    is_met: bool
    detail: str


@dataclass
class _Rows:
    """A sink that keeps all rows."""

    rows: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Keep a row."""
        self.rows.append((table, row))


def check_strategy(
    name: str, role: str, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Iterator[Finding]:
    """Yield what a strategy is found to do, in markets with honest ones, cheats and watchers.

    Args:
        name: `path/to/file.py:Class`.
        role: `providers` or `watchers`.
        progress: is told how far the work is.

    Raises:
        UsageError: there is no such strategy.
    """
    made = make_strategy(role, name, {})
    yield Finding("it is a strategy", True, f"{type(made).__name__} of {role}")
    configs = [_make_config(name, role, seed) for seed in SEEDS]
    runs: list[_Rows] = []
    for config in configs:
        rows = _Rows()
        try:
            Market(config, make_outcomes(config, progress), rows).play()
        except MootError as error:
            yield Finding("the money adds up", False, error.message)
            return
        runs.append(rows)
    yield Finding("the money adds up", True, f"after every block of {len(SEEDS)} markets")
    yield _find_forfeits(runs, name)
    yield _find_work(runs, name)
    again = _Rows()
    Market(configs[0], make_outcomes(configs[0], progress), again).play()
    yield Finding(
        "the same seed gives the same market",
        again.rows == runs[0].rows,
        f"{len(again.rows)} rows compared",
    )
    yield Finding(
        "another seed gives another market",
        runs[1].rows != runs[0].rows,
        f"seeds {SEEDS[0]} and {SEEDS[1]}",
    )
    yield _find_memory(name, role)


def _make_config(name: str, role: str, seed: int) -> Config:
    """Return a market in which there is everything that a strategy may meet."""
    others = {
        "providers": [
            {"strategy": "honest", "count": 6},
            {"strategy": "lazy", "count": 2},
            {"strategy": "sybil", "count": 1},
        ],
        "watchers": [{"strategy": "watcher", "count": 2}],
    }
    others[role].append({"strategy": name, "count": 3})
    tables = {"seats": 2, "audit": {"name": "constant", "rate": 0.3}}
    return parse_config({"seed": seed, "jobs": JOBS, **tables, **others}, "the kit")


def _list_agents(run: _Rows, name: str) -> dict[object, tuple[object, ...]]:
    """Return the rows of the agents that have the strategy, by their numbers."""
    return {row[1]: row for table, row in run.rows if table == "agents" and row[4] == name}


def _find_forfeits(runs: Sequence[_Rows], name: str) -> Finding:
    """Say whether the strategy has raised, answered what is no answer, or overspent."""
    details = []
    for run in runs:
        own = _list_agents(run, name)
        details += [
            str(row[-1])
            for table, row in run.rows
            if table == "events" and row[2] == "forfeit" and row[3] in own
        ]
    seen = "it has never raised, been silent for too long, or overspent"
    return Finding(
        "it answers what it is asked",
        not details,
        f"{len(details)} forfeits; the first: it {details[0]}" if details else seen,
    )


def _find_work(runs: Sequence[_Rows], name: str) -> Finding:
    """Say whether the strategy has ever done anything."""
    agents = [row for run in runs for row in _list_agents(run, name).values()]
    jobs = sum(int(str(row[8])) for row in agents)
    return Finding("it takes part", jobs > 0, f"in {jobs} jobs")


def _find_memory(name: str, role: str) -> Finding:
    """Say whether two agents of the strategy remember things apart."""
    one, other = (make_strategy(role, name, {}) for _ in range(2))
    shared = [
        key
        for key, value in vars(one).items()
        if isinstance(value, list | dict | set) and value is vars(other).get(key)
    ]
    shared += [
        key
        for kind in type(one).__mro__
        if kind not in (Strategy, object)
        for key, value in vars(kind).items()
        if isinstance(value, list | dict | set) and not key.startswith("__")
    ]
    return Finding(
        "its agents share no memory",
        not shared,
        f"{', '.join(shared)} belongs to all of them" if shared else "each has its own",
    )
