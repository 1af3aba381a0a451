"""A kernel that rounds binary64 to fewer bits, and marks what is near the middle of two roundings.

It does what `offchain/replication/published` defines in `rounding` and `thresholds`, in one pass.
"""

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.native.compiled import kernel, reads, writes
from moot.offchain.native.threads import share

Doubles = npt.NDArray[np.float64]
Marks = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_GRAIN = 2**16

_BINADES = 2047
"""Exponents of finite binary64 numbers."""

_TEN_POWERS = [0.0, *(float(f"1e{power}") for power in range(-323, 309))]


def _tabulate_powers() -> Doubles:
    """Return, for each exponent, the powers of ten below the least and the greatest number of it.

    Of subnormal numbers it is 0: they are too small for any threshold.
    """
    powers = np.array(_TEN_POWERS)
    table = np.zeros((_BINADES + 1, 2))
    for exponent in range(1, _BINADES):
        least = 2.0 ** (exponent - 1023)
        ends = np.array([least, least * (2 - 2.0**-52)])
        table[exponent] = powers[np.searchsorted(powers, ends, "right") - 1]
    return table


_POWERS = _tabulate_powers()


def round_and_mark(values: Doubles, bits: int, threshold: float) -> tuple[Doubles, Marks]:
    """Return the roundings of values and their codes: 0 down, 1 not near a middle, 2 up.

    Args:
        values: (N,) binary64, contiguous.
        bits: those of the binary32 layout that are kept, 23 to 32.
        threshold: a value v is near a middle if it is further from its rounding than threshold
            times the greatest power of ten that is not above |v|.
    """
    rounded, codes = np.empty_like(values), np.empty(len(values), np.uint8)

    def work(first: int, stop: int) -> None:
        _round_and_mark(
            values,
            values.view(np.uint64),
            32 - bits,
            threshold,
            _POWERS,
            rounded,
            rounded.view(np.uint64),
            codes,
            first,
            stop,
        )

    share(work, len(values), _GRAIN)
    return rounded, codes


@kernel(
    reads(types.float64, 1),
    reads(types.uint64, 1),
    types.int64,
    types.float64,
    reads(types.float64, 2),
    writes(types.float64, 1),
    writes(types.uint64, 1),
    writes(types.uint8, 1),
    types.int64,
    types.int64,
)
def _round_and_mark(
    values: Doubles,
    words: Words,
    dropped: int,
    threshold: float,
    powers: Doubles,
    rounded: Doubles,
    rounded_words: Words,
    codes: Marks,
    first: int,
    stop: int,
) -> None:
    low = np.uint64(29 + dropped)
    below_half = (np.uint64(1) << (low - np.uint64(1))) - np.uint64(1)
    mask = ~((np.uint64(1) << low) - np.uint64(1))
    sign_bit = np.uint64(1) << np.uint64(63)
    # Adding this leaves multiples of binary32's least number, or of that of the grid.
    shifter = 1.5 * 2.0**52 * 2.0**-149 * (1 << dropped)
    for k in range(first, stop):
        value, word = values[k], words[k]
        size = abs(value)
        if not size < np.inf:  # an infinity, or a NaN
            rounded[k] = value
            codes[k] = 1
            continue
        if size < 2.0**-126:
            rounded[k] = (size + shifter) - shifter
            rounded_words[k] |= word & sign_bit
        else:
            odd = (word >> low) & np.uint64(1)
            rounded_words[k] = (word + below_half + odd) & mask
            if abs(rounded[k]) >= 2.0**128:
                rounded[k] = np.inf if value > 0 else -np.inf
        result = rounded[k]
        binade = (word >> np.uint64(52)) & np.uint64(2047)
        power = powers[binade, np.int64(size >= powers[binade, 1])]
        is_near = np.int64(abs(value - result) > threshold * power)
        # No branch, since it would be mispredicted every second time.
        codes[k] = 1 + is_near * (2 * np.int64(result > value) - 1)
