"""Element indices of accesses: the general way to read operands that no view or few boxes cover."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Row

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SLAB_ELEMENTS = 1 << 21
_SAFE_BITS = 62


def open_grid(sizes: Sequence[int], starts: Sequence[int] | None = None) -> list[Integers]:
    """Return the variables of a domain as arrays that broadcast against each other."""
    rank = len(sizes)
    return [
        np.arange(start, start + size, dtype=np.int64).reshape(
            [-1 if axis == variable else 1 for axis in range(rank)]
        )
        for variable, (size, start) in enumerate(zip(sizes, starts or [0] * rank, strict=True))
    ]


def locate(rows: Sequence[Row], variables: Sequence[Integers]) -> tuple[Integers, Mask]:
    """Return the element indices that an access addresses (0 where out of range), and its range.

    Args:
        rows: the access.
        variables: the values of its variables; they broadcast against each other.

    Returns:
        Two arrays that broadcast to the shape of the variables.
    """
    linear = np.zeros((1,) * max((v.ndim for v in variables), default=0), np.int64)
    if not all(row.size for row in rows):
        return linear, np.zeros(linear.shape, np.bool_)
    inside = np.ones(linear.shape, np.bool_)
    for row in rows:
        total = _sum_terms(row, variables)
        quotient = np.asarray(total // row.divisor, total.dtype)
        is_whole = np.asarray(quotient * row.divisor == total, np.bool_)
        fits = is_whole & np.asarray((quotient >= 0) & (quotient < row.size), np.bool_)
        linear = linear * row.size + np.where(fits, quotient, 0).astype(np.int64)
        inside = inside & fits
    return np.where(inside, linear, 0), inside


def _sum_terms(row: Row, variables: Sequence[Integers]) -> NDArray[np.generic]:
    """Return offset + sum of coefficient * variable, as objects where int64 could overflow."""
    used = [(c, variables[v]) for v, c in row.terms if variables[v].size]
    bound = abs(row.offset) + sum(abs(c) * _magnitude(v) for c, v in used)
    is_safe = max(bound, row.divisor, row.size) >> _SAFE_BITS == 0
    dtype = np.dtype(np.int64 if is_safe else object)
    total = np.full((1,) * max((v.ndim for v in variables), default=0), row.offset, dtype)
    for variable, coefficient in row.terms:
        term = coefficient * variables[variable].astype(dtype)
        total = np.asarray(total + term, dtype)
    return total


def _magnitude(values: Integers) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))


def copy_in_range(out: Array, flat: Array, rows: Sequence[Row]) -> None:
    """Write an access's elements into `out`, whose axes are its variables, where it is in range.

    The index arrays are made part by part, so that they stay small.
    """
    _copy_part(out, flat, rows, [0] * out.ndim)


def _copy_part(out: Array, flat: Array, rows: Sequence[Row], starts: list[int]) -> None:
    if out.size > _SLAB_ELEMENTS:
        axis = int(np.argmax(out.shape))
        half = out.shape[axis] // 2
        low, high = np.split(out, [half], axis)
        _copy_part(low, flat, rows, starts)
        starts = [s + half * (a == axis) for a, s in enumerate(starts)]
        _copy_part(high, flat, rows, starts)
        return
    if not flat.size:
        return
    indices, inside = locate(rows, open_grid(out.shape, starts))
    np.copyto(out, flat[indices], where=inside)
