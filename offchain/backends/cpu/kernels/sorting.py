"""The positions of the elements of lines in ascending order of their keys, by their digits."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.native.compiled import kernel, reads, writes
from moot.offchain.native.threads import share

Keys = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]

_GRAIN = 2**13
"""Elements that make another thread worth its start."""

_MOST = 1 << 31
"""Counters of 32 bits hold the elements of shorter lines."""

_BITS = 8
_DIGITS = 1 << _BITS


def make_keys(lines: npt.NDArray[Any], *, is_descending: bool) -> Keys:
    """Return unsigned numbers in the order of the elements; equal ones have the same number.

    Args:
        lines: float32, int32 or int64, contiguous; every NaN is above all numbers.
        is_descending: whether the largest come first.
    """
    if lines.dtype == np.float32:
        keys = np.empty(lines.shape, np.uint32)
        _rank_floats(lines.view(np.uint32).reshape(-1), keys.reshape(-1), is_descending)
        return keys
    word = np.dtype(f"u{lines.itemsize}").type
    flipped = word(1 << 8 * lines.itemsize - 1)
    turned: Keys = np.bitwise_xor(lines.view(word), ~flipped if is_descending else flipped)
    return turned


def sort_lines(keys: Keys) -> Positions:
    """Return the positions of each line's keys in ascending order, the first of equals first.

    Args:
        keys: (R, n) uint32 or uint64, contiguous; n from 1 to below 2^31.
    """
    assert 1 <= keys.shape[1] < _MOST
    places = np.empty(keys.shape, np.int64)
    grain = max(1, _GRAIN // keys.shape[1])
    run = _SORT[keys.itemsize]
    share(lambda first, stop: run(keys, places, first, stop), len(keys), grain)
    return places


def is_counter(numbers: Keys) -> bool:
    """Whether a line is 0, 1, 2, ...

    Args:
        numbers: (n,) int64, contiguous.
    """
    differs = np.zeros(1, np.int64)
    _compare_with_counter(numbers, differs)
    return not differs[0]


@kernel(reads(types.int64, 1), writes(types.int64, 1))
def _compare_with_counter(numbers: Positions, differs: Positions) -> None:
    found = np.int64(0)
    for place in range(numbers.size):
        found |= numbers[place] ^ place
    differs[0] = found


@kernel(reads(types.uint32, 1), writes(types.uint32, 1), types.boolean)
def _rank_floats(bits: Keys, keys: Keys, is_descending: bool) -> None:  # noqa: FBT001 - kernels have positions only
    sign, infinity, most = np.uint32(1 << 31), np.uint32(0x7F800000), np.uint32(0xFFFFFFFF)
    turned = most if is_descending else np.uint32(0)
    for place in range(bits.size):
        size = bits[place] & ~sign
        signed = sign - size if bits[place] & sign else sign + size
        keys[place] = (most if size > infinity else signed) ^ turned


def _sort(keys: Keys, places: Positions, first: int, stop: int) -> None:
    """Sort the lines from `first` to `stop` by their lowest digits, then by the next, and so on."""
    size = keys.shape[1]
    rounds = keys.itemsize
    counts = np.empty((rounds, _DIGITS), np.int32)
    held, kept = np.empty(size, keys.dtype), np.empty(size, keys.dtype)
    found, taken = np.empty(size, np.int32), np.empty(size, np.int32)
    for row in range(first, stop):
        counts[...] = 0
        for place in range(size):
            key = keys[row, place]
            held[place], found[place] = key, place
            for number in range(rounds):
                counts[number, (key >> (_BITS * number)) & (_DIGITS - 1)] += 1
        for number in range(rounds):
            shift = _BITS * number
            starts = counts[number]
            if starts[(held[0] >> shift) & (_DIGITS - 1)] == size:
                continue
            total = np.int32(0)
            for digit in range(_DIGITS):
                total, starts[digit] = total + starts[digit], total
            for place in range(size):
                key = held[place]
                digit = (key >> shift) & (_DIGITS - 1)
                spot = starts[digit]
                starts[digit] = spot + 1
                kept[spot], taken[spot] = key, found[place]
            held, kept = kept, held
            found, taken = taken, found
        for place in range(size):
            places[row, place] = found[place]


_SORT = {
    width: kernel(reads(word, 2), writes(types.int64, 2), types.int64, types.int64)(_sort)
    for width, word in {4: types.uint32, 8: types.uint64}.items()
}
