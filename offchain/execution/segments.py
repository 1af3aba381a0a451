"""The plans of reductions of rows in segments, such as a channel of every image of a batch."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import collapse
from offchain.execution.kernels.fused.segments import SegmentFold, compile_fold
from offchain.execution.roles import find_segments
from offchain.execution.views import Reader
from offchain.native import buffers, emit
from offchain.native.threads import share
from offchain.programs.graph import Node

_LEAST_ROWS = 4
_GRAIN_BYTES = 1 << 20
"""Bytes of the operand that make another thread worth its start."""


class Segmented(NamedTuple):
    """A reduction of rows in segments: its two operators with their indices, and the fold."""

    indices: tuple[int, int]
    nodes: tuple[Node, Node]
    reader: Reader
    fold: SegmentFold


def find_fold(inner: Node, outer: Node) -> tuple[Reader, SegmentFold] | None:
    """Return the fold that two reductions are, lanes and then the lanes, if they are one."""
    folded = find_segments(inner)
    if folded is None or folded.lanes is None or inner.function not in emit.EXPRESSIBLE:
        return None
    reader = Reader(folded.operand, folded.sizes)
    rank, strides = len(inner.shape) - 1, reader.strided.strides
    rows, lead = folded.sizes[:rank], folded.sizes[rank + 1 :]
    row_step, segment_step = collapse(rows, strides[:rank]), collapse(lead, strides[rank + 1 :])
    columns = folded.sizes[rank]
    is_dense = reader.is_view and strides[rank] == 1 and columns >= folded.lanes
    if row_step is None or segment_step is None or not is_dense or prod(rows) < _LEAST_ROWS:
        return None
    init, fill = (operand.value for operand in inner.operands)
    return reader, SegmentFold(
        dtype=inner.dtype,
        function=inner.function,
        init=init,
        fill=fill,
        segments=prod(lead),
        segment_step=segment_step,
        row_step=row_step,
        columns=columns,
        lanes=folded.lanes,
        outer_function=outer.function,
        outer_init=outer.operands[0].value,
    )


class SegmentedReduction:
    """The plan of a reduction of rows in segments.

    Attributes:
        operands: the access to the one tensor that is reduced.
    """

    def __init__(self, segmented: Segmented) -> None:
        self._reader, self._fold = segmented.reader, segmented.fold
        self._node = segmented.nodes[1]
        self.operands = (self._reader.operand,)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the output, given the tensor of the operand."""
        fold, kernel = self._fold, compile_fold(self._fold)
        source = self._reader.buffer(*flats)
        target = buffers.empty(self._node.shape, NUMPY_TYPES[self._node.dtype])
        width = target.itemsize
        start = source.ctypes.data + self._reader.strided.offset * width
        end = target.ctypes.data

        def compute(first: int, stop: int) -> None:
            scratch = np.empty(kernel.scratch_bytes, np.uint8)
            kernel.run(start, end, scratch.ctypes.data, first, stop)

        grain = -(-_GRAIN_BYTES // (fold.segments * fold.columns * width))
        share(compute, self._node.elements, grain)
        return [target]
