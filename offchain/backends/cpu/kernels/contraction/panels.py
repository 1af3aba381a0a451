"""Products of few rows with a factor that lies in panels already, as `packing.py` would pack it.

The factor is read from end to end, once: memory gives most where it is asked for neighbours.
"""

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.packing import pack, panel_bytes
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
    multiply_tile,
)
from moot.offchain.native.compiled import kernel, reads, writes
from moot.offchain.native.vectors import LANES

Floats = npt.NDArray[np.float32]


def count_scratch_floats(m: int, k: int) -> int:
    """Return the floats of scratch memory for a factor of m rows and k steps."""
    return -(-m // ROWS) * -(-k // LANES) * LANES * A_STEP_BYTES // FLOAT_BYTES


@kernel(
    reads(types.float32, 2, "A"),
    types.int64,
    reads(types.float32, 2, "A"),
    writes(types.float32, 2, "A"),
    writes(types.float32, 1),
    *[types.int64] * 2,
)
def multiply_panels(
    a: Floats, b: int, init: Floats, out: Floats, scratch: Floats, first: int, stop: int
) -> None:
    """Compute the columns of some panels of a product.

    Args:
        a: (M, K), any strides.
        b: the address of the panels, each (K, `COLUMNS`), which are contiguous, as are all of them.
        init: (M, N), where sums start; the elements of a row lie side by side, or all are one.
        out: (M, N) with contiguous rows, N being a multiple of `COLUMNS`.
        scratch: room for the packed rows, `count_scratch_floats`.
        first: the first panel to compute.
        stop: the first not to.
    """
    m, depth = a.shape
    pack(a, ROWS, A_STEP_BYTES, scratch.ctypes.data)
    size = panel_bytes(depth, A_STEP_BYTES)
    one = np.empty(COLUMNS, np.float32)
    start, start_step, start_column_step = init.ctypes.data, *init.strides
    if start_column_step == 0:
        for column in range(COLUMNS):
            one[column] = init[0, 0]
        start = one.ctypes.data
    for panel in range(first, stop):
        column = panel * COLUMNS
        for row in range(0, m, ROWS):
            multiply_tile(
                min(ROWS, m - row),
                COLUMNS,
                scratch.ctypes.data + row // ROWS * size,
                FLOAT_BYTES,
                A_STEP_BYTES,
                b + panel * depth * B_STEP_BYTES,
                B_STEP_BYTES,
                depth,
                start + row * start_step + column * start_column_step,
                start_step,
                out.ctypes.data + row * out.strides[0] + column * FLOAT_BYTES,
                out.strides[0],
                b,
                0,
                1,
                0,
            )
