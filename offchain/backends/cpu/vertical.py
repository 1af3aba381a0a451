"""The plans of reductions along an outer axis: of one operator, or of lanes and their fold."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from moot.offchain.backends.cpu.calls import share_out, skip
from moot.offchain.backends.cpu.kernels.fused.vertical import Kernel, compile_fold
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place
from moot.offchain.native.threads import share
from moot.offchain.planning.vertical import Vertical

_GRAIN_BYTES = 1 << 19
"""Bytes of the operand that make another thread worth its start."""

_MOST_MATRICES = 16
"""Matrices that are folded by calls of their own in a sequence."""


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
        kernel = compile_fold(self._fold)
        source = self._reader.buffer(*flats)
        target = buffers.empty(self._shape, self._dtype)
        first_start, first_end = buffers.get_address(source), buffers.get_address(target)
        starts = [first_start + start for start, _ in self._matrices]
        ends = [first_end + end for _, end in self._matrices]

        def fold(first: int, stop: int) -> None:
            for matrix in range(first // kernel.strips, -(-stop // kernel.strips)):
                before = matrix * kernel.strips
                strips = max(first - before, 0), min(stop - before, kernel.strips)
                kernel.run(starts[matrix], ends[matrix], *strips)

        share(fold, len(starts) * kernel.strips, self._get_grain(kernel))
        return [target]

    @cached_property
    def _matrices(self) -> list[tuple[int, int]]:
        """Where each matrix begins in the buffer, and where its results do, in bytes."""
        stack, width = self._stack, self._dtype.itemsize
        places = np.full(stack.outer, self._reader.strided.offset, np.int64)
        for axis, stride in enumerate(stack.strides):
            shape = [-1 if a == axis else 1 for a in range(len(stack.outer))]
            places += np.arange(stack.outer[axis], dtype=np.int64).reshape(shape) * stride
        starts = places.reshape(-1).tolist()
        return [(at * width, i * stack.columns * width) for i, at in enumerate(starts)]

    def _get_grain(self, kernel: Kernel) -> int:
        return -(-_GRAIN_BYTES // (self._stack.rows * kernel.strip * self._dtype.itemsize))

    @property
    def is_called(self) -> bool:
        """Whether its matrices are few."""
        return self._reader.is_short and prod(self._stack.outer) <= _MOST_MATRICES

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        kernel, (target,) = compile_fold(self._fold), targets
        source, calls = self._reader.list_calls(sources[0], memory)
        for start, end in self._matrices:
            words = (skip(source, start), target.skip(end), 0, kernel.strips)
            calls.append(share_out(Call(kernel.address, words), self._get_grain(kernel)))
        return calls
