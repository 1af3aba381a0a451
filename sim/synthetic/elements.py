"""A job about one element of an operator's output, in a large step, with the truth and a lie.

All elements of an input are the same. Of the operator's output only one element is computed, and
all others are claimed to be 0: nobody disputes them, so that nobody ever computes them.
"""

from dataclasses import dataclass, replace

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import Digest
from moot.offchain.programs.graph import Kind, Node, Operand
from moot.offchain.programs.semantics import compute_element, compute_partials, finish
from moot.sim.synthetic.operators import OperatorRun, OperatorTask, make_task
from moot.sim.synthetic.run_length import RunLengthTensor

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


def make_runs(
    subject: Subject, arithmetic: Arithmetic = ORDERED
) -> tuple[OperatorRun, OperatorRun]:
    """Return the true run of a subject's job, of one step of OPERATORS operators, and a liar's.

    The factors of a contraction of floats are of the shorter type, if the arithmetic has one.
    """
    is_product = subject.node.kind is Kind.CONTRACT and not subject.node.multiplies_integers
    if arithmetic.short_factors is not None and is_product:
        subject = _shorten(subject, arithmetic.short_factors)
    task = make_task(
        subject.node,
        [each.tensor for each in subject.inputs],
        kept=_make_output(subject.node, {0: 0}),
        place=PLACE,
        operators=OPERATORS,
        arithmetic=arithmetic,
    )
    partials = _compute_partials(task, subject)
    return _claim(task, subject, partials, 0), _claim(task, subject, partials, 1)


def _shorten(subject: Subject, dtype: DType) -> Subject:
    """Return a contraction of the nearest numbers of a shorter type."""
    init, *factors = subject.node.operands
    operands = (init, *(replace(factor, dtype=dtype) for factor in factors))
    inputs = tuple(
        Input(dtype, it.shape, evaluate(Function.CONVERT, (it.dtype,), dtype, (it.bits,)))
        for it in subject.inputs
    )
    return replace(subject, node=replace(subject.node, operands=operands), inputs=inputs)


def _compute_partials(task: OperatorTask, subject: Subject) -> tuple[int, ...]:
    """Return the true accumulators of the element, if the operator folds, and its value."""
    node, arithmetic = subject.node, task.program.arithmetic

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place
        return task.inputs[operand.reference].get_bits(index)

    if not node.elements:
        return ()
    if node.kind.folds:
        partials = compute_partials(arithmetic, node, subject.element, 0, fetch)
        return (*partials, finish(arithmetic, node, partials[-1]))
    return (compute_element(arithmetic, node, subject.element, 0, fetch),)


def _claim(
    task: OperatorTask, subject: Subject, partials: tuple[int, ...], mask: int
) -> OperatorRun:
    """Return a run that is wrong about the element by the bits of a mask, or right."""
    node, element = subject.node, subject.element
    if partials:
        output = _make_output(node, {0: 0, element: partials[-1] ^ mask, element + 1: 0})
    else:
        output = (_WrongTensor if mask else RunLengthTensor)(node.dtype, node.shape, {0: 0})
    return OperatorRun(
        task, output, lambda place: partials[place] ^ (mask if place > subject.term else 0)
    )


def _make_output(node: Node, values: dict[int, int]) -> RunLengthTensor:
    """Return a tensor like the output of an operator, with other values from these elements on."""
    kept = {element: bits for element, bits in values.items() if element < node.elements}
    return RunLengthTensor(node.dtype, node.shape, kept or {0: 0})


class _WrongTensor(RunLengthTensor):
    """A tensor without elements that is claimed to have another top than it has."""

    @property
    def top(self) -> Digest:
        """The wrong top."""
        return bytes(31) + b"\x01"
