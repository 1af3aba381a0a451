"""Runs: a task is run by a provider, honestly or not, and its claim can be disputed."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from moot.display import Displayable
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import HONEST
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.cheats.reading import is_open, read_cheat
from moot.offchain.providers.run import Run as Testimony
from moot.offchain.providers.store import Store
from moot.tasks import Task


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Run(Displayable):
    """A run of a task: what a provider claims, and what it can show of it.

    Attributes:
        task: what was run.
        behaviour: what the provider did differently, with all that was drawn.
        testimony: whatever a dispute asks of the run; also the trees and traces.
        seconds: how long it took.

    Example:
        >>> import moot
        >>> run = moot.run(moot.Task("mlp", steps=1))
        >>> run.behaviour.name, len(run.history_root), run.state()["parameter.1.weight"].dtype.name
        ('honest', 32, 'float32')
    """

    task: Task
    behaviour: Behaviour
    testimony: Testimony = field(repr=False)
    seconds: float

    @property
    def history_root(self) -> bytes:
        """The root over the states of all checkpoints, which is claimed: 32 bytes."""
        return self.testimony.history_root

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The root of the state of each checkpoint: 32 bytes each."""
        return tuple(self.testimony.roots)

    def state(self, step: int | None = None) -> Mapping[str, Array]:
        """Return the tensors of the state, by the names of the program's slots.

        Args:
            step: how many steps are done, from 0; None for all of them.

        Raises:
            UsageError: the task has no such step.
        """
        wanted = self.task.steps if step is None else step
        if not 0 <= wanted <= self.task.steps:
            raise UsageError(f"there is no state after {wanted} of {self.task.steps} steps")
        slots = self.task.agreed.program.state
        tensors = self.testimony.state(wanted)
        return {slot.name: array for slot, array in zip(slots, tensors, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Return the behaviour and the claimed roots in hexadecimal."""
        return {
            "behaviour": self.behaviour.describe(),
            "claim": self.history_root.hex(),
            "checkpoints": [root.hex() for root in self.roots],
            "seconds": round(self.seconds, 3),
        }


def run(
    task: Task,
    cheat: Behaviour | str | None = None,
    *,
    seed: int = 0,
    store: Path | str | None = None,
    threads: int | None = None,
    backend: str = DEFAULT,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run a task.

    Args:
        task: the task.
        cheat: how the provider cheats: one of `moot.cheats`, an object of a subclass of
            `moot.Behaviour`, or a text as `moot dispute --cheat` takes it; None is honest.
        seed: of what the cheat leaves to be drawn.
        store: the folder where checkpoints are kept, and found again after an interrupt; None
            takes a temporary one, which goes with the run.
        threads: of the kernels; results do not depend on it.
        backend: what computes, such as `cpu` or `cuda`; results do not depend on it, either.
        workers: the processes that share each batch out; results do not depend on them.
        progress: is called with the number of steps that are done.

    Raises:
        UsageError: the task has no room for the cheat, or there is no such cheat or backend.
        StoreError: the folder can't be read or written, or holds another run.

    Example:
        >>> import moot
        >>> task = moot.Task("mlp", steps=2)
        >>> liar = moot.run(task, moot.cheats.SkippedStep(step=1))
        >>> liar.behaviour.describe(), liar.history_root == moot.run(task).history_root
        ('skipped-step:step=1', False)
    """
    started = time.perf_counter()
    behaviour, agreed = Behaviour(), task.agreed
    if cheat is not None and cheat != HONEST:
        given = read_cheat(cheat)
        if given.posts_logs and is_open(given):
            raise UsageError(
                f"{given.name} posts logs, on which everybody agrees; first write "
                "task, cheat = task.post_logs(cheat)"
            )
        behaviour = given.draw(Draws(agreed, np.random.default_rng(seed)))
    folder = Path(store) if store is not None else Path(tempfile.mkdtemp(prefix="moot-"))
    try:
        kept = Store(folder, is_durable=store is not None)
        testimony = Testimony(agreed, behaviour, kept, threads, backend, workers)
        testimony.compute(progress)
    except BaseException:
        if store is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    done = Run(task, behaviour, testimony, time.perf_counter() - started)
    if store is None:
        weakref.finalize(testimony, shutil.rmtree, folder, ignore_errors=True)
    return done
