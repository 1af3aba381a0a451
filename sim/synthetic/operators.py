"""A job about one operator of a step, of whose output every member claims what it likes.

Nothing is computed, not even what the operator's output should be: whoever claims something has
computed the elements that are disputed, or tells a lie about them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import Digest
from moot.offchain.programs.graph import Kind, Node, Origin, Slot
from moot.sim.synthetic.jobs import SyntheticRun, SyntheticTask, copy, make_program
from moot.sim.synthetic.run_length import RunLengthTensor


@dataclass(frozen=True)
class OperatorTask(SyntheticTask):
    """The job of an operator; `make_task` makes it.

    Attributes:
        inputs: the tensors of the state that the operator can read.
        place: the operator's index.
    """

    inputs: Sequence[RunLengthTensor] = field(kw_only=True)
    place: int = field(kw_only=True)


def make_task(
    node: Node,
    inputs: Sequence[RunLengthTensor],
    data: Sequence[RunLengthTensor] = (),
    *,
    steps: int = 1,
    every: int = 1,
    kept: RunLengthTensor | None = None,
    place: int | None = None,
    operators: int = 0,
    arithmetic: Arithmetic = ORDERED,
) -> OperatorTask:
    """Return the job of an operator, behind the sources of all that it can read.

    Args:
        node: the operator.
        inputs: the tensors of the state; a step leaves them as they are.
        data: the tensors of every step's batch.
        steps: of the job.
        every: steps from one checkpoint to the next.
        kept: what the state has at the start where it has the operator's output after a step; None
            where it does not keep that.
        place: the operator's index; directly behind the sources if not said otherwise.
        operators: of a step, where there are more than needed: the others move the first input.
        arithmetic: of the folds.
    """
    start = (*inputs, kept) if kept else tuple(inputs)
    sources = [(Origin.STATE, i) for i in range(len(inputs))]
    sources += [(Origin.BATCH, i) for i in range(len(data))]
    place = len(sources) if place is None else place
    after = max(0, operators - place - 1 - len(start))
    filler = copy(Kind.MOVE, Origin.NODE, 0, inputs[0].dtype, inputs[0].shape)
    return OperatorTask(
        program=make_program(
            state=[Slot(f"s{i}", it.dtype, it.shape) for i, it in enumerate(start)],
            sources=sources,
            operators=[*[filler] * (place - len(sources)), node, *[filler] * after],
            kept=[*range(len(inputs)), *([place] if kept else [])],
            batch=[Slot(f"b{i}", it.dtype, it.shape) for i, it in enumerate(data)],
            arithmetic=arithmetic,
        ),
        initial_state=(),
        batch=lambda _: (),
        steps=steps,
        checkpoint_every=every,
        start=start,
        data=data,
        inputs=inputs,
        place=place,
    )


@dataclass(eq=False)
class OperatorRun(SyntheticRun):
    """One member's run: its claim about the operator's output in one step.

    Attributes:
        task: the job.
        output: the output.
        accumulators: returns what the member says of an accumulator of any element of a fold.
        after: the root of the state that it claims to come of that step, if it is not what the
            sinks read.
        changed: the step, the last one if not said otherwise; the state is as at the start up to
            it, and does not change after it.
    """

    task: OperatorTask
    output: RunLengthTensor
    accumulators: Callable[[int], int] = lambda _: 0
    after: Digest | None = None
    changed: int = -1

    def __post_init__(self) -> None:
        super().__init__(self.task, self.changed % self.task.steps)

    def list_outputs(self, step: int) -> Mapping[int, RunLengthTensor]:
        """See SyntheticRun."""
        del step
        task, filler = self.task, self.task.inputs[0]
        outputs = dict(enumerate((*task.inputs, *task.data, filler)))
        outputs |= {task.place: self.output, task.place + 1: filler}
        return outputs | dict(enumerate(self._kept, task.program.first_sink))

    def list_state(self, step: int) -> Sequence[RunLengthTensor]:
        """See SyntheticRun."""
        return self.task.start if step <= self.changed else self._kept

    @property
    def _kept(self) -> Sequence[RunLengthTensor]:
        """What the sinks read."""
        return (*self.task.inputs, self.output)[: len(self.task.start)]

    def hash_state(self, step: int) -> Digest:
        """See SyntheticRun."""
        if self.after is None or step <= self.changed:
            return super().hash_state(step)
        return self.after

    def get_partial(self, step: int, operator: int, element: int, place: int) -> int:
        """See SyntheticRun."""
        del step, operator, element
        return self.accumulators(place)
