"""Rounding of binary64 tensors to few bits, as the published method does after every operation.

`bits` counts the bits of the binary32 layout that are kept: 32 is binary32 itself, and 26 is
binary32 with its six lowest fraction bits zero and the same exponents. The bits of a rounded value
are a multiple of 2^(32 - bits), and neighbours are one such multiple apart: the grid.
"""

import torch
from torch import Tensor

from moot.offchain.errors import UsageError

MIN_BITS, MAX_BITS = 23, 32

_MAGNITUDE = 0x7FFFFFFF


def check_bits(bits: int) -> None:
    """Refuse a number of bits outside [23, 32] with `UsageError`."""
    if not MIN_BITS <= bits <= MAX_BITS:
        raise UsageError(f"{bits} bits can't be rounded to; choose {MIN_BITS} to {MAX_BITS}")


def round_to_bits(values: Tensor, bits: int) -> Tensor:
    """Return the values of a grid that are nearest to binary64 values, as binary64.

    A value is rounded to binary32 first, to nearest, ties to even. Then the low k = 32 - bits bits
    m of that decide: above 2^(k-1) it goes away from zero, below towards zero, and in the middle
    to the side of the middle on which the binary64 value lies. A binary64 value that is the middle
    itself goes to the even multiple. (The published rule leaves this last case open.)

    What is too large becomes an infinity, as in binary32; infinities and NaN stay as they are, and
    zeros keep their sign. Subnormal numbers of binary32 have the same grid.
    """
    single = values.to(torch.float32)
    if bits == MAX_BITS:
        return single.to(torch.float64)
    pattern, unit = single.view(torch.int32), 1 << (MAX_BITS - bits)
    low = pattern & (unit - 1)
    beyond = values.abs() - single.abs().to(torch.float64)
    odd = pattern & unit != 0
    in_middle = low == unit // 2
    goes_away = (low > unit // 2) | (in_middle & ((beyond > 0) | ((beyond == 0) & odd)))
    rounded = (pattern - low + goes_away * unit).to(torch.int32).view(torch.float32)
    return torch.where(values.isnan(), values, rounded.to(torch.float64))


def step(rounded: Tensor, bits: int, *, upwards: Tensor) -> Tensor:
    """Return the next values of the grid, above where `upwards`, and else below.

    Args:
        rounded: binary64 values of the grid; an infinity has a neighbour towards zero alone.
        bits: of the grid.
        upwards: booleans of the same shape.
    """
    pattern, unit = rounded.to(torch.float32).view(torch.int32), 1 << (MAX_BITS - bits)
    negative = pattern < 0
    away = (pattern & _MAGNITUDE == 0) | (upwards ^ negative)
    magnitude = (pattern & _MAGNITUDE) + torch.where(away, unit, -unit)
    crosses = (pattern & _MAGNITUDE == 0) & (upwards == negative)
    sign = torch.where(negative ^ crosses, -(1 << 31), 0)
    return (magnitude | sign).to(torch.int32).view(torch.float32).to(torch.float64)
