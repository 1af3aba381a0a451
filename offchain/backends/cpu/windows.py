"""The plans of reductions of small windows, such as those of pooling."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from moot.offchain.backends.cpu.calls import share_out
from moot.offchain.backends.cpu.kernels.fused.windows import Kernel, compile_fold
from moot.offchain.backends.cpu.views import make_constant
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place
from moot.offchain.native.threads import share
from moot.offchain.planning.windows import WindowFold
from moot.offchain.programs.graph import Node

_GRAIN_ELEMENTS = 1 << 16
"""Elements of windows that make another thread worth its start."""


class WindowReduction:
    """The plan of a reduction of windows.

    Args:
        node: a reduce node.
        fold: its form.
    """

    is_called = True

    def __init__(self, node: Node, fold: WindowFold) -> None:
        self._shape, self._dtype = node.shape, NUMPY_TYPES[node.dtype]
        self._fold = fold
        self._rows = prod(fold.rows)
        operand = node.operands[1]
        fill = make_constant(operand.dtype, operand.value)
        self._outside = np.repeat(fill, (fold.columns - 1) * fold.column_step + 1)
        self._grain = max(1, _GRAIN_ELEMENTS // (fold.columns * node.fold_length))

    @cached_property
    def _kernel(self) -> Kernel:
        return compile_fold(self._fold)

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], _memory: Memory
    ) -> list[Call]:
        """Return the call that computes the output."""
        _, source = sources
        assert source is not None
        outside = buffers.get_address(self._outside)
        fold = Call(self._kernel.address, (source, outside, *targets, 0, self._rows))
        return [share_out(fold, self._grain)]

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a constant, and of the operand."""
        _, flat = flats
        assert flat is not None
        out, kernel = buffers.empty(self._shape, self._dtype), self._kernel
        source, outside, target = (
            buffers.get_address(array) for array in (flat, self._outside, out)
        )
        share(
            lambda first, stop: kernel.run(source, outside, target, first, stop),
            self._rows,
            self._grain,
        )
        return out
