"""The operators by which lines are sorted, computed by a sort of each line.

A program has no operator for it. It compares all pairs of a line: an element's rank is the number
of those that come before it, and a scatter puts its position there. Which pairs are counted is a
function of how two elements compare (less, equal, greater, either of them NaN) and of how their
positions do. So the operators between are tried on every such case, in whatever form they are.

Positions are a counter 0, 1, 2, ... that is a tensor like any other: where it is something else,
the operators run one by one.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import Sizes, Strided, is_inside, row_major
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.planning.readings import Reading, is_identity
from moot.offchain.planning.roles import as_folded
from moot.offchain.planning.vertical import is_fold_of
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program

_LEAST_LINE = 17
"""Elements of a line that are worth a sort; what a line of fewer reads may be computed early."""

_COMPARISONS: Mapping[Function, Callable[[float, float], bool]] = {
    Function.LT: operator.lt,
    Function.LE: operator.le,
    Function.GT: operator.gt,
    Function.GE: operator.ge,
    Function.EQ: operator.eq,
    Function.NE: operator.ne,
}

_LOGIC: Mapping[Function, Callable[..., bool]] = {
    Function.AND: operator.and_,
    Function.OR: operator.or_,
    Function.XOR: operator.xor,
    Function.NOT: operator.not_,
}

_NUMBERS = ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0))
_NANS = ((math.nan, 0.0), (0.0, math.nan), (math.nan, math.nan))
_KEYS = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})

_Case = tuple[Sequence[float], Sequence[float]]
"""The values of the two elements of a pair, and their positions."""

_Expression = Callable[[_Case], float]


_MOST_LINE = (1 << 31) - 1
"""Elements of a line that the kernel's counters of 32 bits hold."""


@dataclass(frozen=True, slots=True)
class Sort(Form):
    """The operators of a sort.

    Attributes:
        indices: those that nobody else needs, ascending; the last one is the order.
        nodes: all of them with their indices, ascending.
        sizes: the extents of the lines' variables, and of a line.
        line: where they are in the tensor.
        target: the order's axis along which it has a line's positions.
        is_descending: whether the largest come first; equal elements keep their order.
        operands: the accesses to the tensor and to the counter.
    """

    indices: tuple[int, ...]
    nodes: tuple[tuple[int, Node], ...]
    sizes: Sizes
    line: Strided
    target: int
    is_descending: bool
    operands: tuple[Operand, Operand]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "length",
            f"a line has at least one element, and at most {_MOST_LINE}",
            lambda form: 0 not in form.sizes and form.sizes[-1] <= _MOST_LINE,
        ),
        Precondition(
            "types",
            "the tensor is FLOAT32, INT32 or INT64, and the counter INT64",
            lambda form: form.operands[0].dtype in _KEYS and form.operands[1].dtype is DType.INT64,
        ),
        Precondition(
            "inside",
            "lines begin and end inside of the tensor",
            lambda form: is_inside(
                form.line, form.sizes, math.prod(row.size for row in form.operands[0].rows)
            ),
        ),
        Precondition(
            "earlier",
            "the tensor and the counter are no part of the sort",
            lambda form: (
                not {o.reference for o in form.operands if o.origin is Origin.NODE}.intersection(
                    dict(form.nodes)
                )
            ),
        ),
    )


def find_sorts(
    program: Program, fusible: Collection[int], readers: Mapping[int, Sequence[int | None]]
) -> dict[int, Sort]:
    """Return the sorts among operators by each of their members.

    Args:
        program: the program.
        fusible: the operators that may be computed together with others.
        readers: what reads each operator's output, None for someone outside.
    """
    members: dict[int, Sort] = {}
    found = [_as_sort(program.nodes, index) for index in sorted(fusible)]
    sorts = [sort for sort in found if sort is not None]
    if sorts:
        inside = set(fusible)
        sorts = [sort for sort in sorts if inside.issuperset(sort.indices)]
    while True:
        inside = {index for sort in sorts for index in sort.indices}
        closed = [sort for sort in sorts if _is_closed(sort, readers, inside)]
        if len(closed) == len(sorts):
            break
        sorts = closed
    for sort in sorts:
        own = replace(sort, indices=tuple(i for i in sort.indices if i not in members))
        members.update(dict.fromkeys(own.indices, own))
    return members


def _is_closed(
    sort: Sort, readers: Mapping[int, Sequence[int | None]], inside: Collection[int]
) -> bool:
    """Whether only sorts read what a sort has besides the order."""
    *inner, _ = sort.indices
    return all(reader in inside for index in inner for reader in readers.get(index, [None]))


def _as_sort(nodes: Sequence[Node], index: int) -> Sort | None:
    """Return the sort whose order an operator is, if it is one."""
    node = nodes[index]
    sizes = _find_lines(node)
    counted = _find_counted(nodes, node.operands[2], sizes) if sizes else None
    if sizes is None or counted is None:
        return None
    all_pairs, counter = nodes[counted[-1]], node.operands[1]
    pairs = _Pairs(nodes, all_pairs.shape, counter)
    is_before = pairs.parse_root(all_pairs.operands[0])
    element = pairs.element
    is_descending = _find_direction(is_before, element.dtype) if is_before and element else None
    if is_descending is None or element is None:
        return None
    members = sorted({index, *counted, *pairs.members})
    return make_form(
        Sort,
        tuple(members),
        tuple((member, nodes[member]) for member in members),
        sizes,
        pairs.line,
        node.targets[0],
        is_descending,
        (element, counter),
    )


def _find_lines(node: Node) -> Sizes | None:
    """Return the extents of the lines that a scatter orders by ranks, None if it does not.

    Its source is the counter along its fold, and its index a rank for every element of all lines.
    """
    form = (node.kind, node.function, node.dtype, len(node.targets), len(node.fold_shape))
    if form != (Kind.SCATTER, Function.COPY, DType.INT64, 1, 1):
        return None
    (target,) = node.targets
    sizes = (*node.shape[:target], *node.shape[target + 1 :], node.shape[target])
    init, counter, ranks = node.operands
    is_whole = init.origin is Origin.IMMEDIATE and node.fold_length == sizes[-1] >= _LEAST_LINE
    if not is_whole or 0 in sizes:
        return None
    domain = node.shape + node.fold_shape
    *rows, along = row_major(sizes)
    placed = _drop_ones((*rows[:target], 0, *rows[target:], along), domain)
    is_counted = _locate(counter, domain) == Strided(0, (*(0 for _ in node.shape), 1))
    return sizes if is_counted and _locate(ranks, domain) == Strided(0, placed) else None


def _locate(operand: Operand, sizes: Sizes) -> Strided | None:
    """Return an access to a tensor that is affine, with strides of 0 along axes of one element."""
    if operand.origin is Origin.IMMEDIATE:
        return None
    reading = Reading(operand, sizes)
    if not reading.is_view:
        return None
    return Strided(reading.strided.offset, _drop_ones(reading.strided.strides, sizes))


def _drop_ones(strides: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    return tuple(step if size > 1 else 0 for step, size in zip(strides, sizes, strict=True))


def _find_counted(nodes: Sequence[Node], ranks: Operand, sizes: Sizes) -> list[int] | None:
    """Return the operators that count the pairs of each element; the last one has all pairs."""
    found, place = [], ranks
    while place.origin is Origin.NODE and nodes[place.reference].kind is Kind.REDUCE:
        found.append(place.reference)
        place = nodes[place.reference].operands[1]
    is_sum = all(
        (nodes[i].function, nodes[i].dtype, nodes[i].operands[0].origin, nodes[i].operands[0].value)
        == (Function.ADD, DType.INT64, Origin.IMMEDIATE, 0)
        for i in found
    )
    if not is_sum or place.origin is not Origin.NODE or not found or nodes[found[0]].shape != sizes:
        return None
    *outer, inner = found
    if len(outer) > 1 or any(not is_fold_of(nodes[i], inner, nodes[inner]) for i in outer):
        return None
    folded, pairs = as_folded(nodes[inner]), nodes[place.reference]
    if folded is None or folded.segments > 1 or (folded.lanes is None) == bool(outer):
        return None
    form = (pairs.kind, pairs.function, pairs.shape)
    is_whole = folded.columns == sizes[-1] and is_identity(folded.operand, folded.sizes)
    is_of_pairs = form == (Kind.MAP, Function.CONVERT, (*sizes, sizes[-1]))
    return [*found, place.reference] if is_whole and is_of_pairs else None


class _Pairs:
    """The maps from pairs of elements of a line to whether one comes before the other.

    Args:
        nodes: the program's operators.
        sizes: the extents of the lines' variables, of the element and of the other one.
        counter: an access to the tensor of positions.

    Attributes:
        members: the indices of the maps.
        element: an access to the tensor, None before one is met.
        line: where the lines are in it.
    """

    def __init__(self, nodes: Sequence[Node], sizes: Sizes, counter: Operand) -> None:
        self._nodes, self._sizes = nodes, sizes
        self._counter = (counter.origin, counter.reference)
        self.members: set[int] = set()
        self.element: Operand | None = None
        self.line = Strided(0, ())

    def parse_root(self, operand: Operand) -> _Expression | None:
        """Return what is counted, as a function of a case, or None if it is anything else."""
        return self._parse(operand, self._sizes, tuple(range(len(self._sizes))))

    def _parse(self, operand: Operand, sizes: Sizes, axes: Sequence[int]) -> _Expression | None:
        """Return an operand of a map with these sizes, whose axes are these of the pairs."""
        access = _locate(operand, sizes)
        if access is None or operand.origin is not Origin.NODE:
            return None
        node = self._nodes[operand.reference]
        if node.kind is not Kind.MAP or node.dtype is not DType.BOOL or access.offset:
            return None
        steps = {axes[v]: step for v, step in enumerate(access.strides) if step}
        nested = self._match(node.shape, steps)
        if nested is None:
            return None
        self.members.add(operand.reference)
        if node.function in _COMPARISONS:
            ends = [self._parse_leaf(o, node.shape, nested) for o in node.operands]
            is_of_one_kind = len({end[0] for end in ends if end is not None}) == 1
            known = [end[1] if end is not None and is_of_one_kind else None for end in ends]
            return _apply(_COMPARISONS[node.function], known)
        if node.function in _LOGIC:
            parts = [self._parse(o, node.shape, nested) for o in node.operands]
            return _apply(_LOGIC[node.function], parts)
        return None

    def _match(self, shape: Sizes, steps: Mapping[int, int]) -> list[int] | None:
        """Return which of the pairs' axes a map's axes are, -1 for those of one element."""
        wanted = {step: axis for axis, step in steps.items()}
        nested = []
        for size, step in zip(shape, row_major(shape), strict=True):
            axis = -1 if size == 1 else wanted.pop(step, None)
            if axis is None or (axis >= 0 and self._sizes[axis] != size):
                return None
            nested.append(axis)
        return None if wanted else nested

    def _parse_leaf(
        self, operand: Operand, sizes: Sizes, axes: Sequence[int]
    ) -> tuple[bool, _Expression] | None:
        """Return an element of the pair or its position, after whether it is its position."""
        access = _locate(operand, sizes)
        if access is None:
            return None
        strides = [0] * len(self._sizes)
        for axis, step in zip(axes, access.strides, strict=True):
            strides[axis] += step
        *outer, one, other = strides
        if bool(one) == bool(other):
            return None
        place, line = int(bool(other)), Strided(access.offset, (*outer, one or other))
        if (operand.origin, operand.reference) == self._counter:
            is_position = line == Strided(0, (*(0 for _ in outer), 1))
            return (True, lambda case: case[1][place]) if is_position else None
        if self.element is None:
            self.element, self.line = operand, line
        known = (self.element.origin, self.element.reference, self.line)
        is_same = known == (operand.origin, operand.reference, line)
        return (False, lambda case: case[0][place]) if is_same else None


def _apply(
    function: Callable[..., bool], operands: Sequence[_Expression | None]
) -> _Expression | None:
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    return lambda case: function(*(operand(case) for operand in known))


def _find_direction(is_before: _Expression, dtype: DType) -> bool | None:
    """Return whether a line's largest come first, None if what is counted does not sort it.

    In a case, the element is the first of the two, and the other one is counted if it comes before.
    """
    if dtype not in _KEYS:
        return None
    numbers = (*_NUMBERS, *_NANS) if dtype is DType.FLOAT32 else _NUMBERS
    cases = list(product(numbers, _NUMBERS))
    found = [bool(is_before(case)) for case in cases]
    for is_descending in (False, True):
        if found == [_comes_before(*case, is_descending=is_descending) for case in cases]:
            return is_descending
    return None


def _comes_before(
    elements: Sequence[float], places: Sequence[float], *, is_descending: bool
) -> bool:
    """Whether the second of two elements comes before the first one in a sorted line."""
    one, other = (math.inf if math.isnan(element) else element for element in elements)
    if one == other:
        return places[1] < places[0]
    return (other > one) is is_descending
