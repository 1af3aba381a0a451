"""The plans of reductions of rows in segments, such as a channel of every image of a batch."""

from collections.abc import Sequence

import numpy as np

from offchain.backends.cpu.calls import Memory, reserve_scratch, share_out, skip
from offchain.backends.cpu.kernels.fused.segments import compile_fold
from offchain.backends.cpu.views import Reader
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.native import buffers
from offchain.native.sequences import Call, Place
from offchain.native.threads import share
from offchain.planning.segments import Segmented

_GRAIN_BYTES = 1 << 18
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
        row_bytes = self._fold.segments * self._fold.columns * self._node.dtype.width
        self._grain = -(-_GRAIN_BYTES // row_bytes)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the output, given the tensor of the operand."""
        kernel = compile_fold(self._fold)
        source = self._reader.buffer(*flats)
        target = buffers.empty(self._node.shape, NUMPY_TYPES[self._node.dtype])
        width = target.itemsize
        start = source.ctypes.data + self._reader.strided.offset * width
        end = target.ctypes.data

        def compute(first: int, stop: int) -> None:
            scratch = np.empty(kernel.scratch_bytes, np.uint8)
            kernel.run(start, end, scratch.ctypes.data, first, stop)

        share(compute, self._node.elements, self._grain)
        return [target]

    @property
    def is_called(self) -> bool:
        """Whether a few calls bring its operand into place."""
        return self._reader.is_short

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        kernel = compile_fold(self._fold)
        source, calls = self._reader.list_calls(sources[0], memory)
        start = skip(source, self._reader.strided.offset * self._node.dtype.width)
        place, size = reserve_scratch(memory, kernel.scratch_bytes)
        words = (start, *targets, place, 0, self._node.elements)
        return [*calls, share_out(Call(kernel.address, words), self._grain, scratch=(2, size))]
