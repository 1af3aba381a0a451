"""The kernel that rounds binary64 results to binary32, and marks those that are near a boundary.

A mark is a NaN that no operator gives as a result, in the result's place: so whoever computes a
tensor part by part, in any layout, marks its elements without knowing which they are.
"""

import numpy as np
import numpy.typing as npt
from numba.core import types

from offchain.execution.kernels.compiled import kernel, reads, writes
from offchain.execution.kernels.threads import share
from offchain.execution.kernels.vectors import NAN

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

DOUBTFUL = np.uint32(0x7FC00001).view(np.float32)
"""The mark; the NaN that is a result is 0x7fc00000."""

MARK = int(DOUBTFUL.view(np.uint32))
"""Its bits."""

_GRAIN = 2**16


def round_products(
    sums: Doubles, rows: Doubles, columns: Doubles, init: Floats, out: Floats
) -> None:
    """Add initial terms to sums and round them, but mark those that a reach of theirs may change.

    Args:
        sums: (M, N) binary64, contiguous: the sums without their initial terms.
        rows: (M,) and
        columns: (N,): the reach at m, n is rows[m] * columns[n], which is 0 only where all terms
            are zeros.
        init: (M, N) float32, any strides: the initial terms.
        out: (M, N) float32, any strides.
    """

    def work(first: int, stop: int) -> None:
        _round_products(sums, rows, columns, init, out, first, stop)

    share(work, len(sums), max(1, _GRAIN // max(1, sums.shape[1])))


@kernel(
    reads(types.float64, 2),
    reads(types.float64, 1),
    reads(types.float64, 1),
    reads(types.float32, 2, "A"),
    writes(types.float32, 2, "A"),
    types.int64,
    types.int64,
)
def _round_products(
    sums: Doubles,
    rows: Doubles,
    columns: Doubles,
    init: Floats,
    out: Floats,
    first: int,
    stop: int,
) -> None:
    mark = DOUBTFUL
    for m in range(first, stop):
        for n in range(columns.size):
            start = np.float64(init[m, n])
            middle = sums[m, n] + start
            reach = rows[m] * columns[n] + 2.0**-48 * abs(middle)
            low, high = np.float32(middle - reach), np.float32(middle + reach)
            if middle != middle:  # noqa: PLR0124 - NaN alone differs from itself
                out[m, n] = NAN
            elif low != high or (low == 0 and (reach != 0 or np.copysign(1.0, start) < 0)):
                out[m, n] = mark
            else:
                out[m, n] = low
