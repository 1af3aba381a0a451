"""The plans of reductions of rows in segments, such as a channel of every image of a batch."""

from collections.abc import Sequence

import numpy as np

from offchain.backends.cpu.kernels.fused.segments import compile_fold
from offchain.backends.cpu.views import Reader
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.native import buffers
from offchain.native.threads import share
from offchain.planning.segments import Segmented

_GRAIN_BYTES = 1 << 20
"""Bytes of the operand that make another thread worth its start."""


class SegmentedReduction:
    """The plan of a reduction of rows in segments.

    Attributes:
        operands: the access to the one tensor that is reduced.
    """

    def __init__(self, segmented: Segmented) -> None:
        self._reader, self._fold = Reader.of(segmented.reading), segmented.fold
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
