"""A job about one operator, for whose output two members claim arbitrary values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from moot.contracts.reasons import Ending
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, TensorTree, compute_state_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.partials import pack_partials
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.task import Task
from moot.sim.run_length import RunLengthTensor, RunLengthTree
from tests.attacks.court import Court
from tests.attacks.twin import Twin

F32 = DType.FLOAT32
STATE = RunLengthTensor(F32, (2,), {0: 0x40490FDB, 1: 0xC2280000})
"""The one tensor of the state before the last step: pi and -42."""
ROWS = (Row(2, 0, ((0, 1),)),)


@dataclass(frozen=True)
class ElementTask(Task):
    """Sources, an operator, and the sink of the state; only the last state may differ.

    Attributes:
        state_tensor: the one tensor of every state up to the last step.
        batch_tensors: the tensors of every step's batch.
    """

    state_tensor: TensorTree = STATE
    batch_tensors: Sequence[TensorTree] = ()

    @cached_property
    def start_root(self) -> Digest:
        """The root of all states up to the last step."""
        return compute_state_root([self.state_tensor.root])

    @cached_property
    def data_tree(self) -> Tree | None:
        """The tree over all batches."""
        roots = [tensor.root for tensor in self.batch_tensors] * self.steps
        return Tree(Tag.DATA_NODE, roots) if roots else None


def make_task(node: Node, steps: int = 1) -> ElementTask:
    """Return the job of an operator."""
    source = Node(Kind.SOURCE, Function.COPY, F32, (2,), (Operand(Origin.STATE, F32, 0, 0, ROWS),))
    sink = Node(Kind.SINK, Function.COPY, F32, (2,), (Operand(Origin.NODE, F32, 0, 0, ROWS),))
    state = (Slot("s", F32, (2,)),)
    program = Program(state, (), (source, node, sink), ("a", "b", "c"), ("",) * 3)
    return ElementTask(program, (), lambda _: (), steps, 1)


@dataclass
class ElementRun(Run):
    """One member's run: its claim about the operator's output in the last step, or in the first.

    Attributes:
        task: the job.
        output: the output.
        after: the root of the state that the member claims to come of it.
        accumulators: returns what the member says of an accumulator of any element of a fold.
        is_first: whether it is the first step, after which the member claims what is told apart.
    """

    task: ElementTask
    output: TensorTree
    after: Digest
    accumulators: Callable[[int], int] = lambda _: 0
    is_first: bool = False

    def __post_init__(self) -> None:
        self.behaviour = Behaviour()

    @cached_property
    def history(self) -> Tree:
        """The tree over the claimed history."""
        count = -(-self.task.steps // self.task.checkpoint_every)
        return self._claim(Tag.HISTORY_NODE, count)

    def interval(self, first: int) -> Tree:
        """Return the tree over the states after the steps of an interval."""
        count = min(self.task.checkpoint_every, self.task.steps - first)
        return self._claim(Tag.INTERVAL_NODE, count)

    def _claim(self, tag: Tag, count: int) -> Tree:
        place = 0 if self.is_first else count - 1
        return RunLengthTree(tag, count, {0: self.task.start_root, place: self.after})

    @property
    def _outputs(self) -> Sequence[TensorTree]:
        return (
            self.task.state_tensor,
            *self.task.batch_tensors,
            self.output,
            self.task.state_tensor,
        )

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of a step, and the state after it."""
        del step
        return Tree(Tag.TRACE_NODE, [*(tensor.root for tensor in self._outputs), self.after])

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the state before a step."""
        del step
        return Tree(Tag.STATE_NODE, [self.task.state_tensor.root])

    def tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        """Return an operator's output, or a slot of the state or the batch."""
        del step
        if origin is Origin.NODE:
            return self._outputs[reference]
        return (
            self.task.state_tensor if origin is Origin.STATE else self.task.batch_tensors[reference]
        )

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the accumulators of an element, as many as there may be."""
        del step, element
        program = self.task.program
        size = program.arithmetic.accumulator_bytes or program.nodes[operator].dtype.width
        return cast("Array", _Accumulators(size, self.accumulators))


@dataclass(frozen=True)
class _Accumulators:
    """An array of any length, of numbers of so many bytes."""

    size: int
    get: Callable[[int], int]

    def __getitem__(self, places: Sequence[int]) -> Any:
        return pack_partials([self.get(place) for place in places], self.size)


def make_runs(
    task: ElementTask, node: Node, bits: Sequence[int], element: int = 0
) -> list[ElementRun]:
    """Return two runs that differ in the bits of an element and of those after it only."""
    runs = []
    for number, own in enumerate(bits):
        values = {0: 0, element: own} if element else {0: own}
        output = RunLengthTensor(node.dtype, node.shape, values)
        runs.append(ElementRun(task, output, bytes([number + 2]) * 32))
    return runs


def decide(
    referee: Twin, node: Node, bits: tuple[int, int], element: int = 0, steps: int = 1
) -> tuple[int | None, Ending]:
    """Let two members play about an element of an operator; return whose bits were right, and how.

    Nobody is if the first is None.
    """
    task = make_task(node, steps)
    court = Court(referee, task, make_runs(task, node, bits, element))
    winner, ending = court.finish(court.begin())
    return (None if winner is None else court.members.index(winner)), ending
