"""The line-up of a dispute: who runs the task, honestly or not, in the order of joining."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from moot.offchain.errors import UsageError
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.reading import is_open, make_cheat, read_cheat
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

DRAWS = 32
"""The number of draws of a cheat, until one changes the claim."""

Report = Callable[[str, int, int], None]
"""Called during long work: with its name, the amount that is done, and the whole amount."""


def make_runs(
    setting: Setting, task: Task, directory: Path, report: Report, *, is_durable: bool = True
) -> dict[str, Run]:
    """Run the providers, in the order in which they will join: the first one defends."""
    compute = Computer(setting, task, directory, report, is_durable)
    try:
        return _make_runs(setting, task, compute)
    except BaseException:
        settle(compute.writing)
        raise


def settle(runs: Iterable[Run]) -> None:
    """Wait until all states are written."""
    for run in runs:
        run.settle()


def _make_runs(setting: Setting, task: Task, compute: "Computer") -> dict[str, Run]:
    if setting.cheat == "none":
        names = [f"honest-{i + 1}" for i in range(max(2, setting.honest))]
        return {name: compute(name, Behaviour()) for name in names}
    # A cheat that this program has no room for is refused before anything is run.
    behaviour = make_cheat(setting.cheat, task, compute.rng(0))
    others = {
        f"honest-{i + 1}": compute(f"honest-{i + 1}", Behaviour()) for i in range(setting.honest)
    }
    honest = others["honest-1"]
    name, accomplice = behaviour.name, behaviour.accomplice
    if accomplice:
        flag = compute(f"{name}-1", behaviour)
        return {f"{name}-1": flag, **others, f"{accomplice}-1": compute.draw(accomplice, honest)}
    return {f"{name}-1": compute.draw(setting.cheat, honest), **others}


@dataclass(frozen=True, slots=True)
class Computer:
    """Runs providers for one setting.

    A state that need not outlive this process is written while the next provider runs; `writing`
    are the runs whose last one may be on its way.
    """

    setting: Setting
    task: Task
    directory: Path
    report: Report
    is_durable: bool = True
    writing: list[Run] = field(default_factory=list, init=False)

    def __call__(self, name: str, behaviour: Behaviour) -> Run:
        """Run one provider under a behaviour."""
        store = Store(self.directory / name, is_durable=self.is_durable)
        threads, workers = self.setting.threads, self.setting.workers
        is_honest = type(behaviour) is Behaviour
        other = None if is_honest else self.setting.cheat_backend
        backend = other or self.setting.backend
        run = Run(self.task, behaviour, store, threads, backend, workers if is_honest else 1)
        self.writing.append(run)
        steps = self.task.steps
        run.compute(lambda done: self.report(name, done, steps), waits=self.is_durable)
        settle(self.writing[:-1])
        del self.writing[:-1]
        return run

    def rng(self, draw: int) -> np.random.Generator:
        """Return the stream of one draw of a cheat."""
        return np.random.default_rng(np.random.SeedSequence(self.setting.seed, spawn_key=(draw,)))

    def draw(self, cheat: str | Behaviour, honest: Run) -> Run:
        """Run a cheat; draw it again while it changes nothing and something was left to draw.

        Raises:
            UsageError: it changes nothing, or the task has no room for it.
        """
        given = read_cheat(cheat)
        for draw in range(DRAWS if is_open(given) else 1):
            behaviour = make_cheat(given, self.task, self.rng(draw))
            run = self(f"{given.name}-1.{draw}", behaviour)
            if run.history.top != honest.history.top:
                return run
        raise UsageError(
            f"this cheat computes the honest answer: {given.describe()}; choose another operator "
            "or element"
        )
