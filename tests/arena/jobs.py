"""Synthetic jobs of any cost, and honest and wrong runs of them that take simulated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.providers.rates import Timing
from moot.offchain.providers.task import Task
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size, make_task

Spend = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Work:
    """What a job's program costs.

    Attributes:
        size: its sizes.
        step_s: what a step takes, on the values that it begins with.
        slow: how often as long an answer takes that a dispute asks for, on values of later steps.
    """

    size: Size
    step_s: float = 0.5
    slow: float = 1.0

    @property
    def timing(self) -> Timing:
        """What a provider knows of that from shapes: the worst that there is."""
        return Timing(0.0, self.step_s, self.step_s * self.slow, 0.0, 0.0, 0.0)


@cache
def get_task(size: Size) -> ProductTask:
    """Return the task of a size."""
    return make_task(size)


@cache
def cut_task(size: Size, steps: int) -> ProductTask:
    """Return the first steps of a task, as a task."""
    task = get_task(size)
    return replace(task, steps=steps, checkpoint_every=min(task.checkpoint_every, steps))


@cache
def get_run(size: Size, lie: Lie | None) -> ProductRun:
    """Return a run of a task, honest without a lie."""
    return ProductRun(get_task(size), lie)


class WorkingRun:
    """A run that takes time for what it computes; see Testimony, and Run.

    Args:
        work: what it costs.
        spend: called with the seconds that something takes.
        steps: how many are run, where that is not the whole job.
    """

    def __init__(self, work: Work, spend: Spend, steps: int | None = None) -> None:
        self._work, self._spend = work, spend
        self._run = get_run(work.size, None)
        self._steps = self._run.task.steps if steps is None else steps
        self.task: Task = self._run.task
        self.behaviour = self._run.behaviour
        self.operands, self.partials = self._run.operands, self._run.partials
        self.tensor, self.state_tree = self._run.tensor, self._run.state_tree
        self.shared = None
        self._shown: set[tuple[str, int]] = set()

    @cached_property
    def history(self) -> Tree:
        """The tree over the claimed history."""
        return self._run.history

    @property
    def roots(self) -> Sequence[Digest]:
        """The roots of the states at all checkpoints."""
        history = self.history
        return [history.node(0, place) for place in range(history.count)]

    def compute(self, audit: object = None) -> None:
        """Run all steps."""
        del audit
        self._spend(self._steps * self._work.step_s)

    def state(self, step: int) -> Sequence[Array]:
        """Return the state before a step."""
        return [it.array for it in self._run.list_state(step)]

    def interval(self, first: int) -> Tree:
        """See Testimony."""
        self._answer("interval", first, min(self.task.checkpoint_every, self._steps))
        return self._run.interval(first)

    def trace(self, step: int) -> Tree:
        """See Testimony."""
        self._answer("trace", step, 1)
        return self._run.trace(step)

    def _answer(self, what: str, step: int, steps: int) -> None:
        """Take the time of running some steps once more, once."""
        if (what, step) not in self._shown:
            self._shown.add((what, step))
            slow = self._work.slow if step else 1.0
            self._spend(steps * self._work.step_s * slow)
