"""Rates: how long a program's steps take on one core, as they usually do and at the worst.

Whoever takes a job bounds its time before anything of it is run, from shapes alone: what a first
interval takes says nothing of values that its client has chosen for a later one. `python -m
moot.bench.rates` measures the rates, on values and accesses on which kernels are slowest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from math import prod

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import is_sum
from moot.offchain.arithmetic.functions import Function
from moot.offchain.planning.accesses import get_used
from moot.offchain.programs.cost import compute_operator_cost, count_bytes
from moot.offchain.programs.graph import Kind, Node, Program
from moot.offchain.programs.semantics import get_fold


class Work(Enum):
    """What an operator does, as its time goes."""

    PRODUCT = auto()
    CHAIN = auto()
    """A product whose factors are shorter than its sum."""
    INTEGER_PRODUCT = auto()
    """A product of integers, which is slow where they fit no short ones."""
    SUM = auto()
    """A sum of floats: of rows, or of what is scattered."""
    FOLD = auto()
    """Any other fold."""
    FUNCTION = auto()
    """A transcendental function of one operand."""
    POWER = auto()
    MAP = auto()
    COPY = auto()


@dataclass(frozen=True, slots=True)
class Rate:
    """Time for a scalar operation on one core, in nanoseconds.

    Attributes:
        usual_ns: on ordinary values.
        worst_ns: on the slowest that were found.
        element_ns: what an element of the output takes besides, at the worst.
        matrix_ns: likewise, each of the matrices that are multiplied.
    """

    usual_ns: float
    worst_ns: float
    element_ns: float = 0.0
    matrix_ns: float = 0.0


_COMMON: Mapping[Work, Rate] = {
    Work.INTEGER_PRODUCT: Rate(0.6, 60.0, 100.0, 60_000.0),
    Work.FOLD: Rate(6.0, 15.0),
    Work.FUNCTION: Rate(1.5, 8.0),
    Work.POWER: Rate(5.0, 50_000.0),
    Work.MAP: Rate(2.0, 25.0),
    Work.COPY: Rate(1.0, 4.0),
}
_ORDERED = {**_COMMON, Work.PRODUCT: Rate(0.05, 0.2, 25.0, 80.0), Work.SUM: Rate(2.0, 5.0)}
_RATES: Mapping[str, Mapping[Work, Rate]] = {
    "ordered": _ORDERED,
    "exact": {**_COMMON, Work.PRODUCT: Rate(0.2, 10.0, 40.0, 8_000.0), Work.SUM: Rate(4.0, 20.0)},
    "logged": {
        **_COMMON,
        Work.PRODUCT: Rate(0.3, 40.0, 400.0, 600.0),
        Work.SUM: Rate(10.0, 40.0),
        Work.FUNCTION: Rate(64.0, 350.0),
    },
    "hopper": {**_ORDERED, Work.CHAIN: Rate(0.4, 10.0, 300.0, 600.0)},
    "ampere": {**_ORDERED, Work.CHAIN: Rate(0.5, 15.0, 300.0, 600.0)},
}
"""Arithmetic -> work -> rate; an arithmetic of somebody else's is as slow as the slowest."""
HASHED_BYTE_NS = 1.5
"""Time to commit to a byte, with what it takes to write and to read it."""
OPERATOR_S = 100e-6
"""Time that any operator takes in a step, besides what it computes."""
PREPARED_S = 2e-3
"""Time to read, check and plan an operator, once."""
ACCUMULATOR_NS = 4_000.0
"""Time to list an accumulator of an element that is one of the output's type."""
WIDE_ACCUMULATOR_NS = 100_000.0
"""The same of a sum or a chain, by its readable definition."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a program takes, in seconds on one core.

    Attributes:
        prepared_s: before its first step.
        step_s: for a step, on ordinary values.
        worst_step_s: for a step, on any.
        state_s: to commit to a state.
        trace_s: to commit to all outputs of a step.
        accumulators_s: to list the accumulators of an element.
    """

    prepared_s: float
    step_s: float
    worst_step_s: float
    state_s: float
    trace_s: float
    accumulators_s: float

    def bound_answer(self, checkpoint_every: int) -> float:
        """Return the most that an answer in a match takes, if nothing of it is known any more.

        That is an interval of steps from a checkpoint, each with its state's root; the same steps
        once more up to the disputed one; its trace; and outputs and operands of an operator, with
        the accumulators of an element.
        """
        interval_s = checkpoint_every * (self.worst_step_s + self.state_s)
        return 2 * interval_s + 3 * self.worst_step_s + 2 * self.trace_s + self.accumulators_s


def estimate_timing(program: Program) -> Timing:
    """Return how long a program takes, from its shapes."""
    nodes, arithmetic = program.nodes, program.arithmetic
    usual_s = worst_s = OPERATOR_S * len(nodes)
    for node in nodes:
        rate = find_rate(arithmetic, find_work(node))
        usual_s += _count_operations(node) * rate.usual_ns * 1e-9
        worst_s += bound_operator(arithmetic, node)
    folds = (_time_accumulators(arithmetic, node) for node in nodes if node.kind.folds)
    return Timing(
        prepared_s=PREPARED_S * len(nodes),
        step_s=usual_s,
        worst_step_s=worst_s,
        state_s=count_bytes(program.state) * HASHED_BYTE_NS * 1e-9,
        trace_s=count_bytes(nodes) * HASHED_BYTE_NS * 1e-9,
        accumulators_s=max(folds, default=0.0),
    )


def bound_operator(arithmetic: Arithmetic, node: Node) -> float:
    """Return the most seconds that an operator computes in a step.

    Matrices may be many and small, and then it is not their products that take the time.
    """
    rate = find_rate(arithmetic, find_work(node))
    found_ns = _count_operations(node) * rate.worst_ns + node.elements * rate.element_ns
    if rate.matrix_ns:
        found_ns += _count_matrices(node) * rate.matrix_ns
    return found_ns * 1e-9


def _count_operations(node: Node) -> int:
    return max(compute_operator_cost(node).operations, node.elements)


def _count_matrices(node: Node) -> int:
    """Return how many matrices a contraction has at most, or parts of ones.

    Those variables are of a matrix that end the output's: those of one factor alone, and before
    them those of the other alone.
    """
    sizes = node.shape + node.fold_shape
    used = [get_used(operand, sizes) for operand in node.operands[1:]]
    live = [v for v in range(len(node.shape)) if sizes[v] != 1]
    runs = groupby(reversed(live), lambda v: tuple(v in own for own in used))
    elements, seen = 1, set[tuple[bool, ...]]()
    for owner, run in runs:
        if sum(owner) != 1 or owner in seen:
            break
        seen.add(owner)
        elements *= prod(sizes[v] for v in run)
    return node.elements // max(1, elements)


def _time_accumulators(arithmetic: Arithmetic, node: Node) -> float:
    """Return the seconds that it takes to list the accumulators of an element of a fold."""
    is_element = get_fold(arithmetic, node).is_finished
    each_ns = ACCUMULATOR_NS if is_element else WIDE_ACCUMULATOR_NS
    return node.fold_length * each_ns * 1e-9


def find_rate(arithmetic: Arithmetic, work: Work) -> Rate:
    """Return the rate of a kind of work."""
    known = _RATES.get(arithmetic.name)
    if known is not None:
        return known[work]
    rates = [rates[work] for rates in _RATES.values() if work in rates]
    return Rate(
        max(it.usual_ns for it in rates),
        max(it.worst_ns for it in rates),
        max(it.element_ns for it in rates),
        max(it.matrix_ns for it in rates),
    )


def find_work(node: Node) -> Work:
    """Return what an operator does."""
    if node.multiplies_integers:
        return Work.INTEGER_PRODUCT
    if node.kind is Kind.CONTRACT:
        return Work.CHAIN if node.has_short_factors else Work.PRODUCT
    if node.kind.folds:
        return Work.SUM if is_sum(node.function, node.dtype) else Work.FOLD
    if node.kind is Kind.MAP and node.function.is_transcendental:
        return Work.POWER if node.function is Function.POW else Work.FUNCTION
    return Work.MAP if node.kind in {Kind.MAP, Kind.RANDOM} else Work.COPY
