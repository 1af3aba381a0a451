"""The plans of reductions of small windows, such as those of pooling."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from moot.offchain.backends.cpu.called_plans import CalledOperator
from moot.offchain.backends.cpu.calls import share_out
from moot.offchain.backends.cpu.kernels.fused.windows import Kernel, compile_fold
from moot.offchain.backends.cpu.views import AsItLies, Reader, make_constant
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.windows import WindowFold
from moot.offchain.programs.graph import Node

_GRAIN_ELEMENTS = 1 << 16
"""Elements of windows that make another thread worth its start."""


class WindowReduction(CalledOperator):
    """The plan of a reduction of windows.

    Args:
        node: a reduce node.
        fold: its form.
    """

    def __init__(self, node: Node, fold: WindowFold) -> None:
        init, operand = node.operands
        output = node.shape, NUMPY_TYPES[node.dtype]
        super().__init__([Reader(init, ()), AsItLies()], [output])
        self._fold = fold
        self._rows = prod(fold.rows)
        fill = make_constant(operand.dtype, operand.value)
        self._outside = np.repeat(fill, (fold.columns - 1) * fold.column_step + 1)
        self._grain = max(1, _GRAIN_ELEMENTS // (fold.columns * node.fold_length))

    @cached_property
    def _kernel(self) -> Kernel:
        return compile_fold(self._fold)

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], _memory: Memory
    ) -> list[Call]:
        """Return the call that computes the output; init is a constant of the kernel's."""
        outside = buffers.get_address(self._outside)
        fold = Call(self._kernel.address, (places[1], outside, *targets, 0, self._rows))
        return [share_out(fold, self._grain)]
