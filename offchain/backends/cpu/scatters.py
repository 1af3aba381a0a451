"""The plans of scatters, which fold elements of a source into the elements that indices name."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.called_plans import CalledOperator
from moot.offchain.backends.cpu.calls import lay_out, lay_out_whole, list_copies
from moot.offchain.backends.cpu.gathers import read_integers
from moot.offchain.backends.cpu.indexed import IndexedTask, find_scatter
from moot.offchain.backends.cpu.indexing import Integers, Mask, open_grid
from moot.offchain.backends.cpu.kernels.scatter import scatter_add_rows, scatter_assign_flat
from moot.offchain.backends.cpu.scalars import Apply, get_associative, get_function
from moot.offchain.backends.cpu.views import Reader, make_constant, view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers, emit
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.native.threads import share
from moot.offchain.planning.accesses import (
    Sizes,
    Strided,
    collapse,
    get_used,
    project,
    restrict,
    row_major,
)
from moot.offchain.programs.graph import Node, Operand

_GRAIN = 1 << 16
"""Elements of the source that make another thread worth its start."""

_PART_ELEMENTS = 1 << 16
"""Elements of the output that are set and then folded into, while they are in cache."""

Fold = Callable[[Array, Integers, Array], None]
"""(buffer, rows, matrix): folds the matrix's rows, in order, into these rows of the buffer."""


class _Roles(NamedTuple):
    """The output's variables by role.

    `targets` are named by indices; `looped` are not, but an index depends on them; along `block`
    whole blocks of the source are folded into whole blocks of the output.
    """

    looped: tuple[int, ...]
    targets: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def nest(self) -> tuple[int, ...]:
        """The order in which the buffer of the output nests its variables."""
        return self.looped + self.targets + self.block


def plan_scatter(node: Node) -> "IndexedScatter | DenseScatter":
    """Return the plan of a scatter node with a positive number of elements and of fold steps."""
    if not depends_on_named(node) and node.function in emit.EXPRESSIBLE:
        sizes = tuple(
            1 if v in node.targets else size for v, size in enumerate(node.shape + node.fold_shape)
        )
        source, *indices = (Reader(operand, sizes) for operand in node.operands[1:])
        task = find_scatter(node, source, indices)
        if task is not None:
            return IndexedScatter(node, source, indices, task)
    return DenseScatter(node)


def depends_on_named(node: Node) -> bool:
    """Whether the source or an index depends on a dimension that an index names."""
    sizes, named = node.shape + node.fold_shape, set(node.targets)
    return any(named.intersection(get_used(operand, sizes)) for operand in node.operands[1:])


class Scatter:
    """The plan of a scatter whose source and indices don't depend on the dimensions that are named.

    Positions are the values of the looped variables and of the fold, in this order.

    Args:
        node: a scatter node with a positive number of elements and of fold steps.
        fold: folds rows; that of `ordered` if None.
    """

    def __init__(self, node: Node, fold: Fold | None = None) -> None:
        init, source, *indices = node.operands
        sizes, rank = node.shape + node.fold_shape, len(node.shape)
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        self._targets = node.targets
        self._roles = _assign_roles(node, indices)
        positions = (*self._roles.looped, *range(rank, len(sizes)))
        self._positions = tuple(sizes[v] for v in positions)
        self._init = Reader(project(init, range(rank)), node.shape)
        self._indices = [Reader(project(o, positions), self._positions) for o in indices]
        self._width = prod(sizes[v] for v in self._roles.block)
        blocks = (*self._positions, *(sizes[v] for v in self._roles.block))
        self._source = _plan_matrix(
            project(source, positions + self._roles.block), blocks, len(positions)
        )
        self._fold = fold or _get_fold(node)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, source and indices (None for constants)."""
        init, source, *indices = flats
        nest = self._roles.nest
        nested = [self._shape[v] for v in nest]
        reader, strided = self._source
        matrix = view(reader.buffer(source), (prod(self._positions), self._width), strided)
        starts = self._init.read(init).transpose(nest)
        out = buffers.empty(nested, self._dtype)
        is_looped = len(self._roles.looped) > 0
        parts = nested[0] if is_looped else 1
        length = len(matrix) // parts

        @np.errstate(all="ignore")
        def work(first: int, stop: int) -> None:
            part = slice(first, stop) if is_looped else slice(None)
            out[part] = starts[part]
            rows = self._locate(indices, part)
            addends = matrix[first * length : stop * length]
            self._fold(out[part].reshape(-1, self._width), rows, addends)

        share(work, parts, max(1, _GRAIN // max(1, length * self._width)))
        return np.ascontiguousarray(out.transpose(np.argsort(nest)))

    def _locate(self, flats: Sequence[Array | None], part: slice) -> Integers:
        """Return for each position its block in a part of the output's buffer, -1 if there is none.

        The part is one of the first looped variable, or everything.
        """
        nest = self._roles.looped + self._roles.targets
        strides = dict(zip(nest, row_major([self._shape[v] for v in nest]), strict=True))
        positions = list(self._positions)
        if self._roles.looped:
            positions[0] = len(range(*part.indices(positions[0])))
        grid = zip(self._roles.looped, open_grid(positions), strict=False)
        blocks = sum((strides[v] * values for v, values in grid), np.zeros((), np.int64))
        inside: Mask = np.ones((), np.bool_)
        named: dict[int, Integers] = {}
        for reader, flat, target in zip(self._indices, flats, self._targets, strict=True):
            values = read_integers(reader, flat, part)
            inside = inside & (values >= 0) & (values < self._shape[target])
            if target in named:
                inside = inside & (values == named[target])
            else:
                named[target] = values
                blocks = blocks + strides[target] * values
        found = np.where(inside, blocks, -1)
        return np.ascontiguousarray(np.broadcast_to(found, positions)).reshape(-1)


class IndexedScatter(CalledOperator):
    """The plan of a scatter in `ordered`, which one kernel computes.

    Args:
        node: a scatter node with a positive number of elements and of fold steps.
        source: the reader of its source, and
        indices: those of its indices.
        task: its loops.
    """

    def __init__(
        self, node: Node, source: Reader, indices: Sequence[Reader], task: IndexedTask
    ) -> None:
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        init = node.operands[0]
        self._init = Reader(project(init, range(len(node.shape))), node.shape)
        self._start = make_constant(init.dtype, init.value)
        self._source, self._indices, self._task = source, indices, task
        super().__init__((self._init, source, *indices), [(self._shape, self._dtype)])
        self._is_small = node.elements <= _GRAIN
        is_parted = task.step * task.turns == node.elements
        self._part = max(1, _PART_ELEMENTS // task.step) if is_parted else 0

    @property
    def is_called(self) -> bool:
        """Whether its output is small, and a few calls bring its operands into place."""
        return self._is_small and super().is_called

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute a small output."""
        (init, source, *indices), (target,) = places, targets
        out = lay_out_whole(target, self._dtype.itemsize, self._shape)
        before = lay_out(init, out.width, self._shape, self._init.strided)
        copies = list_copies(before, out, memory)
        return [*copies, self._task.make_call(source, target, indices)]

    def run(self, flats: Sequence[Array | None], step: int) -> Array:
        """Return the output, given the tensors of init, source and indices (None for constants).

        A large one is set part by part, each of which is folded into while it is in cache.
        """
        if self._is_small:
            return super().run(flats, step)
        init, source, *indices = flats
        out = buffers.empty(self._shape, self._dtype)
        places = [r.buffer(flat) for r, flat in zip(self._indices, indices, strict=True)]
        bound = self._task.bind(self._source.buffer(source), out, places)
        starts = np.ascontiguousarray(self._init.read(init)) if init is not None else self._start
        turns, grain = self._task.turns, self._task.grain
        if not self._part:
            _set(out.reshape(-1), starts.reshape(-1))
            share(bound.run, turns, grain)
            return out
        rows = out.reshape(turns, -1)
        starts = starts.reshape(rows.shape) if init is not None else starts

        def work(first: int, stop: int) -> None:
            for begin in range(first, stop, self._part):
                end = min(begin + self._part, stop)
                rows[begin:end] = starts[begin:end] if init is not None else starts
                bound.run(begin, end)

        share(work, turns, grain)
        return out


def _set(out: Array, starts: Array) -> None:
    """Copy a line, or one element to a whole line."""

    def work(first: int, stop: int) -> None:
        out[first:stop] = starts[first:stop] if len(starts) > 1 else starts

    share(work, len(out), _GRAIN)


class DenseScatter:
    """The plan of any scatter: each fold step is compared with every element of the output."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._apply = _get_apply(node)

    @np.errstate(all="ignore")
    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, source and indices (None for constants)."""
        node = self._node
        rank = len(node.shape)
        grid = open_grid(node.shape)
        accumulator = (
            Reader(project(node.operands[0], range(rank)), node.shape).read(flats[0]).copy()
        )
        after = np.empty_like(accumulator)
        for position in np.ndindex(node.fold_shape):
            ranges = [*map(range, node.shape), *(range(i, i + 1) for i in position)]
            readers = [
                Reader(project(restrict(o, ranges), range(rank)), node.shape)
                for o in node.operands[1:]
            ]
            source, *indices = readers
            is_matching = np.ones(node.shape, np.bool_)
            for reader, flat, target in zip(indices, flats[2:], node.targets, strict=True):
                is_matching &= read_integers(reader, flat) == grid[target]
            self._apply(after, accumulator, source.read(flats[1]))
            np.copyto(accumulator, after, where=is_matching)
        return accumulator


def _assign_roles(node: Node, indices: Sequence[Operand]) -> _Roles:
    sizes = node.shape + node.fold_shape
    used = {v for operand in indices for v in get_used(operand, sizes)}
    free = [v for v in range(len(node.shape)) if v not in node.targets]
    return _Roles(
        tuple(v for v in free if v in used),
        tuple(sorted(set(node.targets))),
        tuple(v for v in free if v not in used),
    )


def _plan_matrix(operand: Operand, sizes: Sizes, split: int) -> tuple[Reader, Strided]:
    """Return a reader, and its view as a matrix: the variables before `split` are its rows."""
    groups = (slice(None, split), slice(split, None))
    for nest in (None, range(len(sizes))):
        reader = Reader(operand, sizes, nest)
        strides = [collapse(sizes[group], reader.strided.strides[group]) for group in groups]
        if None not in strides:
            break
    rows, columns = strides
    assert rows is not None
    assert columns is not None
    return reader, Strided(reader.strided.offset, (rows, columns))


def _get_apply(node: Node) -> Apply:
    """Return the function by which a source element changes an accumulator."""
    dtype = node.dtype
    if node.function is Function.COPY:
        copy = get_function(Function.COPY, (dtype,), dtype)
        return lambda out, _, source: copy(out, source)
    return get_function(node.function, (dtype, dtype), dtype)


def _get_fold(node: Node) -> Fold:
    if node.function is Function.COPY:
        return partial(_flatten_rows, scatter_assign_flat)
    if node.function is Function.ADD and node.dtype is DType.FLOAT32:
        return _add_rows
    associative = get_associative(node.function, node.dtype)
    if associative is not None:
        return partial(_fold_associative, associative)
    return partial(_fold_rows, _get_apply(node))


def _add_rows(buffer: Array, rows: Integers, matrix: Array) -> None:
    addends, sums = (np.asarray(array, np.float32) for array in (matrix, buffer))
    scatter_add_rows(rows, np.ascontiguousarray(addends), sums)


def _flatten_rows(
    scatter: Callable[[Integers, Any, Any], None], buffer: Array, rows: Integers, matrix: Array
) -> None:
    """Scatter element by element; elements of a row that is -1 have a negative target too."""
    width = buffer.shape[1]
    targets = rows[:, None] * width + np.arange(width)
    scatter(targets.reshape(-1), np.ascontiguousarray(matrix).reshape(-1), buffer.reshape(-1))


def _fold_associative(ufunc: np.ufunc, buffer: Array, rows: Integers, matrix: Array) -> None:
    ufunc.at(buffer, rows[rows >= 0], matrix[rows >= 0])


def _fold_rows(apply: Apply, buffer: Array, rows: Integers, matrix: Array) -> None:
    """Fold the first matrix row that goes to each row of the buffer, then the second, and so on."""
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    ordered = rows[order]
    firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    counts = np.diff(np.append(firsts, len(ordered)))
    for n in range(int(counts.max(initial=0))):
        chosen = order[firsts[counts > n] + n]
        after = np.empty((len(chosen), buffer.shape[1]), buffer.dtype)
        apply(after, buffer[rows[chosen]], matrix[chosen])
        buffer[rows[chosen]] = after
