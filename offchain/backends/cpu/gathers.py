"""The plans of gathers, which copy elements of the data by the values of the indices."""

from collections.abc import Sequence
from math import prod

import numpy as np

from moot.offchain.backends.cpu.called_plans import CalledOperator
from moot.offchain.backends.cpu.indexed import IndexedTask, find_gather
from moot.offchain.backends.cpu.indexing import Integers, locate, open_grid
from moot.offchain.backends.cpu.views import AsItLies, Reader, make_constant, view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.accesses import Sizes, Strided, find_strided, get_used
from moot.offchain.programs.graph import Node, Operand, Row

_SLAB_ELEMENTS = 1 << 21


def plan_gather(node: Node) -> "Gather | LocatedGather":
    """Return the plan of a gather node with a positive number of elements."""
    readers = [Reader(operand, node.shape) for operand in node.operands[1:]]
    task = find_gather(node, readers)
    return Gather(node, readers, task) if task else LocatedGather(node)


def read_integers(reader: Reader, flat: Array | None, part: slice = slice(None)) -> Integers:
    """Return an index operand's values over its domain, of extent 1 along what it does not use.

    Args:
        reader: the operand on the domain.
        flat: the operand's tensor, None for a constant.
        part: the wanted part of the domain's first variable.
    """
    used = set(get_used(reader.operand, reader.sizes))
    index = tuple(slice(None) if v in used else slice(1) for v in range(len(reader.sizes)))
    values = reader.read(flat)[index]
    return (values[part] if 0 in used else values).astype(np.int64)


class Gather(CalledOperator):
    """The plan of a gather whose indices are coordinates of the data, each by itself.

    Args:
        node: a gather node with a positive number of elements.
        readers: the readers of its indices.
        task: its loops.
    """

    def __init__(self, node: Node, readers: Sequence[Reader], task: IndexedTask) -> None:
        super().__init__([AsItLies(), *readers], [(node.shape, NUMPY_TYPES[node.dtype])])
        self._task = task

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], _memory: Memory
    ) -> list[Call]:
        """Return the call that computes the output."""
        (data, *indices), (target,) = places, targets
        return [self._task.make_call(target, data, indices)]


class LocatedGather:
    """The plan of any gather.

    The blocks range over the variables that matter neither to an index nor to a row that could be
    out of range; where a block starts in the data is computed for the other variables.

    Args:
        node: a gather node with a positive number of elements.
    """

    def __init__(self, node: Node) -> None:
        data, *indices = node.operands
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        self._rows = data.rows
        self._fill = make_constant(data.dtype, data.value)
        self._readers = [Reader(operand, node.shape) for operand in indices]
        self._inner = _find_inner(data, indices, node.shape)
        self._outer = [v for v in range(len(node.shape)) if v not in self._inner]
        strides = _find_strides(data.rows, node.shape)
        self._block = tuple(node.shape[v] for v in self._inner)
        self._strides = tuple(strides[v] for v in self._inner)
        ends = [s * (size - 1) for s, size in zip(self._strides, self._block, strict=True)]
        self._below = -sum(end for end in ends if end < 0)
        self._above = sum(end for end in ends if end > 0)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of data and indices (None for constants)."""
        data, *indices = flats
        out = buffers.empty(self._shape, self._dtype)
        starts = data.size - self._below - self._above if data is not None else 0
        if data is None or starts < 1:
            out[...] = self._fill
            return out
        blocks = view(data, (starts, *self._block), Strided(self._below, (1, *self._strides)))
        extents = [1 if v in self._inner else size for v, size in enumerate(self._shape)]
        values = [read_integers(r, flat) for r, flat in zip(self._readers, indices, strict=True)]
        self._copy(out, blocks, [*open_grid(extents), *values])
        return out

    def _copy(self, out: Array, blocks: Array, variables: Sequence[Integers]) -> None:
        axis = max(self._outer, key=lambda v: out.shape[v], default=0)
        if out.size > _SLAB_ELEMENTS * max(1, prod(self._block)) and out.shape[axis] > 1:
            half = out.shape[axis] // 2
            for part in (slice(half), slice(half, None)):
                index = (*[slice(None)] * axis, part)
                chosen = [v[index] if v.shape[axis] > 1 else v for v in variables]
                self._copy(out[index], blocks, chosen)
            return
        indices, inside = locate(self._rows, variables)
        target = out.transpose(*self._outer, *self._inner)
        shape = [indices.shape[v] for v in self._outer]
        indices = np.clip(indices.reshape(shape) - self._below, 0, len(blocks) - 1)
        target[...] = blocks[indices]
        if not inside.all():
            outside = ~inside.reshape([*shape, *(1 for _ in self._inner)])
            np.copyto(target, self._fill, where=outside)


def _find_strides(rows: Sequence[Row], shape: Sizes) -> tuple[int, ...]:
    """Return the strides of an access along the output's variables that only static rows name."""
    fixed = [row if _is_static(row, shape) else Row(max(1, row.size)) for row in rows]
    strided = find_strided(fixed, shape)
    assert strided is not None
    return strided.strides


def _find_inner(data: Operand, indices: Sequence[Operand], shape: Sizes) -> list[int]:
    rank = len(shape)
    moved = {v for operand in indices for v in get_used(operand, shape)}
    for row in data.rows:
        if not _is_static(row, shape):
            moved.update(v for v, _ in row.terms)
    return [v for v in range(rank) if v not in moved and shape[v] > 1]


def _is_static(row: Row, shape: Sizes) -> bool:
    """Whether a row depends on no index and is in range on the whole domain."""
    return all(v < len(shape) for v, _ in row.terms) and find_strided([row], shape) is not None
