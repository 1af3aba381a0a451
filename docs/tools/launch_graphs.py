"""How long a step is if its launches run side by side, by estimates: no device is needed.

The cycles of products are those that `tiling.py` chooses tiles by; everything else takes as long as
its bytes, and a launch. What else runs at the same time shares the device: each task goes on as it
would alone until all of them together want more than there is, and then they are slowed down alike.
Where a device was measured, estimates are stretched to what it took: what takes longer than it was
estimated may keep the device busy all the while, or wait, and leave it to others.

    python docs/tools/launch_graphs.py resnet full
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.dependencies import find_dependencies
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.plans import Tiled
from moot.offchain.backends.cuda.sequences import LaunchedSequence, Task
from moot.offchain.backends.cuda.tiling import STEP_CYCLES, count_blocks, estimate_step
from moot.offchain.backends.port import Step
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.graph import Node, Slot

MULTIPROCESSORS, HERTZ, BYTES_PER_SECOND = 132, 1.98e9, 4.8e12
"""Those of an H200."""

LAUNCH_SECONDS = 2e-6
"""From the end of a task to the beginning of one that waits for it: a guess."""

MEASURED = {("resnet", "full"): (0.017, 0.045)}
"""Seconds of gradients of weights and of whole steps, as an H200 had them when launches were a line
(docs/measurements/backends.md)."""

FAR = 1 << 50
"""Where memory begins that nobody has."""

LAYOUTS = (None, 0, 0.1, 0.25, 0.5, 1, 100)
"""How much more memory tasks may have than in turns; None for in turns, whoever waits for whom."""

COLUMNS = (
    "more memory",
    "GB",
    "edges",
    "in a line, ms",
    "longest chain",
    "side by side, if all are busy",
    "if what is slow waits",
)


class Cost(NamedTuple):
    """The seconds of a task alone, and those for which it would have the whole device."""

    alone: float
    whole: float


class Absent(Emulator):
    """A machine without memory, on which nothing runs."""

    multiprocessors = MULTIPROCESSORS

    def __init__(self) -> None:
        super().__init__(capability=(9, 0))
        self._next = FAR

    def allocate(self, size: int, holder: int = 0) -> int:  # noqa: ARG002 - all is new
        """Return an address that nobody has."""
        self._next += size
        return self._next - size

    def release(self, address: int) -> None:
        """Take nothing back."""


class Asked(NamedTuple):
    """What was asked for as a sequence: the tasks, and the places of what it reads and keeps."""

    steps: Sequence[Step]
    reads: Sequence[int]
    kept: Sequence[int]


class Planned(NamedTuple):
    """The tasks of a sequence, and the memory that it needs."""

    tasks: Sequence[Task]
    needed_bytes: int


class Remembering(Cuda):
    """A backend that remembers what sequences it was asked to plan.

    Attributes:
        asked: these.
    """

    def __init__(self, machine: Absent) -> None:
        super().__init__(machine)
        self.asked: list[Asked] = []

    def plan_sequence(
        self,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        slots: Sequence[Slot] = (),
    ) -> LaunchedSequence:
        """Return the plan of tasks."""
        self.asked.append(Asked(steps, reads, kept))
        return super().plan_sequence(steps, reads, kept, slots)


def estimate(task: Task) -> Cost:
    """Return the seconds of a task."""
    used = {*task.uses.reads, *task.uses.writes}
    moved = sum(stop - first for first, stop in used) / BYTES_PER_SECOND
    own = len(task.launches) * LAUNCH_SECONDS
    if not isinstance(task.plan, Tiled):
        return Cost(moved + own, moved)
    node, tiling = task.plan.node, task.plan.tiling
    cycles = estimate_step(node, tiling, MULTIPROCESSORS)
    full = count_blocks(node, tiling) * STEP_CYCLES[tiling] / MULTIPROCESSORS
    alone, whole = (max(moved, each * node.fold_length / HERTZ) for each in (cycles, full))
    return Cost(alone + own, whole)


def is_of_weights(task: Task, samples: int) -> bool:
    """Whether a task is a gradient of weights: a product that folds samples first."""
    return isinstance(task.plan, Tiled) and task.plan.node.fold_shape[0] == samples


def run(costs: Sequence[Cost], edges: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return how long the longest chain of tasks takes, and how long all do on one device."""
    ends, followers = list[float](), [list[int]() for _ in costs]
    for number, (cost, others) in enumerate(zip(costs, edges, strict=True)):
        ends.append(cost.alone + max((ends[other] for other in others), default=0))
        for other in others:
            followers[other].append(number)
    missing, seconds = [len(others) for others in edges], 0.0
    running = {number: costs[number].alone for number, left in enumerate(missing) if not left}
    while running:
        wanted = sum(costs[number].whole / costs[number].alone for number in running)
        first = min(running, key=running.__getitem__)
        passed = running.pop(first)
        seconds += passed * max(wanted, 1)
        running = {number: left - passed for number, left in running.items()}
        for number in followers[first]:
            missing[number] -= 1
            if not missing[number]:
                running[number] = costs[number].alone
    return max(ends), seconds


def find_factors(
    tasks: Sequence[Task], samples: int, program: tuple[str, str]
) -> dict[bool, float]:
    """Return how much longer than estimated gradients of weights took, and all others (False)."""
    if program not in MEASURED:
        return {True: 1, False: 1}
    of_weights = sum(estimate(task).alone for task in tasks if is_of_weights(task, samples))
    rest = sum(estimate(task).alone for task in tasks) - of_weights
    measured, whole = MEASURED[program]
    return {True: measured / of_weights, False: (whole - measured) / rest}


def list_tasks(asked: Asked, machine: Absent, sizes: Sequence[int], more: float | None) -> Planned:
    """Return the tasks of a sequence, and what it needs."""
    plan = LaunchedSequence(machine, *asked, more)
    firsts = {place: machine.allocate(sizes[place]) for place in {*asked.reads, *asked.kept}}
    places = {place: (first, first + sizes[place]) for place, first in firsts.items()}
    return Planned(plan.list_tasks(places), plan.needed_bytes)


def time_sequence(
    tasks: Sequence[Task], edges: Sequence[Sequence[int]], factors: Mapping[bool, float], n: int
) -> list[float]:
    """Return the seconds in a line, of the longest chain, and side by side in both ways."""
    known = [(estimate(task), factors[is_of_weights(task, n)]) for task in tasks]
    busy = [Cost(cost.alone * factor, cost.whole * factor) for cost, factor in known]
    waiting = [Cost(cost.alone * factor, cost.whole) for cost, factor in known]
    return [sum(cost.alone for cost in busy), *run(busy, edges), run(waiting, edges)[1]]


def main(name: str, size: str) -> None:
    """Print a row for each layout: memory, edges, and milliseconds."""
    program = capture(build(name, size), trust=True).program
    tensors: list[Slot | Node] = [*program.state, *program.batch, *program.nodes]
    sizes = [0, *(tensor.elements * tensor.dtype.width for tensor in tensors)]
    samples = program.batch[0].shape[0]
    machine = Absent()
    backend = Remembering(machine)
    preparation = Preparation(program, backend)
    while not backend.asked:
        preparation.choose(replaces=True)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for more in LAYOUTS:
        planned = [list_tasks(asked, machine, sizes, more) for asked in backend.asked]
        every = [task for part in planned for task in part.tasks]
        factors = find_factors(every, samples, (name, size))
        edges = [find_dependencies([task.uses for task in part.tasks]) for part in planned]
        seconds = [
            time_sequence(part.tasks, own, factors, samples)
            for part, own in zip(planned, edges, strict=True)
        ]
        cells = ["in turns" if more is None else f"{more:.0%}"]
        cells.append(f"{sum(part.needed_bytes for part in planned) / 1e9:.2f}")
        cells.append(str(sum(len(others) for own in edges for others in own)))
        cells += [f"{1e3 * sum(column):.1f}" for column in zip(*seconds, strict=True)]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
