"""The plans of reductions along an outer axis: of one operator, or of lanes and their fold."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu.called_plans import CalledGroup
from moot.offchain.backends.cpu.calls import share_out
from moot.offchain.backends.cpu.kernels.fused.vertical import compile_fold
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.vertical import Vertical

_GRAIN_BYTES = 1 << 19
"""Bytes of the operand that make another thread worth its start."""


class VerticalReduction(CalledGroup):
    """The plan of a reduction along an outer axis.

    Attributes:
        operands: the access to the one tensor that is reduced.
    """

    def __init__(self, vertical: Vertical) -> None:
        self._stack = stack = vertical.stack
        self.operands = (stack.reading.operand,)
        self._reader, output = Reader.of(stack.reading), vertical.nodes[-1]
        self._dtype = np.dtype(NUMPY_TYPES[output.dtype])
        super().__init__([self._reader], [(output.shape, self._dtype)])
        self._fold = vertical.fold

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], _memory: Memory
    ) -> list[Call]:
        """Return the call that computes the output."""
        kernel, starts = compile_fold(self._fold), self._starts
        words = *places, *targets, buffers.get_address(starts), 0, starts.size * kernel.strips
        grain = -(-_GRAIN_BYTES // (self._stack.rows * kernel.strip * self._dtype.itemsize))
        return [share_out(Call(kernel.address, words), grain)]

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Where each matrix begins in the buffer, in bytes."""
        stack = self._stack
        places = np.full(stack.outer, self._reader.strided.offset, np.int64)
        for axis, stride in enumerate(stack.strides):
            shape = [-1 if a == axis else 1 for a in range(len(stack.outer))]
            places += np.arange(stack.outer[axis], dtype=np.int64).reshape(shape) * stride
        return np.ascontiguousarray(places * self._dtype.itemsize)
