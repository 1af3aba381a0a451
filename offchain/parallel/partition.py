"""The partition of a program's operators among workers that each have a part of the batch.

A tensor is whole on every worker, or shared out along the batch: seen as an array of the shape
(outer, samples, inner), each worker has the samples from one cut to the next. An operator is
computed in parts if every worker then reads only what it has: along a dimension of its output, or,
where it is an exact sum, along one of its fold. Otherwise what it reads is first made whole, and
all workers compute all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from math import prod

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.exact import EXACT, is_sum
from offchain.errors import ParallelError
from offchain.planning.accesses import restrict
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row
from offchain.programs.rounding.roots import has_slot

Place = tuple[Origin, int]
"""A tensor: where it comes from, and its number there."""

_ANY = range(1 << 62)
"""The values that an index may have, for all that is known beforehand."""


class Share(Enum):
    """What a worker computes of an operator."""

    ALL = "all of it"
    OUTPUT = "a part of its output"
    FOLD = "a part of each sum"


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part of an operator.

    Attributes:
        share: what it computes.
        variable: the variable that is shared out, of the output or of the fold.
        whole: tensors that have to be made whole before.
        inner: elements of the output between one sample and the next, if it is shared out.
    """

    share: Share
    variable: int = 0
    whole: tuple[Place, ...] = ()
    inner: int | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """The parts of all operators.

    Attributes:
        cuts: the first sample of each worker, and the number of all samples.
        parts: one for each operator.
    """

    cuts: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def samples(self) -> int:
        """How many samples a batch has."""
        return self.cuts[-1]


def count_samples(program: Program) -> int:
    """Return the extent of the first dimension of every tensor of the batch.

    Raises:
        ParallelError: they have not one in common, or one of them is the root of a rounding log.
    """
    if has_slot(program):
        raise ParallelError("workers do not read rounding logs; share out a program without them")
    extents = {slot.shape[0] if slot.shape else 0 for slot in program.batch}
    if len(extents) != 1 or 0 in extents:
        raise ParallelError("the batch's tensors have no first dimension in common to be shared")
    return extents.pop()


def make_cuts(shares: Sequence[int], samples: int) -> tuple[int, ...]:
    """Return the cuts of a batch whose workers take so many samples each.

    Raises:
        ParallelError: the shares are not a split of the batch.
    """
    if min(shares, default=-1) < 0 or sum(shares) != samples:
        raise ParallelError(
            f"the shares {list(shares)} are no split of the batch's {samples} samples"
        )
    return tuple(sum(shares[:place]) for place in range(len(shares) + 1))


def partition(program: Program, cuts: tuple[int, ...]) -> Partition:
    """Return what each worker computes; it depends on the program and on the cuts alone."""
    samples, parts = cuts[-1], []
    slots = enumerate(program.batch)
    inner = {(Origin.BATCH, k): s.elements // samples for k, s in slots if s.elements}
    for index, node in enumerate(program.nodes):
        shared = {p: inner[p] for p in map(get_place, node.operands) if p in inner}
        part = Part(Share.ALL)
        if shared:
            part = _find_part(node, program.arithmetic, shared, cuts)
        if index >= program.first_sink and part.inner is not None:
            part = Part(Share.ALL, whole=tuple(shared))
        for place in part.whole:
            inner.pop(place)
        if part.inner is not None:
            inner[Origin.NODE, index] = part.inner
        parts.append(part)
    return Partition(cuts, tuple(parts))


def get_place(operand: Operand) -> Place:
    """Return the tensor that an operand reads."""
    return operand.origin, operand.reference


def get_range(node: Node, variable: int, cuts: Sequence[int], rank: int) -> range:
    """Return a worker's values of a variable that is shared out."""
    each = (node.shape + node.fold_shape)[variable] // cuts[-1]
    return range(cuts[rank] * each, cuts[rank + 1] * each)


def cut(node: Node, variable: int, values: range) -> Node:
    """Return the operator for some values of one of its variables."""
    sizes = list(node.shape + node.fold_shape)
    ranges = [range(size) for size in sizes]
    sizes[variable], ranges[variable] = len(values), values
    rank = len(node.shape)
    ranges += [_ANY] * len(node.operands)
    operands = tuple(restrict(operand, ranges) for operand in node.operands)
    fold_shape = tuple(sizes[rank:])
    return replace(node, shape=tuple(sizes[:rank]), fold_shape=fold_shape, operands=operands)


def _find_part(
    node: Node, arithmetic: Arithmetic, shared: dict[Place, int], cuts: tuple[int, ...]
) -> Part:
    """Return the part of an operator that reads tensors which are shared out."""
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    for variable, size in enumerate(sizes):
        if 0 in sizes or size % cuts[-1] or variable in node.targets:
            continue
        is_output = variable < rank
        if not is_output and not _adds_up(node, arithmetic, shared):
            break
        if _is_local(node, variable, shared, cuts):
            inner = size // cuts[-1] * prod(node.shape[variable + 1 :])
            return (
                Part(Share.OUTPUT, variable, (), inner) if is_output else Part(Share.FOLD, variable)
            )
    return Part(Share.ALL, whole=tuple(shared))


def _adds_up(node: Node, arithmetic: Arithmetic, shared: dict[Place, int]) -> bool:
    """Whether sums of parts of a fold make the whole, and everybody has its initial value."""
    return (
        arithmetic == EXACT
        and node.kind in (Kind.CONTRACT, Kind.REDUCE)
        and is_sum(node.function, node.dtype)
        and get_place(node.operands[0]) not in shared
    )


def _is_local(node: Node, variable: int, shared: dict[Place, int], cuts: tuple[int, ...]) -> bool:
    """Whether every worker reads only samples of its own."""
    extents = [range(size) for size in node.shape + node.fold_shape]
    for worker, (first, stop) in enumerate(pairwise(cuts)):
        if first == stop:
            continue
        ranges = list(extents)
        ranges[variable] = get_range(node, variable, cuts, worker)
        for operand in node.operands:
            if (inner := shared.get(get_place(operand))) is None:
                continue
            span = find_span(operand.rows, ranges, cuts[-1], inner)
            if span and not first <= span[0] <= span[-1] < stop:
                return False
    return True


def find_span(rows: Sequence[Row], ranges: Sequence[range], samples: int, inner: int) -> range:
    """Return samples among which are all that an access reads on a part of its domain.

    Args:
        rows: the access.
        ranges: the values of its variables there; variables beyond them may have any.
        samples: how many there are.
        inner: elements of the tensor between one sample and the next.
    """
    period, stride = samples * inner, 1
    low = high = 0
    for row in reversed(rows):
        inside = _find_inside(row, ranges)
        if not inside:
            return range(0)
        if stride % period:
            if stride * row.size > period:
                return range(samples)
            low, high = low + stride * inside[0], high + stride * inside[-1]
        stride *= row.size
    return range(low // inner, high // inner + 1)


def _find_inside(row: Row, ranges: Sequence[range]) -> range:
    """Return coordinates among which are all of a row's that are in range."""
    if any(variable >= len(ranges) for variable, _ in row.terms):
        return range(row.size)
    ends = [sorted((c * ranges[v][0], c * ranges[v][-1])) for v, c in row.terms]
    low = row.offset + sum(end[0] for end in ends)
    high = row.offset + sum(end[1] for end in ends)
    return range(max(0, -(-low // row.divisor)), min(row.size, high // row.divisor + 1))
