"""Trials: runs that are played to answer a question, and what of them the answers need."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moot.offchain.errors import MootError
from moot.sim.analysis.over_time import COLUMNS, measure_shares
from moot.sim.economy.config import Config
from moot.sim.economy.spans import SPANS
from moot.sim.estimates import Floats
from moot.sim.experiments.engines import Engine, Player
from moot.sim.experiments.parts import FAILED, Play, Progress, read_result
from moot.sim.experiments.plan import Run

GWEI = 10**9


class TrialError(MootError):
    """A run that an answer needs has failed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one run came to after its burn-in.

    Attributes:
        profits_eth: of each agent, by its number: what jobs have changed of its wealth.
        jobs: of each agent, by its number: how many it took.
        work_eth: of each agent, by its number: what it paid for computing.
        roles: of each agent, likewise: client, provider or watcher.
        strategies: of each agent, likewise.
        clients_eth: what clients gained, the value of answers included.
        bonds_eth: what all providers of all jobs have put up, together.
        burned_eth: what was burned.
        locked_eth_blocks: capital that was locked x blocks, of all agents.
        blocks: of each job that was served: from the first claim to the payout.
        run: its row of `runs`, as far as the run itself knows it.
        all_jobs: jobs of the whole run.
        burn_in: how many of them are burn-in.
        shares: by the name of a measure, its value in each span of the whole run.
        span_profits_eth: of each span of the whole run and each agent.
        span_jobs: likewise.
    """

    profits_eth: Floats
    jobs: Floats
    work_eth: Floats
    roles: tuple[str, ...]
    strategies: tuple[str, ...]
    clients_eth: float
    bonds_eth: float
    burned_eth: float
    locked_eth_blocks: float
    blocks: Floats
    run: Mapping[str, Any]
    all_jobs: int
    burn_in: int
    shares: Mapping[str, Floats]
    span_profits_eth: Floats
    span_jobs: Floats


@dataclass(frozen=True, slots=True)
class Laboratory:
    """A place where trials are played.

    Attributes:
        player: plays runs.
        play: plays one run.
        folder: an existing folder for what the runs leave until it has been read.
        progress: is told how many trials are done.
        played: the rows of `runs` of all trials.
    """

    player: Player
    play: Play
    folder: Path
    progress: Progress
    played: list[Mapping[str, Any]] = field(default_factory=list)

    def try_all(self, configs: Sequence[Config]) -> list[Trial]:
        """Play a run of each configuration; return what they came to, in the same order.

        Raises:
            TrialError: a run failed.
        """
        runs = [Run(number, 0, (), config) for number, config in enumerate(configs)]
        trials: dict[int, Trial] = {}
        self.progress("runs", 0, len(runs))
        for ended in self.player(self.play, runs, self.folder, self.progress):
            part = self.folder / str(ended.number)
            trials[ended.number] = read_trial(part)
            shutil.rmtree(part)
            self.played.append(trials[ended.number].run)
            self.progress("runs", len(trials), len(runs))
        return [trials[run.number] for run in runs]


@contextmanager
def open_laboratory(config: Config, engine: Engine, progress: Progress) -> Iterator[Laboratory]:
    """Make ready to play a market and others that are like it.

    Args:
        config: the market.
        engine: what plays the runs.
        progress: is told how many trials are done.

    Raises:
        UsageError: the market's program or a conduct of it is impossible.
    """
    from moot.sim.economy.simulate import prepare, simulate  # noqa: PLC0415 - imports torch

    with engine.open() as player, tempfile.TemporaryDirectory(prefix="moot-") as folder:
        prepare(config, progress)
        yield Laboratory(player, simulate, Path(folder), progress)


def read_trial(part: Path) -> Trial:
    """Return what the run of a part came to; raises TrialError if it failed."""
    told = read_result(part)
    if told["status"] == FAILED:
        raise TrialError(f"a run that the answer needs has failed: {told['error']}")
    burn_in, all_jobs = told["burn_in"], told["jobs"] + told["burn_in"]
    agents = pq.read_table(part / "agents.parquet", columns=["role", "strategy"])
    spans = pq.read_table(part / "spans.parquet")
    late = spans.filter(pc.invert(spans["is_burn_in"]))
    columns = [*COLUMNS, "blocks", "bond_gwei", "seats"]
    jobs = pq.read_table(part / "jobs.parquet", columns=columns)
    served = jobs.filter(pc.not_equal(jobs["outcome"].cast(pa.string()), "unserved"))
    served = served.filter(pc.greater_equal(served["job"], burn_in))
    bonds = pc.multiply(served["bond_gwei"], served["seats"])
    (shares,) = measure_shares([jobs], {jobs["run"][0].as_py(): all_jobs}).values()
    return Trial(
        profits_eth=_add_up(late, "profit_gwei", agents.num_rows).sum(axis=0) / GWEI,
        jobs=_add_up(late, "jobs", agents.num_rows).sum(axis=0),
        work_eth=_add_up(late, "work_gwei", agents.num_rows).sum(axis=0) / GWEI,
        roles=tuple(agents["role"].to_pylist()),
        strategies=tuple(agents["strategy"].to_pylist()),
        clients_eth=told["client_gwei"] / GWEI,
        bonds_eth=(pc.sum(bonds).as_py() or 0) / GWEI,
        burned_eth=told["burned_gwei"] / GWEI,
        locked_eth_blocks=float(_to_floats(late["locked_gwei_blocks"]).sum()) / GWEI,
        blocks=_to_floats(served["blocks"]),
        run=told,
        all_jobs=all_jobs,
        burn_in=burn_in,
        shares=shares,
        span_profits_eth=_add_up(spans, "profit_gwei", agents.num_rows) / GWEI,
        span_jobs=_add_up(spans, "jobs", agents.num_rows),
    )


def _add_up(spans: pa.Table, column: str, agents: int) -> Floats:
    """Return a column of `spans` by span and agent."""
    found: Floats = np.zeros((SPANS, agents))
    np.add.at(
        found, (spans["span"].to_numpy(), spans["agent"].to_numpy()), spans[column].to_numpy()
    )
    return found


def _to_floats(column: pa.ChunkedArray) -> Floats:
    floats: Floats = column.to_numpy().astype(np.float64)
    return floats
