"""Folds and extrema along rows: the vector kernels against the definition, step by step."""

import ctypes
import mmap
import sys
from collections.abc import Callable
from functools import reduce
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic import float32
from moot.offchain.backends.cpu.kernels.reduce import argmax, argmin, fold
from moot.offchain.native.threads import get_threads, set_threads
from tests.quick import share

Floats = npt.NDArray[np.float32]
Name = Literal["add", "max", "min"]

DEFINITIONS: dict[Name, Callable[[int, int], int]] = {
    "add": float32.add,
    "max": float32.maximum,
    "min": float32.minimum,
}

PATTERNS = [0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF]
WITH_INFINITIES = [*PATTERNS, 0x7F800000, 0xFF800000]
WITH_NANS = [*WITH_INFINITIES, 0x7FC00000, 0xFF800001]

LAYOUTS = st.sampled_from(["rows", "columns", "strided", "same row", "same column"])


def bits(x: Floats) -> list[int]:
    """The patterns of floats, which tell zeros and NaNs apart."""
    patterns: list[int] = np.ascontiguousarray(x).view(np.uint32).tolist()
    return patterns


def draw_matrix(seed: int, rows: int, depth: int, layout: str, patterns: list[int]) -> Floats:
    """A matrix of ordinary and special numbers that lies in memory as `layout` says."""
    rng = np.random.default_rng(seed)
    numbers = (rng.standard_normal((2 * rows, 3 * depth)) * 100).astype(np.float32)
    special = rng.choice(np.array(patterns, np.uint32), numbers.shape).view(np.float32)
    memory = np.where(rng.random(numbers.shape) < rng.choice([0, 0.02, 0.5]), special, numbers)
    match layout:
        case "rows":
            return np.ascontiguousarray(memory[:rows, :depth])
        case "columns":
            return np.ascontiguousarray(memory[:rows, :depth].T).T
        case "strided":
            return memory[::-2, ::3][:rows, :depth]
        case "same row":
            return np.broadcast_to(memory[:1, :depth], (rows, depth))
        case _:
            return np.broadcast_to(memory[:rows, :1], (rows, depth))


@settings(deadline=None, max_examples=share(150))
@given(
    st.sampled_from(list(DEFINITIONS)),
    st.integers(0, 40) | st.sampled_from([255, 256, 300]),
    st.integers(0, 50),
    LAYOUTS,
    st.sampled_from([PATTERNS, WITH_INFINITIES, WITH_NANS]),
    st.sampled_from(WITH_NANS),
    st.integers(0, 2**32 - 1),
)
@example("add", 300, 40, "columns", PATTERNS, 0x80000000, 0)
@example("min", 35, 40, "rows", WITH_NANS, 0xFF800001, 0)
def test_folds_follow_the_definition(
    name: Name, rows: int, depth: int, layout: str, patterns: list[int], init: int, seed: int
) -> None:
    """Every row folds in ascending order by the defined function, for any layout in memory."""
    if rows > 40:
        depth %= 35
    x = draw_matrix(seed, rows, depth, layout, patterns)
    start = float32.canonical(init)
    expected = [reduce(DEFINITIONS[name], map(float32.canonical, bits(row)), start) for row in x]
    assert bits(fold(x, name, np.uint32(init).view(np.float32).item())) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux for guard pages")
@pytest.mark.parametrize("is_turned", [False, True])
def test_nothing_beyond_the_matrix_is_read(*, is_turned: bool) -> None:
    """The matrix may end where a page begins that must not be touched."""
    memory = np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.float32)
    guard = ctypes.c_void_p(memory.ctypes.data + mmap.PAGESIZE)
    assert ctypes.CDLL(None).mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    for rows, depth in [(5, 32), (17, 33), (31, 16)]:
        x = memory[mmap.PAGESIZE // 4 - rows * depth : mmap.PAGESIZE // 4]
        matrix = x.reshape(depth, rows).T if is_turned else x.reshape(rows, depth)
        assert fold(matrix, "add", 1).tolist() == [1] * rows
        assert fold(matrix, "max", 1).tolist() == [1] * rows
        assert argmax(matrix).tolist() == [0] * rows


def test_order_is_ascending() -> None:
    """2^24 + 1 - 2^24 is 0 in ascending order and 1 in descending order."""
    x = np.array([[2.0**24, 1, -(2.0**24)], [2.0**24, -(2.0**24), 1]] * 20, np.float32)
    assert fold(x, "add", 0).tolist() == [0, 1] * 20


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(-(2**63), 2**63 - 1))
def test_integers_wrap_around(values: list[int], init: int) -> None:
    """The sum of int64 is the sum of integers modulo 2^64."""
    total = (sum(values) + init) % 2**64
    folded = fold(np.array([values], np.int64), "add", init)
    assert folded.dtype == np.int64
    assert folded.view(np.uint64).tolist() == [total]


def find_extremum(patterns: list[int], is_better: Callable[[int, int], bool]) -> int:
    """The position that a left fold over positions ends with."""
    best = 0
    for k, x in enumerate(patterns):
        if is_better(x, patterns[best]) or (
            float32.is_nan(x) and not float32.is_nan(patterns[best])
        ):
            best = k
    return best


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 30), LAYOUTS, st.integers(0, 2**32 - 1))
@example(300, 9, "columns", 0)
@example(9, 300, "rows", 0)
@example(3, 700, "rows", 1)
def test_extrema_are_the_first_ones(rows: int, depth: int, layout: str, seed: int) -> None:
    """The position is that of the first extremum, zeros being equal, or of the first NaN."""
    x = draw_matrix(seed, rows, depth, layout, WITH_NANS)
    patterns = [[float32.canonical(pattern) for pattern in bits(row)] for row in x]
    above = [find_extremum(row, lambda new, old: bool(float32.less(old, new))) for row in patterns]
    below = [find_extremum(row, lambda new, old: bool(float32.less(new, old))) for row in patterns]
    assert argmax(x).tolist() == above
    assert argmin(x).tolist() == below


def test_an_empty_row_has_no_extremum() -> None:
    """Rows without elements are refused: there is no position to give."""
    with pytest.raises(ValueError, match="empty"):
        argmax(np.empty((3, 0), np.float32))


def test_threads_change_nothing() -> None:
    """Any number of threads gives the same sums, maxima and positions."""
    before = get_threads()
    x = draw_matrix(0, 3000, 1000, "rows", PATTERNS)
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        results.append([fold(x, "add", 0), fold(x, "max", 0), argmax(x)])
    set_threads(before)
    for other in results[1:]:
        assert all(map(np.array_equal, results[0], other))
