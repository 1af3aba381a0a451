"""The plans of contractions: batches of matrix products of strided views or dense copies.

A variable of the domain belongs to the batch, to the rows (M), to the columns (N) or to the fold
(K), by which of the two factors use it. The fold's variables keep their order, so a product that
folds k in ascending order is the contraction bit for bit. A factor that is no such view (the input
of a convolution) is copied densely, slab by slab, which bounds the memory; a slab of the fold
starts from the result of the slab before it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby, product
from math import prod
from typing import NamedTuple, TypeVar, cast

import numpy as np

from moot.offchain.backends.cpu.called_products import FLOATS, Factors, Products
from moot.offchain.backends.cpu.calls import lay_out, lay_out_whole, list_copies
from moot.offchain.backends.cpu.convolution_plans import plan_convolution
from moot.offchain.backends.cpu.convolutions import Convolution
from moot.offchain.backends.cpu.kernels.contraction.gemm import Floats
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.panels import PanelledProduct, find_panels
from moot.offchain.backends.cpu.views import Reader, view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place
from moot.offchain.planning.accesses import (
    Sizes,
    Strided,
    collapse,
    collapse_groups,
    estimate_strides,
    find_strided,
    get_used,
    iterate_slabs,
    restrict,
    row_major,
)
from moot.offchain.planning.packing import Packing
from moot.offchain.programs.graph import Node, Operand, Origin

_SLAB_BYTES = 1 << 26
_MOST_CALLS = 64
"""Products that a sequence calls for one contraction."""

_MOST_TURNED = 1 << 16
"""Elements that are turned as a part of a sequence; more are turned square by square."""

_LONG_FOLD = 256
"""Steps of a fold that are worth packing a factor once instead of once for each product."""

_FEW_ROWS = 64
"""Rows up to which the other factor is read where it lies, if its columns lie side by side."""

_LEAST_PACKED = 1 << 14
"""Elements of a factor that are worth a copy for all products that read it."""

_LEAST_PANELS = 1 << 18
"""Elements of a factor that the second-level cache does not hold."""

_LEAST_TURNED, _LEAST_DENSE = 4, 16
"""Products that make up for the copy of a factor, by whether its steps lie side by side."""

Views = tuple[Factors, Factors, Floats, Floats]
"""a, b, init and out of batches of products: (B, M, K), (B, K, N), (B, M, N) and (B, M, N)."""

_Tensor = TypeVar("_Tensor")

_ABSENT = np.empty((0, 0, 0), np.float32)

_AXES = ((0, 1, 3), (0, 3, 2), (0, 1, 2), (0, 1, 2))
"""Which of batch, rows, columns and fold are the axes of a, b, init and the output."""


class _Roles(NamedTuple):
    """The variables of more than one value by role, each role's in the order of their nesting."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    fold: tuple[int, ...]

    @property
    def output(self) -> tuple[int, ...]:
        """The output's variables in the order in which the product nests them."""
        return self.batch + self.rows + self.columns


class _Product:
    """The plan of a contraction on one slab of its domain.

    Args:
        operands: init and the two factors.
        roles: the variables' roles.
        nests: for each factor, the variables that a dense copy of it nests, or None for a view.
        out_strides: the strides of the output's buffer along the output's variables.
        ranges: the slab.
        products: how batches of matrices are multiplied.
    """

    def __init__(
        self,
        operands: Sequence[Operand],
        roles: _Roles,
        nests: Sequence[Sequence[int] | None],
        out_strides: Sequence[int],
        ranges: Sequence[range],
        products: Products,
    ) -> None:
        self._products = products
        sizes = tuple(len(r) for r in ranges)
        rank = len(out_strides)
        init, *factors = operands
        self._factors = [
            Reader(restrict(operand, ranges), sizes, nest)
            for operand, nest in zip(factors, nests, strict=True)
        ]
        folded = len(ranges) - rank
        offset = sum(s * r.start for s, r in zip(out_strides, ranges, strict=False))
        out = Strided(offset, (*out_strides, *(0,) * folded))
        self._init: Reader | None = None
        start = out
        if all(r.start == 0 for r in ranges[rank:]):
            first = restrict(init, [*ranges[:rank], *[range(1)] * folded])
            reader = Reader(first, (*sizes[:rank], *(1,) * folded))
            if collapse_groups(sizes, (roles.rows, roles.columns), reader.strided) is None:
                reader = Reader(first, reader.sizes, [v for v in roles.output if sizes[v] > 1])
            self._init, start = reader, reader.strided
        layouts = [*(reader.strided for reader in self._factors), start, out]
        self._plan_calls(sizes, roles, layouts)

    def _plan_calls(self, sizes: Sizes, roles: _Roles, layouts: Sequence[Strided]) -> None:
        batch = roles.batch
        cuts = range(len(batch) + 1)
        cut = next(i for i in cuts if all(collapse_groups(sizes, [batch[i:]], x) for x in layouts))
        looped = batch[:cut]
        groups = (batch[cut:], roles.rows, roles.columns, roles.fold)
        self._batch, self._rows, self._columns, self._steps = (
            prod(sizes[v] for v in group) for group in groups
        )
        self._calls = []
        for values in product(*(range(sizes[v]) for v in looped)):
            places = []
            for layout, axes in zip(layouts, _AXES, strict=True):
                shift = sum(layout.strides[v] * i for v, i in zip(looped, values, strict=True))
                place = collapse_groups(sizes, [groups[axis] for axis in axes], layout)
                assert place is not None
                places.append(Strided(place.offset + shift, place.strides))
            self._calls.append(places)

    @property
    def is_called(self) -> bool:
        """Whether it is a few products, and a few calls bring its operands into place."""
        readers = [*self._factors, *([] if self._init is None else [self._init])]
        count = len(self._calls) * (1 if self._products.is_batched else self._batch)
        return count <= _MOST_CALLS and all(r.is_short for r in readers)

    def list_calls(self, sources: Sequence[Place | None], out: Place, memory: Memory) -> list[Call]:
        """Return the calls that do so, given where the tensors and the buffer will be."""
        assert self._init is not None
        assert self._products.list_calls is not None
        readers = (self._init, *self._factors)
        widths = [r.operand.dtype.width for r in (*self._factors, self._init, self._init)]
        found = [r.list_calls(s, memory) for r, s in zip(readers, sources, strict=True)]
        (start, _), (a, _), (b, _) = found
        calls = [copy for _, copies in found for copy in copies]
        shapes = self._list_shapes()
        for places in self._calls:
            left, right, init, result = (
                lay_out(place, width, shape, strided)
                for place, width, shape, strided in zip(
                    (a, b, start, out), widths, shapes, places, strict=True
                )
            )
            calls += self._products.list_calls(left, right, init, result, memory)
        return calls

    def _list_shapes(self) -> tuple[Sizes, ...]:
        """Return the shapes of the factors, of the initial elements and of the output."""
        sizes = self._batch, self._rows, self._columns, self._steps
        return tuple(tuple(sizes[axis] for axis in axes) for axes in _AXES)

    def run(self, flats: Sequence[Array | None], out: Array) -> None:
        """Compute the slab's part of the output's buffer."""
        for views in self.list_views(flats, out):
            self._products.multiply(*views)

    @property
    def extents(self) -> tuple[int, int, int]:
        """How many matrices each batch has, and how many rows and steps each matrix."""
        return self._batch, self._rows, self._steps

    def list_views(self, flats: Sequence[Array | None], out: Array | None) -> Iterator[Views]:
        """Yield a, b, init and out of each batch of products; empty for what is not there.

        Args:
            flats: the tensors of init and the factors, None for a constant or what is not there.
            out: the output's buffer, None if it is not there.
        """
        readers = (*self._factors, self._init)
        init, *factors = flats
        pairs = zip(readers, (*factors, init), strict=True)
        a, b, start = (out if r is None else r.find_buffer(flat) for r, flat in pairs)
        for places in self._calls:
            found = zip((a, b, start, out), self._list_shapes(), places, strict=True)
            views = (_ABSENT if x is None else view(x, shape, at) for x, shape, at in found)
            yield cast("Views", tuple(views))


class Contraction:
    """The plan of one contraction.

    Args:
        node: a contract node with a positive number of elements and of fold steps.
        products: how batches of matrices are multiplied.
        keeps_folds: whether no fold may be divided, since accumulators are no elements.
    """

    def __init__(
        self, node: Node, products: Products = FLOATS, *, keeps_folds: bool = False
    ) -> None:
        self._products, self._keeps_folds = products, keeps_folds
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        self._sizes = sizes = node.shape + node.fold_shape
        init, *factors = node.operands
        used = [get_used(operand, sizes) for operand in factors]
        roles, self._is_swapped = _assign_roles(sizes, len(node.shape), used)
        if self._is_swapped:
            factors.reverse()
        self._operands = (init, *factors)
        self._roles = roles
        self._nests = [
            _find_nest(operand, sizes, roles, own)
            for operand, own in zip(factors, (roles.rows, roles.columns), strict=True)
        ]
        dense = dict(zip(roles.output, row_major([sizes[v] for v in roles.output]), strict=True))
        self._out_strides = tuple(dense.get(v, 0) for v in range(len(node.shape)))
        self._slabs = self._split(sizes)

    @property
    def is_wasteful(self) -> bool:
        """Whether a factor is copied before it is multiplied, or packed for many products."""
        shared = [get_used(operand, self._sizes) for operand in self._operands[1:]]
        repeats = any(v not in used for v in self._roles.batch for used in shared)
        is_long = prod(self._sizes[v] for v in self._roles.fold) >= _LONG_FOLD
        return any(nest is not None for nest in self._nests) or (repeats and is_long)

    @property
    def is_product(self) -> bool:
        """Whether it is batches of products of views, whose rows are those of the output."""
        is_sorted = list(self._roles.output) == sorted(self._roles.output)
        is_of_views = all(nest is None for nest in self._nests)
        return is_sorted and is_of_views and len(self._slabs) == 1 and not self.is_wasteful

    def find_packing(self) -> Packing | None:
        """Return how to copy a factor of a product of few rows: to panels, if there are whole ones.

        Else it is worth a copy only if it has its steps side by side.
        """
        roles, sizes = self._roles, self._sizes
        if roles.batch or self.is_wasteful:
            return None
        steps = [sizes[v] for v in roles.fold]
        sides = ((1, roles.columns, roles.rows), (2, roles.rows, roles.columns))
        for place, others, own in sides:
            few, many = (prod(sizes[v] for v in group) for group in (others, own))
            strided = find_strided(self._operands[place].rows, sizes)
            is_worth = few <= _FEW_ROWS < many and prod(steps) * many >= _LEAST_PACKED
            if strided is None or not is_worth:
                continue
            position = 3 - place if self._is_swapped else place
            is_turned = collapse(steps, [strided.strides[v] for v in roles.fold]) == 1
            is_of_panels = own == roles.columns and sizes[own[-1]] % COLUMNS == 0
            readers = _LEAST_TURNED if is_turned else _LEAST_DENSE
            if is_of_panels and len(own) == 1 and prod(steps) * many >= _LEAST_PANELS:
                return Packing(position, roles.fold + own, readers, COLUMNS)
            if is_turned:
                return Packing(position, roles.fold + own, readers)
        return None

    @cached_property
    def _whole(self) -> _Product | None:
        return self._plan(self._slabs[0]) if len(self._slabs) == 1 else None

    def _split(self, sizes: Sizes) -> list[list[range]]:
        nests = [nest for nest in self._nests if nest is not None]

        def count_copied(ranges: Sequence[range]) -> int:
            return sum(prod(len(ranges[v]) for v in nest) for nest in nests)

        roles = self._roles
        # Rows are one dimension of the matrices, in any part: only the outermost one can be cut.
        last = roles.rows[:1] + roles.columns[:1] if self._keeps_folds else roles.fold
        order = [v for v in (*roles.batch, *last) if any(v in n for n in nests)]
        limit = _SLAB_BYTES // max(operand.dtype.width for operand in self._operands[1:])
        return list(iterate_slabs([range(size) for size in sizes], order, count_copied, limit))

    def _plan(self, ranges: Sequence[range]) -> _Product:
        places = (self._roles, self._nests, self._out_strides, ranges)
        return _Product(self._operands, *places, self._products)

    @property
    def is_called(self) -> bool:
        """Whether it is a few products of known calls, and no large one that has to be turned."""
        is_simple = self._is_in_order or prod(self._shape) <= _MOST_TURNED
        is_whole = self._whole is not None and self._whole.is_called
        return self._products.list_calls is not None and is_simple and is_whole

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        assert self._whole is not None
        ordered = self._order(sources)
        (target,), elements = targets, prod(self._shape)
        if self._is_in_order:
            return self._whole.list_calls(ordered, target, memory)
        width = self._dtype.itemsize
        buffer = memory.reserve(elements * width)
        turned = lay_out(buffer, width, self._shape, Strided(0, self._out_strides))
        out = lay_out_whole(target, width, self._shape)
        calls = self._whole.list_calls(ordered, buffer, memory)
        return [*calls, *list_copies(turned, out, memory)]

    @property
    def _is_in_order(self) -> bool:
        """Whether the product nests the output's variables as the output does."""
        return list(self._roles.output) == sorted(self._roles.output)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a and b (None for constants)."""
        ordered = self._order(flats)
        out = buffers.empty((prod(self._shape),), self._dtype)
        for ranges in self._slabs:
            (self._whole or self._plan(ranges)).run(ordered, out)
        if self._is_in_order:
            return out.reshape(self._shape)
        return np.ascontiguousarray(view(out, self._shape, Strided(0, self._out_strides)))

    @property
    def extents(self) -> tuple[int, int, int]:
        """How many matrices each batch has, and how many rows and steps each, if `is_product`."""
        assert self._whole is not None
        return self._whole.extents

    @property
    def columns(self) -> int:
        """How many columns each matrix has."""
        return prod(self._sizes[v] for v in self._roles.columns)

    def is_left(self, index: int) -> bool:
        """Whether the left factor of its products is the output of an operator."""
        return self._operands[1].origin is Origin.NODE and self._operands[1].reference == index

    def list_views(self, flats: Sequence[Array | None], out: Array | None) -> list[Views]:
        """Return the views of a, b, init and out of each batch of products, if `is_product`.

        Args:
            flats: the tensors of init, a and b, None for a constant or what is not there.
            out: the output, None if it is not there.
        """
        assert self._whole is not None
        return list(self._whole.list_views(self._order(flats), out))

    def _order(self, tensors: Sequence[_Tensor]) -> Sequence[_Tensor]:
        """Return init and the factors, the one that provides the rows first."""
        init, *factors = tensors
        return (init, *(factors[::-1] if self._is_swapped else factors))


def plan_contraction(node: Node) -> Contraction | Convolution | PanelledProduct:
    """Return the plan of a contract node with a positive number of elements and of fold steps."""
    panels = find_panels(node)
    if panels is not None:
        return PanelledProduct(node, panels)
    plan = Contraction(node)
    if not plan.is_wasteful:
        return plan
    return plan_convolution(node, lambda flats: plan.run(flats, 0)) or plan


def _assign_roles(sizes: Sizes, rank: int, used: Sequence[Sequence[int]]) -> tuple[_Roles, bool]:
    """Return the variables' roles, and whether the second factor provides the rows.

    The output's variables keep their order if the last ones are those of one factor and then those
    of the other; all before them are the batch. Otherwise the product's output is transposed.
    """
    live = [v for v in range(rank) if sizes[v] > 1]
    fold = tuple(v for v in range(rank, len(sizes)) if sizes[v] > 1)
    owners = {v: tuple(v in variables for variables in used) for v in live}
    single = {(True, False), (False, True)}
    for cut in range(len(live) + 1):
        runs = [(owner, tuple(run)) for owner, run in groupby(live[cut:], owners.__getitem__)]
        found = [owner for owner, _ in runs]
        if len(runs) <= 2 and single.intersection(owners.values()) == set(found):
            is_swapped = found[:1] == [(False, True)]
            groups = [run for _, run in runs] + [(), ()]
            return _Roles(tuple(live[:cut]), groups[0], groups[1], fold), is_swapped
    batch, rows, columns = (
        tuple(v for v in live if owners[v] in kind)
        for kind in ({(True, True), (False, False)}, {(True, False)}, {(False, True)})
    )
    return _Roles(batch, rows, columns, fold), False


def _find_nest(
    operand: Operand, sizes: Sizes, roles: _Roles, own: Sequence[int]
) -> list[int] | None:
    """Return the variables that a dense copy of a factor nests, or None if a view serves."""
    strided = find_strided(operand.rows, sizes)
    if strided is not None and collapse_groups(sizes, (own, roles.fold), strided) is not None:
        return None
    strides = estimate_strides(operand.rows, sizes)
    used = get_used(operand, sizes)
    groups = [list(own), list(roles.fold)]
    groups.sort(key=lambda group: _get_reach(group, sizes, strides), reverse=True)
    return [v for v in roles.batch if v in used] + groups[0] + groups[1]


def _get_reach(group: Sequence[int], sizes: Sizes, strides: Sequence[int]) -> float:
    """Return how badly a group serves as the innermost, whose last variable copies run along."""
    return abs(strides[group[-1]]) / sizes[group[-1]] if group else float("inf")
