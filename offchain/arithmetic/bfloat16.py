"""Bfloat16 on bit patterns: the upper half of a binary32 number, to which numbers are rounded."""

from moot.offchain.arithmetic import float32

NAN = 0x7FC0
"""The one bit pattern under which every NaN is committed."""

_LOWER_BITS = 16


def widen(x: int) -> int:
    """Return the binary32 pattern of a bfloat16 number, which is exact; NaN becomes canonical."""
    return float32.canonical(x << _LOWER_BITS)


def narrow(x: int) -> int:
    """Return the bfloat16 pattern nearest to a binary32 number, ties to even.

    What lies half a unit above the largest number, or further, is infinite; NaN is canonical.
    """
    if float32.is_nan(x):
        return NAN
    is_odd = x >> _LOWER_BITS & 1
    return x + (1 << _LOWER_BITS - 1) - 1 + is_odd >> _LOWER_BITS
