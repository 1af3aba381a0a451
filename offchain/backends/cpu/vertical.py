"""The plans of reductions along an outer axis: of one operator, or of lanes and their fold."""

from collections.abc import Sequence

import numpy as np

from offchain.backends.cpu.kernels.fused.vertical import compile_fold
from offchain.backends.cpu.views import Reader
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.native import buffers
from offchain.native.threads import share
from offchain.planning.vertical import Vertical

_GRAIN_BYTES = 1 << 21
"""Bytes of the operand that make another thread worth its start."""


class VerticalReduction:
    """The plan of a reduction along an outer axis.

    Attributes:
        operands: the access to the one tensor that is reduced.
    """

    def __init__(self, vertical: Vertical) -> None:
        self._stack = stack = vertical.stack
        self.operands = (stack.reading.operand,)
        self._reader = Reader.of(stack.reading)
        self._shape, self._dtype = vertical.nodes[-1].shape, NUMPY_TYPES[vertical.nodes[-1].dtype]
        self._fold = vertical.fold

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the output, given the tensor of the operand."""
        stack, kernel = self._stack, compile_fold(self._fold)
        source = self._reader.buffer(*flats)
        target = buffers.empty(self._shape, self._dtype)
        width = target.itemsize
        start = source.ctypes.data + self._reader.strided.offset * width
        places = np.zeros(stack.outer, np.int64)
        for axis, stride in enumerate(stack.strides):
            shape = [-1 if a == axis else 1 for a in range(len(stack.outer))]
            places += np.arange(stack.outer[axis], dtype=np.int64).reshape(shape) * stride
        starts = [start + place * width for place in places.reshape(-1).tolist()]
        ends = [target.ctypes.data + i * stack.columns * width for i in range(len(starts))]

        def fold(first: int, stop: int) -> None:
            for matrix in range(first // kernel.strips, -(-stop // kernel.strips)):
                before = matrix * kernel.strips
                strips = max(first - before, 0), min(stop - before, kernel.strips)
                kernel.run(starts[matrix], ends[matrix], *strips)

        grain = -(-_GRAIN_BYTES // (stack.rows * kernel.strip * width))
        share(fold, len(starts) * kernel.strips, grain)
        return [target]
