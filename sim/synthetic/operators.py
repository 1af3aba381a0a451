"""A job in which a liar claims one wrong element in the output of one operator of a large step.

All elements of an input are the same. Of the operator's output only one element is computed, and
all others are claimed to be 0: nobody disputes them, so that nobody ever computes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, compute_state_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.partials import pack_partials
from moot.offchain.programs.semantics import compute_element, compute_partials, finish
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.task import Task
from moot.sim.synthetic.run_length import RunLengthTensor, RunLengthTree, read_operands

OPERATORS = 1 << 12
PLACE = 0xAAA
"""The operator's index, to which the path through the tree turns left and right by turns."""


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor of the state whose elements all have these bits."""

    dtype: DType
    shape: tuple[int, ...]
    bits: int

    @property
    def tensor(self) -> RunLengthTensor:
        """The tensor with its tree."""
        return RunLengthTensor(self.dtype, self.shape, {0: self.bits})


@dataclass(frozen=True, slots=True)
class Subject:
    """An operator, with the element of its output that is in dispute.

    Attributes:
        node: the operator; an operand from node i is `inputs[i]`, at least one of which there is.
        inputs: what it can read.
        element: the element in dispute, if there are any elements.
        term: the fold step in dispute, of an operator that folds.
    """

    node: Node
    inputs: tuple[Input, ...]
    element: int = 0
    term: int = 0


@dataclass(frozen=True)
class OperatorTask(Task):
    """The job of a subject; `make_task` makes it."""

    subject: Subject

    @cached_property
    def start_root(self) -> Digest:
        """The root of the start state, in which the operator's output is 0."""
        return self.hash_state(make_output(self.subject.node, {0: 0}))

    @cached_property
    def inputs(self) -> tuple[RunLengthTensor, ...]:
        """The tensors that the operator can read."""
        return tuple(each.tensor for each in self.subject.inputs)

    def hash_state(self, output: RunLengthTensor) -> Digest:
        """Return the root of a state, given the operator's output in it."""
        return compute_state_root([tensor.root for tensor in (*self.inputs, output)])

    @cached_property
    def partials(self) -> tuple[int, ...]:
        """The true accumulators of the element, if the operator folds, and its value."""
        subject, arithmetic = self.subject, self.program.arithmetic

        def fetch(place: int, operand: Operand, index: int) -> int:
            del place
            return self.inputs[operand.reference].get_bits(index)

        if not subject.node.elements:
            return ()
        if subject.node.kind.folds:
            partials = compute_partials(arithmetic, subject.node, subject.element, 0, fetch)
            return (*partials, finish(arithmetic, subject.node, partials[-1]))
        return (compute_element(arithmetic, subject.node, subject.element, 0, fetch),)


def make_task(subject: Subject, arithmetic: Arithmetic = ORDERED) -> OperatorTask:
    """Return the job of a subject: one step of OPERATORS operators.

    The factors of a contraction of floats are of the shorter type, if the arithmetic has one.
    """
    is_product = subject.node.kind is Kind.CONTRACT and not subject.node.multiplies_integers
    if arithmetic.short_factors is not None and is_product:
        subject = _shorten(subject, arithmetic.short_factors)
    program = replace(_make_program(subject), arithmetic=arithmetic)
    return OperatorTask(program, (), lambda _: (), 1, 1, subject)


def _shorten(subject: Subject, dtype: DType) -> Subject:
    """Return a contraction of the nearest numbers of a shorter type."""
    init, *factors = subject.node.operands
    operands = (init, *(replace(factor, dtype=dtype) for factor in factors))
    inputs = tuple(
        Input(dtype, it.shape, evaluate(Function.CONVERT, (it.dtype,), dtype, (it.bits,)))
        for it in subject.inputs
    )
    return replace(subject, node=replace(subject.node, operands=operands), inputs=inputs)


def make_output(node: Node, values: dict[int, int]) -> RunLengthTensor:
    """Return a tensor like the output of an operator, with other values from these elements on."""
    kept = {element: bits for element, bits in values.items() if element < node.elements}
    return RunLengthTensor(node.dtype, node.shape, kept or {0: 0})


def make_rows(shape: Sequence[int]) -> tuple[Row, ...]:
    """Return the access that reads a tensor as it is."""
    return tuple(Row(size, 0, ((variable, 1),)) for variable, size in enumerate(shape))


def _make_program(subject: Subject) -> Program:
    inputs, node = subject.inputs, subject.node
    slots = [*((each.dtype, each.shape) for each in inputs), (node.dtype, node.shape)]
    sources = [_copy(Kind.SOURCE, Origin.STATE, i, *slots[i]) for i in range(len(inputs))]
    filler = _copy(Kind.MOVE, Origin.NODE, 0, *slots[0])
    sinks = [_copy(Kind.SINK, Origin.NODE, i, *slots[i]) for i in range(len(inputs))]
    sinks.append(_copy(Kind.SINK, Origin.NODE, PLACE, *slots[-1]))
    after = OPERATORS - PLACE - 1 - len(sinks)
    nodes = (
        *sources,
        *[filler] * (PLACE - len(sources)),
        node,
        *[filler] * after,
        *sinks,
    )
    state = tuple(Slot(f"s{i}", *slot) for i, slot in enumerate(slots))
    names = tuple(f"n{i}" for i in range(OPERATORS))
    return Program(state, (), nodes, names, ("",) * OPERATORS)


def _copy(kind: Kind, origin: Origin, reference: int, dtype: DType, shape: tuple[int, ...]) -> Node:
    operand = Operand(origin, dtype, reference, 0, make_rows(shape))
    return Node(kind, Function.COPY, dtype, shape, (operand,))


class _WrongTensor(RunLengthTensor):
    """A tensor without elements that is claimed to have another top than it has."""

    @property
    def top(self) -> Digest:
        """The wrong top."""
        return bytes(31) + b"\x01"


class OperatorRun:
    """One provider's run of such a job: whatever a dispute may ask of it.

    Args:
        task: the job.
        is_honest: whether it tells the truth about the element.
    """

    def __init__(self, task: OperatorTask, *, is_honest: bool) -> None:
        # Nothing is run or kept: a dispute asks for no more than the methods below.
        self.task = self._job = task
        self.behaviour = Behaviour()
        self._mask = 0 if is_honest else 1

    @cached_property
    def _output(self) -> RunLengthTensor:
        subject, values = self._job.subject, self._job.partials
        if not values:
            kind = _WrongTensor if self._mask else RunLengthTensor
            return kind(subject.node.dtype, subject.node.shape, {0: 0})
        bits = {0: 0, subject.element: values[-1] ^ self._mask, subject.element + 1: 0}
        return make_output(subject.node, bits)

    @cached_property
    def history(self) -> Tree:
        """The tree over the state after the step."""
        return Tree(Tag.HISTORY_NODE, [self._job.hash_state(self._output)])

    def interval(self, first: int) -> Tree:
        """Return the tree over the state after the only step."""
        del first
        return Tree(Tag.INTERVAL_NODE, [self._job.hash_state(self._output)])

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of all operators, and the state after the step."""
        del step
        return self._trace

    @cached_property
    def _trace(self) -> Tree:
        roots = [tensor.root for tensor in self._job.inputs]
        first_sink = OPERATORS - len(roots) - 1
        leaves = dict(enumerate((*roots, roots[0])))
        leaves |= {PLACE: self._output.root, PLACE + 1: roots[0]}
        leaves |= {first_sink + i: root for i, root in enumerate((*roots, self._output.root))}
        leaves[OPERATORS] = self._job.hash_state(self._output)
        return RunLengthTree(Tag.TRACE_NODE, OPERATORS + 1, leaves)

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the tensors of the state before or after the step."""
        roots = [tensor.root for tensor in (*self._job.inputs, self._get_slot(step))]
        return Tree(Tag.STATE_NODE, roots)

    def _get_slot(self, step: int) -> RunLengthTensor:
        return self._output if step else make_output(self._job.subject.node, {0: 0})

    def tensor(self, step: int, origin: Origin, reference: int) -> RunLengthTensor:
        """Return the operator's output, or one of its inputs, with its tree."""
        if origin is Origin.STATE and reference == len(self._job.inputs):
            return self._get_slot(step)
        return self._output if reference == PLACE else self._job.inputs[reference]

    def operands(self, step: int, operator: int) -> list[Array | None]:
        """Return the tensors that an operator reads, None for its constants."""
        return read_operands(self, step, self.task.program.nodes[operator])

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the claimed accumulators of the element in dispute, the initial one first."""
        del step, operator, element
        subject, (*partials, _) = self._job.subject, self._job.partials
        lies = (bits ^ self._mask for bits in partials[subject.term + 1 :])
        size = self._job.program.arithmetic.accumulator_bytes or subject.node.dtype.width
        return pack_partials([*partials[: subject.term + 1], *lies], size)
