"""The start values of a convolution's sums, brought side by side for each group's columns."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from moot.offchain.backends.cpu.calls import lay_out, lay_out_whole, list_copies
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS, FLOAT_BYTES
from moot.offchain.backends.cpu.views import Reader, list_fills
from moot.offchain.commitments.tensors import Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.accesses import Strided, row_major
from moot.offchain.programs.graph import Node

_ZERO = np.zeros(1, np.float32)


class Starts:
    """The start values of a contraction that depend on no row.

    Args:
        node: the contraction.
        batch: its variables that choose a group.
        columns: those of a group's columns.

    Attributes:
        reader: what reads them on the whole domain.
        step_bytes: from a group's start values, of which there are `COLUMNS` more than columns, to
            the next one's.
    """

    def __init__(self, node: Node, batch: Sequence[int], columns: Sequence[int]) -> None:
        self.reader = Reader(node.operands[0], node.shape + node.fold_shape)
        self._kept = (*batch, *columns)
        self._groups, self._columns = (
            tuple(node.shape[v] for v in variables) for variables in (batch, columns)
        )
        self._shape = prod(self._groups), prod(self._columns) + COLUMNS
        self.step_bytes = self._shape[1] * FLOAT_BYTES

    @cached_property
    def _constant(self) -> Array:
        """The start values, where these are a constant."""
        return self._arrange(self.reader.read(None))

    def read(self, flat: Array | None) -> Array:
        """Return them, and zeros behind each group's; `flat` is the tensor, None for a constant."""
        return self._constant if flat is None else self._arrange(self.reader.read(flat))

    def _arrange(self, init: Array) -> Array:
        values = init[tuple(slice(None) if v in self._kept else 0 for v in range(init.ndim))]
        turned = values.transpose([sorted(self._kept).index(v) for v in self._kept])
        starts = np.zeros(self._shape, np.float32)
        starts[:, : prod(self._columns)] = turned.reshape(self._shape[0], -1)
        return starts

    def list_calls(self, source: Place | None, memory: Memory) -> tuple[Word, list[Call]]:
        """Return where they will be, and the calls that bring them there."""
        if source is None:
            return buffers.get_address(self._constant), []
        start, calls = self.reader.list_calls(source, memory)
        rows = memory.reserve(prod(self._shape) * FLOAT_BYTES)
        shape = self._groups + self._columns
        groups = [step * self._shape[1] for step in row_major(self._groups)]
        inside = Strided(0, (*groups, *row_major(self._columns)))
        strides = self.reader.strided.strides
        read = Strided(self.reader.strided.offset, tuple(strides[v] for v in self._kept))
        source_view, view = (
            lay_out(at, FLOAT_BYTES, shape, strided)
            for at, strided in ((start, read), (rows, inside))
        )
        whole = lay_out_whole(rows, FLOAT_BYTES, self._shape)
        fills = list_fills(_ZERO, whole, memory)
        return rows, [*calls, *fills, *list_copies(source_view, view, memory)]
