"""Trees and tensors of any size whose content repeats, kept as runs of equal leaves and elements.

With them, commitments to histories that nobody computes, and to tensors that nobody could hold, are
made, proven and disputed like any other.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import (
    EMPTY_TOP,
    NUMPY_TYPES,
    Array,
    TensorTree,
    encode_header,
    get_chunk_count,
    hash_chunk,
)
from moot.offchain.commitments.tree import (
    Digest,
    Tree,
    get_height,
    get_width,
    hash_node,
)


class RunLengthTree(Tree):
    """A tree whose leaves are runs of equal ones.

    Args:
        tag: tag of the inner nodes.
        count: number of leaves, at least one.
        leaves: for the first leaf of every run, 0 among them, its content.
    """

    def __init__(self, tag: Tag, count: int, leaves: Mapping[int, Digest]) -> None:
        # None of what the base class keeps is kept: all that it does is done by `node` here.
        self.tag = tag
        self.count = count
        self._starts = sorted(leaves)
        self._leaves = [leaves[start] for start in self._starts]
        self._nodes: dict[tuple[int, int], Digest] = {}

    @property
    def height(self) -> int:
        """Number of levels above the leaves."""
        return get_height(self.count)

    @property
    def top(self) -> Digest:
        """The single node of the highest level."""
        return self.node(self.height, 0)

    def node(self, level: int, index: int) -> Digest:
        """Return node `index` of `level`."""
        first, last = index << level, ((index + 1) << level) - 1
        run = bisect_right(self._starts, first) - 1
        if level == 0:
            return self._leaves[run]
        is_even = last < self.count and run == bisect_right(self._starts, last) - 1
        # All full nodes of one level within a run are the same.
        key = (level, -1 - run if is_even else index)
        if key not in self._nodes:
            self._nodes[key] = self._make_node(level, index)
        return self._nodes[key]

    def _make_node(self, level: int, index: int) -> Digest:
        left = self.node(level - 1, 2 * index)
        if 2 * index + 1 >= get_width(self.count, level - 1):
            return left
        return hash_node(self.tag, left, self.node(level - 1, 2 * index + 1))


class RunLengthTensor(TensorTree):
    """A tensor whose elements, in row-major order, are runs of equal ones.

    Args:
        dtype: the type of the elements.
        shape: the dimensions.
        values: for the first element of every run, 0 among them, its bits.
    """

    def __init__(self, dtype: DType, shape: Sequence[int], values: Mapping[int, int]) -> None:
        # As for the tree: `chunk` and `tree` are all that the base class builds on.
        self.header = encode_header(dtype, shape)
        self.dtype, self.shape, self._width = dtype, tuple(shape), dtype.width
        self._elements = 1
        for size in shape:
            self._elements *= size
        self._starts = sorted(values)
        self._values = [values[start] for start in self._starts]
        count = get_chunk_count(dtype, self._elements)
        self.tree = (
            RunLengthTree(Tag.TENSOR_NODE, count, self._make_leaves(count)) if count else None
        )

    def _make_leaves(self, count: int) -> dict[int, Digest]:
        changed = [start * self._width // CHUNK_BYTES for start in self._starts]
        places: Iterable[int] = (0, count - 1, *changed, *(chunk + 1 for chunk in changed))
        return {place: hash_chunk(self.chunk(place)) for place in places if place < count}

    @property
    def top(self) -> Digest:
        """The node over all chunks."""
        return self.tree.top if self.tree else EMPTY_TOP

    @property
    def array(self) -> Array:
        """The tensor itself."""
        ends = [*self._starts[1:], self._elements]
        counts = [end - start for start, end in zip(self._starts, ends, strict=True)]
        bits = np.array(self._values, f"u{self._width}")
        return np.repeat(bits, counts).view(NUMPY_TYPES[self.dtype]).reshape(self.shape)

    def get_bits(self, element: int) -> int:
        """Return the bits of an element."""
        return self._values[bisect_right(self._starts, element) - 1]

    def chunk(self, index: int) -> bytes:
        """Return the bytes of one chunk."""
        size = CHUNK_BYTES // self._width
        elements = range(index * size, min((index + 1) * size, self._elements))
        return b"".join(self.get_bits(e).to_bytes(self._width, "little") for e in elements)
