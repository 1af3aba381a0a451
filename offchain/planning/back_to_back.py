"""Back-to-back products: a contraction, a region on its rows, and the contraction that reads these.

The scores of attention are such: a product of queries and keys, a softmax of every row, and the
product with the values. In the gradients other contractions fold the columns of such a matrix, row
after row. A backend may compute a block of rows from end to end, so that what lies between the
products never leaves its cache. Every fold keeps its order.

Products of bfloat16 are joined on devices alone, where a launch is worth saving. So a product that
shares a factor with the first one, and folds columns of other matrices like its own, joins them:
the gradient of values, which folds the weights, runs beside that of keys.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import ClassVar, Generic, TypeVar

from moot.offchain.planning.accesses import collapse, find_strided, get_used, row_major
from moot.offchain.planning.assembly import list_accesses
from moot.offchain.planning.preconditions import Form, Precondition
from moot.offchain.planning.readings import is_identity
from moot.offchain.planning.roles import Group, Member, Role
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program

_LEAST_ELEMENTS = 1 << 18
"""Elements of the first product beyond which a core's second cache does not hold it."""

_LEAST_ROWS = 32
"""Rows of a matrix that are worth a product of their own."""

_MOST_FACTOR_ELEMENTS = 1 << 20
"""Elements of a right factor that is read again for every block of rows."""

_MAX_EARLY = 16
"""The greatest number of tasks that run before a region, so that a contraction may follow it."""

_MAX_LATE = 16
"""The greatest number of tasks that run after a region, so that a contraction may wait for it."""

_AXES_OF_MATRIX = 2

MOST_ACROSS = 2
"""Contractions of the columns of a region's matrices that run with it."""

_UnitT = TypeVar("_UnitT")


@dataclass(frozen=True, slots=True)
class BackToBack(Form):
    """A contraction, a region on its rows, and perhaps contractions of the region's values.

    Attributes:
        first: index of the first contraction; nothing but the region reads its output.
        group: the region, whose columns are the contraction's.
        last: index of the contraction that folds the rows of an output of the region, if any.
        middle: index of that output.
        across: contractions that fold columns of such matrices, each from the first row to the last
            one, and the index of what each folds: `middle`, what the region reads, or what is
            there before it, with as many rows and columns.
        nodes: the contractions by index, in this order.
    """

    first: int
    group: Group
    last: int | None
    middle: int | None
    across: tuple[tuple[int, int], ...]
    nodes: Mapping[int, Node]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "rows",
            "the region is on whole rows, which are those of the first contraction",
            lambda form: (
                form.group.is_of_rows
                and not form.group.is_wide
                and form.nodes[form.first].shape[-1:] == (form.group.columns,)
            ),
        ),
        Precondition(
            "steps",
            "every contraction has at least one step, and the last folds a row",
            lambda form: (
                all(node.fold_length > 0 for node in form.nodes.values())
                and (form.last is None or form.nodes[form.last].fold_length == form.group.columns)
            ),
        ),
        Precondition(
            "middle",
            "what contractions fold is a value of the region, or is there before it",
            lambda form: (
                (form.last is None or form.middle is not None)
                and (form.middle is None or form.middle in form.group.indices)
            ),
        ),
        Precondition(
            "across",
            f"at most {MOST_ACROSS} contractions fold columns",
            lambda form: (
                len(form.across) <= MOST_ACROSS
                and all(index in form.nodes for index, _ in form.across)
            ),
        ),
    )

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices of the operators, ascending."""
        return tuple(sorted([*self.nodes, *self.group.indices]))


def join_products(
    program: Program,
    order: Sequence[_UnitT],
    readers: Mapping[int, Sequence[int | None]],
    alone: Collection[int],
    list_indices: Callable[[_UnitT], Sequence[int]],
) -> list[_UnitT | BackToBack]:
    """Return an order in which regions are joined with the contractions before and after them.

    Args:
        program: the program.
        order: what runs together, each after those that it reads.
        readers: what reads each output, None for someone outside.
        alone: operators that run by themselves.
        list_indices: returns the operators that run together.
    """
    joining = _Joining(program, order, readers, alone, list_indices)
    for place, unit in enumerate(order):
        if isinstance(unit, Group) and unit.is_of_rows and not unit.is_wide:
            joining.join(place, unit)
    return joining.list_units()


class _Joining(Generic[_UnitT]):
    """The joining of a run's regions; its arguments are those of `join_products`."""

    def __init__(
        self,
        program: Program,
        order: Sequence[_UnitT],
        readers: Mapping[int, Sequence[int | None]],
        alone: Collection[int],
        list_indices: Callable[[_UnitT], Sequence[int]],
    ) -> None:
        self._program, self._order, self._readers = program, order, readers
        self._list_indices = list_indices
        self._places = {i: place for place, unit in enumerate(order) for i in list_indices(unit)}
        self._free: set[int] = {
            unit for unit in order if isinstance(unit, int) and unit not in alone
        }
        self._joined: dict[int, Sequence[_UnitT | BackToBack]] = {}
        self._dropped: set[int] = set()
        self._early: set[int] = set()
        self._late: set[int] = set()
        self._delayed: set[int] = set()

    def list_units(self) -> list[_UnitT | BackToBack]:
        """Return what runs together, in order."""
        places = (place for place in range(len(self._order)) if place not in self._dropped)
        return [u for place in places for u in self._joined.get(place, [self._order[place]])]

    def join(self, place: int, group: Group) -> None:
        """Join a region with the contraction before it, if it has one, and the one after it."""
        nodes = self._program.nodes
        first = _find_first(self._program, group, self._readers, self._free)
        if first is None or place in self._dropped:
            return
        self._drop(first)
        self._early, self._late, self._delayed = set(), set(), set()
        last, middle = _find_last(self._program, group, self._readers, self._free, first)
        if last is not None and not self._take(last, middle, place):
            last = middle = None
        across: list[tuple[int, int]] = []
        for index, folded in self._list_across(place, group, first, middle):
            is_other = folded in group.indices and folded != middle
            fits = (middle is None or not is_other) and len(across) < MOST_ACROSS
            if fits and self._take(index, folded, place):
                across.append((index, folded))
                middle = folded if is_other else middle
        for index, folded in self._list_beside(first):
            if len(across) < MOST_ACROSS and self._take_beside(index, place):
                across.append((index, folded))
        indices = [first, *(() if last is None else (last,)), *(index for index, _ in across)]
        before, after = (
            [self._order[other] for other in sorted(places)] for places in (self._early, self._late)
        )
        ends = {index: nodes[index] for index in indices}
        joined = BackToBack(first, group, last, middle, tuple(across), ends)
        self._joined[place] = [*before, joined, *after]

    def _take(self, index: int, folded: int | None, place: int) -> bool:
        """Let a contraction run at a place, if all that it reads besides may run before."""
        others = [i for i in self._program.nodes[index].inputs if i != folded]
        found = self._find_early(place, others)
        if found is None:
            return False
        self._early.update(found)
        self._move(found)
        self._delayed.add(self._places[index])
        self._drop(index)
        return True

    def _take_beside(self, index: int, place: int) -> bool:
        """Let a contraction wait for a place, if what reads it may run behind that."""
        given = {*self._list_places(self._program.nodes[index].inputs)}
        if given & self._late or any(i >= place for i in given):
            return False
        found = self._find_late(place, index)
        if found is None:
            return False
        self._late.update(found)
        self._move(found)
        self._delayed.add(self._places[index])
        self._drop(index)
        return True

    def _move(self, places: Collection[int]) -> None:
        """Let tasks run beside a region, and not where they were."""
        self._dropped.update(places)
        self._free.difference_update(i for p in places for i in self._list_indices(self._order[p]))

    def _list_across(
        self, place: int, group: Group, first: int, middle: int | None
    ) -> Iterator[tuple[int, int]]:
        """Yield contractions of the columns of the region's matrices, and what they fold."""
        node = self._program.nodes[first]
        height = _count_rows(node, len(node.shape) - 2)
        full = [m.index for m in group.members if m.role is Role.FULL]
        made = [index for index in full if middle in {None, index}]
        for folded in (*made, *_list_whole_operands(group, node.elements)):
            for index in self._readers[folded]:
                if index is None or index not in self._free or index == first:
                    continue
                after = [self._places[i] for i in self._readers[index] if i is not None]
                is_later = all(i > place and i not in self._early for i in after)
                contraction = self._program.nodes[index]
                is_only = all(i == folded or i not in group.indices for i in contraction.inputs)
                if is_only and is_later and _folds_columns(contraction, folded, node, height):
                    yield index, folded

    def _list_beside(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield products of bfloat16 that share a factor with the first, and what they fold."""
        node = self._program.nodes[first]
        height = _count_rows(node, len(node.shape) - 2)
        for shared in node.inputs:
            for index in self._readers[shared]:
                if index is None or index not in self._free:
                    continue
                contraction = self._program.nodes[index]
                others = {*contraction.inputs} - {shared}
                if not contraction.has_short_factors or len(others) != 1:
                    continue
                (folded,) = others
                if _folds_columns(contraction, folded, node, height):
                    yield index, folded

    def _drop(self, index: int) -> None:
        self._free.discard(index)
        self._dropped.add(self._places[index])

    def _find_early(self, place: int, others: Iterable[int]) -> set[int] | None:
        """Return the places of what else has to run before a place; None if it can't."""
        found: set[int] = set()
        waiting = self._list_places(others)
        while waiting:
            later = waiting.pop()
            if later in self._delayed:
                return None
            if later < place or later in found or later in self._early:
                continue
            is_taken = later in self._dropped or later in self._joined
            if later == place or is_taken or len(found) == _MAX_EARLY:
                return None
            found.add(later)
            for index in self._list_indices(self._order[later]):
                waiting += self._list_places(self._program.nodes[index].inputs)
        return found

    def _find_late(self, place: int, index: int) -> set[int] | None:
        """Return the places of what has to wait for an operator that waits for one, if it can."""
        found: set[int] = set()
        waiting = [i for i in self._readers[index] if i is not None]
        while waiting:
            later = self._places[waiting.pop()]
            if later in found or later in self._late:
                continue
            if later == place or later in self._dropped or later in self._joined:
                return None
            if later > place:
                continue
            if len(found) == _MAX_LATE:
                return None
            found.add(later)
            for each in self._list_indices(self._order[later]):
                waiting += [i for i in self._readers[each] if i is not None]
        return found

    def _list_places(self, indices: Iterable[int]) -> list[int]:
        """Return where operators run, but for those whose outputs are there before the run."""
        return [self._places[index] for index in indices if index in self._places]


def _find_first(
    program: Program,
    group: Group,
    readers: Mapping[int, Sequence[int | None]],
    free: Collection[int],
) -> int | None:
    """Return the contraction on whose rows a region is, and which nothing else reads."""
    inside = set(group.indices)
    for index in {read for member in group.members for read in member.node.inputs}:
        node = program.nodes[index]
        is_apart = all(reader in inside for reader in readers[index])
        if index not in free or node.kind is not Kind.CONTRACT or not is_apart:
            continue
        is_matrix = node.elements == max(group.cuts) and node.shape[-1] == group.columns
        is_large = node.elements >= _LEAST_ELEMENTS
        if not is_matrix or not is_large or not _makes_rows(node):
            continue
        if node.shape[-2] >= _LEAST_ROWS and _is_read_in_order(group, index):
            return index
    return None


def _makes_rows(node: Node) -> bool:
    """Whether a contraction's last two axes are rows of one factor, and columns of the other."""
    if len(node.shape) < _AXES_OF_MATRIX or not node.fold_length:
        return False
    sizes, column = node.shape + node.fold_shape, len(node.shape) - 1
    used = [get_used(operand, sizes) for operand in node.operands[1:]]
    owners = [[v in variables for variables in used] for v in (column - 1, column)]
    is_short = node.fold_length * sizes[column] <= _MOST_FACTOR_ELEMENTS
    return is_short and owners in ([[True, False], [False, True]], [[False, True], [True, False]])


def _count_rows(node: Node, variable: int) -> int:
    """Return how many rows each matrix of a contraction has, given the last variable of them."""
    sizes = node.shape + node.fold_shape
    used = [get_used(operand, sizes) for operand in node.operands[1:]]
    owners = [[v in variables for variables in used] for v in range(variable + 1)]
    same = takewhile(
        lambda v: sizes[v] == 1 or owners[v] == owners[variable], range(variable, -1, -1)
    )
    return prod(sizes[v] for v in same)


def _is_read_in_order(group: Group, index: int) -> bool:
    """Whether all members read an output element by element on the matrix."""
    accesses = [a for member in group.members for a in list_accesses(member)]
    reads = [a for a in accesses if _is_of(a.operand, index)]
    return all(not a.is_row and is_identity(a.operand, a.sizes) for a in reads)


def _is_of(operand: Operand, index: int) -> bool:
    return operand.origin is Origin.NODE and operand.reference == index


def _find_last(
    program: Program,
    group: Group,
    readers: Mapping[int, Sequence[int | None]],
    free: Collection[int],
    first: int,
) -> tuple[int, int] | tuple[None, None]:
    """Return a contraction of the rows of a region after the first one, and what it folds."""
    height = _count_rows(program.nodes[first], len(program.nodes[first].shape) - 2)
    for member in group.members:
        for index in readers[member.index]:
            if index is None or index not in free:
                continue
            node = program.nodes[index]
            is_only = all(i == member.index or i not in group.indices for i in node.inputs)
            if is_only and _folds(node, member, group.columns, height):
                return index, member.index
    return None, None


def _folds(node: Node, member: Member, columns: int | None, height: int) -> bool:
    """Whether a contraction folds the rows of a full value, each of its rows one of these.

    Args:
        node: the contraction.
        member: the full value.
        columns: of a row.
        height: rows of each matrix.
    """
    found = [o for o in node.operands[1:] if _is_of(o, member.index)]
    is_of_all = node.kind is Kind.CONTRACT and node.fold_length == columns
    if not is_of_all or member.role is not Role.FULL or len(found) != 1:
        return False
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    strided = find_strided(found[0].rows, sizes)
    live = [v for v in range(rank) if sizes[v] > 1]
    used = [v for v in get_used(found[0], sizes) if v < rank]
    if strided is None or strided.offset or not used or used == live:
        return False
    rows, after = [sizes[v] for v in used], [sizes[v] for v in live[len(used) :]]
    whole = [stride * node.fold_length for stride in row_major(rows)]
    is_dense = [strided.strides[v] for v in used] == whole
    is_row = collapse(node.fold_shape, strided.strides[rank:]) == 1
    is_all = prod(rows) * node.fold_length == member.node.elements
    is_short = node.fold_length * prod(after) <= _MOST_FACTOR_ELEMENTS
    is_first = used == live[: len(used)] and _is_apart(node, found[0], used[-1])
    fits = is_first and _count_rows(node, used[-1]) == height
    return is_row and is_dense and is_all and is_short and fits


def _list_whole_operands(group: Group, elements: int) -> list[int]:
    """Return the tensors that a region reads element by element on its matrix."""
    accesses = [a for member in group.members for a in list_accesses(member)]
    found = [
        a.operand.reference
        for a in accesses
        if a.operand.origin is Origin.NODE
        and a.operand.reference not in group.indices
        and prod(a.sizes) == elements
        and not a.is_row
        and is_identity(a.operand, a.sizes)
    ]
    return list(dict.fromkeys(found))


def _folds_columns(node: Node, folded: int, matrices: Node, height: int) -> bool:
    """Whether a contraction folds the columns of matrices, each with a factor of its own.

    Args:
        node: the contraction.
        folded: the index of what it folds, as many matrices as `matrices` has.
        matrices: the contraction whose last two axes are theirs.
        height: rows of each matrix.
    """
    found = [o for o in node.operands[1:] if _is_of(o, folded)]
    if node.kind is not Kind.CONTRACT or node.fold_length != height or len(found) != 1:
        return False
    sizes, rank, width = node.shape + node.fold_shape, len(node.shape), matrices.shape[-1]
    strided = find_strided(found[0].rows, sizes)
    used = [v for v in get_used(found[0], sizes) if v < rank]
    if strided is None or strided.offset or not used:
        return False
    own = [v for v in used if strided.strides[v] == 1]
    batch = [v for v in used if v not in own]
    whole = [stride * height * width for stride in row_major([sizes[v] for v in batch])]
    is_dense = [strided.strides[v] for v in batch] == whole
    is_column = collapse(node.fold_shape, strided.strides[rank:]) == width
    is_all = prod(sizes[v] for v in batch) * height * width == matrices.elements
    live = [v for v in range(rank) if sizes[v] > 1]
    is_first = batch == live[: len(batch)] and len(live) == len(batch) + _AXES_OF_MATRIX
    (other,) = (o for o in node.operands[1:] if o is not found[0])
    rest = [v for v in live if v not in own]
    is_apart = [v for v in get_used(other, sizes) if v < rank] == rest
    fits = len(own) == 1 and sizes[own[0]] == width and is_first and is_apart
    return is_column and is_dense and is_all and fits


def _is_apart(node: Node, operand: Operand, variable: int) -> bool:
    """Whether only this one of a contraction's two factors depends on a variable."""
    sizes = node.shape + node.fold_shape
    others = [get_used(o, sizes) for o in node.operands[1:] if o is not operand]
    return all(variable not in used for used in others)
