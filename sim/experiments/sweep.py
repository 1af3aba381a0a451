"""A sweep: plays the runs of a plan that are still to be played, and joins what they leave."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moot.offchain.native.memory import get_peak_bytes
from moot.sim.economy.config import Config
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.experiments.engines import Engine, play_here
from moot.sim.experiments.folder import ResultsFolder
from moot.sim.experiments.parts import Ended, Play, Progress, ignore
from moot.sim.experiments.plan import Plan


@dataclass(frozen=True, slots=True)
class Swept:
    """What a command has done of a sweep: how many runs it has played, and its largest process."""

    played: int
    peak_mib: float


def run_sweep(
    plan: Plan,
    path: Path,
    engine: Engine,
    play: Play,
    progress: Progress = ignore,
    on_failure: Callable[[Ended], None] | None = None,
    prepare: Callable[[Config, Progress], None] | None = None,
) -> Swept:
    """Play all runs of a plan that have not been played, and write the tables of all.

    The tables depend on the plan alone: neither on the engine nor on interruptions. A run that
    fails is a row of `runs`.

    Args:
        plan: the sweep.
        path: the results folder; see `ResultsFolder`.
        engine: plays the runs.
        play: plays one run.
        progress: is told how many runs are done, and how far the current one is.
        on_failure: is told of each run that fails, as it does.
        prepare: makes ready, in this process, what runs of a configuration have in common.

    Raises:
        UsageError: the folder can't be used, or written.
        SweepError: a process ended before its time; what is finished stays.
    """
    peak_mib, played = 0.0, 0
    with ResultsFolder(path, plan) as folder:
        missing = list(folder.list_missing())
        done = plan.size - len(missing)
        progress("runs", done, plan.size)
        if prepare is not None:
            for config in {run.config.program: run.config for run in missing}.values():
                prepare(config, progress)
        with engine.open() if missing else nullcontext(play_here) as player:
            for ended in player(play, missing, folder.parts, progress):
                played += 1
                peak_mib = max(peak_mib, ended.peak_mib)
                if ended.error is not None and on_failure is not None:
                    on_failure(ended)
                progress("runs", done + played, plan.size)
        folder.finish()
    return Swept(played, max(peak_mib, get_peak_bytes() / 2**20))


def summarise_results(path: Path) -> dict[str, int]:
    """Return the counts of a results folder, summed over its runs.

    Returns:
        `runs`, `failed`, `jobs`, `providers` (all that were ever there), `disputes`, `played`
        (games), `wrong_verdicts` (games in which an honest claim took part, and a wrong one was
        paid), `disagreements` (of a modelled game with the same one played), and
        `invariant_violations`.
    """
    runs = pq.read_table(path / "runs.parquet")

    def add_up(name: str) -> int:
        return int(pc.sum(runs[name]).as_py() or 0)

    is_failed = pc.equal(runs["status"], "failed")
    return {
        "runs": runs.num_rows,
        "failed": int(pc.sum(is_failed).as_py() or 0),
        "jobs": add_up("jobs"),
        "providers": _count_providers(path / "agents.parquet"),
        "disputes": add_up("disputed"),
        "played": add_up("played"),
        "wrong_verdicts": _count_wrong_verdicts(path / "games.parquet"),
        "disagreements": add_up("disagreements"),
        "invariant_violations": add_up("violations"),
    }


def _count_providers(path: Path) -> int:
    return sum(
        int(pc.sum(pc.equal(batch["role"].cast(pa.string()), "provider")).as_py() or 0)
        for batch in _read(path, "role")
    )


def _count_wrong_verdicts(path: Path) -> int:
    """Return how many games were lost by everybody who claims what is right."""
    found = 0
    for batch in _read(path, "lineup", "outcome"):
        lineups = pc.split_pattern(batch["lineup"], "+").to_pylist()
        outcomes = batch["outcome"].to_pylist()
        found += sum(
            outcome == "wrong" and not {HONEST, WATCHER}.isdisjoint(lineup)
            for lineup, outcome in zip(lineups, outcomes, strict=True)
        )
    return found


def _read(path: Path, *columns: str) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table, some rows at a time."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(columns=list(columns))
