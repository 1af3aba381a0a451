"""The rounds by which the largest elements of rows are found, computed by one pass over each row.

A program has no operator for them. It takes the first of the largest, marks it as taken in a mask,
counts what is taken as the least value there is, and takes the next. Once the least is the largest,
all that are left equal it, and the first that is not taken follows. So what the rounds take are the
first elements of each row, sorted from the largest, the first of equals first.

The mask is made with a counter 0, 1, 2, ... that is a tensor like any other: where it is something
else, the operators run one by one.
"""

from collections.abc import Sequence

import numpy as np

from offchain.backends.cpu.kernels.largest import find_largest
from offchain.backends.cpu.plans import plan_node
from offchain.commitments.tensors import Array
from offchain.planning.selections import Selection
from offchain.programs.graph import Origin


class LargestElements:
    """The plan of a selection.

    Attributes:
        operands: the accesses to the tensor and to the counter.
    """

    def __init__(self, selection: Selection, kept: Sequence[int]) -> None:
        self._selection, self._kept = selection, kept
        self.operands = selection.operands
        self._shape = (*selection.shape[:-1], 1)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the positions that are kept, given the tensor and the counter."""
        selection = self._selection
        x, counter = flats
        assert x is not None
        assert counter is not None
        size = selection.shape[-1]
        if not np.array_equal(counter.reshape(-1), np.arange(size)):
            return self._run_rounds(x, counter)
        rows = x.reshape(-1, size).astype(np.float32, copy=False)
        places = find_largest(rows, len(selection.taken))
        rounds = dict(zip(selection.taken, places, strict=True))
        return [rounds[index].reshape(self._shape) for index in self._kept]

    def _run_rounds(self, x: Array, counter: Array) -> list[Array]:
        """Run the operators one by one."""
        selection = self._selection
        read, count = (operand.reference for operand in selection.operands)
        values: dict[int, Array] = {read: x, count: counter}
        for index, node in zip(selection.indices, selection.nodes, strict=True):
            flats = [
                values.get(o.reference) if o.origin is Origin.NODE else None for o in node.operands
            ]
            values[index] = plan_node(node).run(flats, 0)
        return [values[index] for index in self._kept]
