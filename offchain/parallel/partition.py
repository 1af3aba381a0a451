"""The partition of a program's operators among workers that each have a part of the batch.

A tensor is whole on every worker, or shared out along the batch: seen as an array of the shape
(outer, samples, inner), each worker has the samples from one cut to the next. An operator is
computed in parts if every worker then reads only what it has: along a dimension of its output, or,
where it is an exact sum, along one of its fold. Otherwise what it reads is first made whole, and
all workers compute all of it.

A step of several batches, whose gradients are added up in their order, can be shared out by batches
instead. Then one worker owns all that depends on its batches alone, and nobody else computes it;
what depends on several workers' is computed by all alike, after what it reads was made whole. The
program, and so its order of sums, is the same for any number of workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from math import prod

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT, is_sum
from moot.offchain.errors import ParallelError, UsageError
from moot.offchain.planning.accesses import restrict
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row
from moot.offchain.programs.rounding.roots import has_slot

Place = tuple[Origin, int]
"""A tensor: where it comes from, and its number there."""

_ANY = range(1 << 62)
"""The values that an index may have, for all that is known beforehand."""


class Share(Enum):
    """What a worker computes of an operator."""

    ALL = "all of it"
    OUTPUT = "a part of its output"
    FOLD = "a part of each sum"
    OWNED = "all of it, if it is the owner"


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part of an operator.

    Attributes:
        share: what it computes.
        variable: the variable that is shared out, of the output or of the fold.
        whole: tensors that have to be made whole before.
        inner: elements of the output between one sample and the next, if it is shared out.
        owner: the worker that computes it, if one does alone.
    """

    share: Share
    variable: int = 0
    whole: tuple[Place, ...] = ()
    inner: int | None = None
    owner: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """The parts of all operators.

    Attributes:
        cuts: the first sample, or batch, of each worker, and the number of all.
        parts: one for each operator.
        is_of_batches: whether whole batches are shared out.
    """

    cuts: tuple[int, ...]
    parts: tuple[Part, ...]
    is_of_batches: bool = False

    def find_owner(self, operator: int) -> int | None:
        """Return the worker that computes an operator alone, None where it is none.

        Where a dispute about a run has located an operator, this is whose fault it was.
        """
        part = self.parts[operator]
        return part.owner if part.share is Share.OWNED else None


def count_samples(program: Program) -> int:
    """Return the extent of the first dimension of every tensor of the batch.

    Raises:
        ParallelError: they have not one in common, or one of them is the root of a rounding log.
    """
    if has_slot(program):
        raise ParallelError(
            "workers do not read rounding logs; choose 1 worker, or another arithmetic"
        )
    extents = {slot.shape[0] if slot.shape else 0 for slot in program.batch}
    if len(extents) != 1 or 0 in extents:
        raise ParallelError(
            "the batch's tensors have no first dimension in common to be shared; choose 1 worker"
        )
    return extents.pop()


def count_batches(program: Program, batches: int) -> int:
    """Return the number of batches of a step, which the tensors of its batch belong to in turn.

    Raises:
        ParallelError: the tensors do not belong to so many.
    """
    if has_slot(program):
        raise ParallelError(
            "workers do not read rounding logs; choose 1 worker, or another arithmetic"
        )
    size, rest = divmod(len(program.batch), batches)
    each = [
        [(slot.dtype, slot.shape) for slot in program.batch[k * size : (k + 1) * size]]
        for k in range(batches)
    ]
    if rest or not size or any(slots != each[0] for slots in each):
        raise ParallelError(
            f"the {len(program.batch)} tensors of a step are not those of {batches} batches; "
            "capture a recipe that accumulates so many"
        )
    return batches


def split_evenly(program: Program, workers: int) -> tuple[int, ...]:
    """Return how many samples of a batch each of so many workers gets.

    Raises:
        UsageError: there are more workers than samples, or none.
        ParallelError: the batch cannot be shared out.
    """
    samples = count_samples(program)
    if not 1 <= workers <= samples:
        raise UsageError(
            f"the batch has {samples} samples, which {workers} workers can't share; choose from 1 "
            f"to {samples} workers"
        )
    return tuple((samples + place) // workers for place in reversed(range(workers)))


def make_cuts(shares: Sequence[int], count: int, what: str = "samples") -> tuple[int, ...]:
    """Return the cuts of a batch whose workers take so many samples each, or of several batches.

    Raises:
        ParallelError: the shares are not a split of it.
    """
    if min(shares, default=-1) < 0 or sum(shares) != count:
        raise ParallelError(f"the shares {list(shares)} are no split of the batch's {count} {what}")
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


def partition_batches(program: Program, cuts: tuple[int, ...]) -> Partition:
    """Return what each worker computes where each has some of a step's batches."""
    size = len(program.batch) // cuts[-1]
    ranks = [rank for rank, (a, b) in enumerate(pairwise(cuts)) for _ in range(a, b)]
    owners = {(Origin.BATCH, k): ranks[k // size] for k in range(len(program.batch))}
    joint: set[Place] = set()
    parts = []
    for index, node in enumerate(program.nodes):
        places = dict.fromkeys(map(get_place, node.operands))
        owned = {place: owners[place] for place in places if place in owners}
        is_joint = len(set(owned.values())) > 1 or not joint.isdisjoint(places)
        if index >= program.first_sink or is_joint:
            parts.append(Part(Share.ALL, whole=tuple(owned)))
            for place in owned:
                owners.pop(place)
                joint.add(place)
            joint.add((Origin.NODE, index))
        elif owned:
            (owner,) = set(owned.values())
            parts.append(Part(Share.OWNED, owner=owner))
            owners[Origin.NODE, index] = owner
        else:
            parts.append(Part(Share.ALL))
    return Partition(cuts, tuple(parts), is_of_batches=True)


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
