"""Scatters: the kernels against one defined operation after the other."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic import float32
from moot.offchain.backends.cpu.kernels.scatter import scatter_add_rows, scatter_assign_flat
from moot.offchain.native.threads import get_threads, set_threads

PATTERNS = np.array(
    [0, 0x80000000, 1, 0x3F800000, 0xBF800001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0xFFC12345],
    np.uint32,
)


def draw_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """Patterns of ordinary and special numbers."""
    numbers = rng.standard_normal(shape).astype(np.float32).view(np.uint32)
    return np.where(rng.random(shape) < 0.2, rng.choice(PATTERNS, shape), numbers)


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 40), st.integers(0, 6), st.integers(0, 2**32 - 1))
@example(30, 1, 1, 0)
def test_rows_are_added_in_ascending_order(count: int, columns: int, rows: int, seed: int) -> None:
    """Each row is added in place, in order, to the one that it names, if that is there.

    What nobody names keeps its bits.
    """
    rng = np.random.default_rng(seed)
    target, source = rng.integers(-2, rows + 2, count), draw_bits(rng, (count, columns))
    memory = draw_bits(rng, (rows + 4, columns))
    out, around = memory[2 : rows + 2], memory.copy()
    expected = out.tolist()
    for n, row in enumerate(target.tolist()):
        if 0 <= row < rows:
            pairs = zip(map(float32.canonical, expected[row]), source[n].tolist(), strict=True)
            expected[row] = [float32.add(x, float32.canonical(y)) for x, y in pairs]
    scatter_add_rows(target, source.view(np.float32), out.view(np.float32))
    assert out.tolist() == expected
    assert np.array_equal(np.delete(memory, slice(2, -2), 0), np.delete(around, slice(2, -2), 0))


def test_order_is_ascending() -> None:
    """2^24 + 1 - 2^24 is 0 in ascending order and 1 in another."""
    source = np.array([2.0**24, 1, -(2.0**24)], np.float32)
    same = np.zeros(3, np.int64)
    for order, wanted in (([0, 1, 2], 0), ([0, 2, 1], 1)):
        total = np.zeros((1, 1), np.float32)
        scatter_add_rows(same, source[order].reshape(3, 1), total)
        assert total.item() == wanted


@settings(deadline=None)
@given(
    st.sampled_from(["<f4", "<i8", "<i4", "?"]),
    st.integers(0, 40),
    st.integers(0, 8),
    st.integers(0, 2**32 - 1),
)
def test_the_last_assignment_stays(dtype: str, count: int, size: int, seed: int) -> None:
    """Assignments happen in ascending order, copy bits as they are, and leave the rest alone."""
    rng = np.random.default_rng(seed)
    width = np.dtype(dtype).itemsize
    target = rng.integers(-2, size + 2, count)
    top = 2 if dtype == "?" else 256
    source, memory = (rng.integers(0, top, (n, width), np.uint8) for n in (count, size + 4))
    expected = memory.tolist()
    for i, x in zip(target.tolist(), source.tolist(), strict=True):
        if 0 <= i < size:
            expected[2 + i] = x
    out = memory.reshape(-1).view(dtype)[2 : size + 2]
    scatter_assign_flat(target, source.reshape(-1).view(dtype), out)
    assert memory.tolist() == expected


def test_assignment_does_not_convert() -> None:
    """Assigning to another type is refused, for it would reinterpret bits."""
    with pytest.raises(TypeError, match="convert it first"):
        scatter_assign_flat(np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("scatter", "shape"), [(scatter_add_rows, (4, 1)), (scatter_assign_flat, (4,))]
)
def test_a_strided_result_is_refused(scatter: Any, shape: tuple[int, ...]) -> None:
    """Results are written in place, so an array that would have to be copied is an error."""
    source = np.zeros((1, *shape[1:]), np.float32)
    with pytest.raises((TypeError, ValueError)):
        scatter(np.zeros(1, np.int64), source, np.zeros(shape, np.float32)[::2])


def test_threads_change_nothing() -> None:
    """Any number of threads gives the same sums."""
    before = get_threads()
    rng = np.random.default_rng(0)
    target = rng.integers(0, 50, 3000)
    source = rng.standard_normal((3000, 200)).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        results.append(np.zeros((50, 200), np.float32))
        scatter_add_rows(target, source, results[-1])
    set_threads(before)
    assert all(np.array_equal(results[0], other) for other in results[1:])
