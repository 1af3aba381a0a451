"""Uniform numbers: the vector kernel against the definition of one number."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.backends.cpu.kernels.philox import _fill, uniform
from moot.offchain.native.threads import get_threads, set_threads

WORDS = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), WORDS, WORDS, st.integers(0, 600))
@example(2**64 - 1, 2**32 - 1, 2**32 - 1, 257)
def test_numbers_follow_the_definition(seed: int, step: int, stream: int, count: int) -> None:
    """Number i of a tensor is the defined uniform number of element i."""
    numbers = uniform(seed, step, stream, count)
    expected = [uniform_bits(seed, step, stream, i) for i in range(count)]
    assert numbers.view(np.uint32).tolist() == expected


def test_counters_are_longer_than_a_word() -> None:
    """The numbers of elements from 2^34 on differ from those of the first, as defined."""
    numbers = np.empty((1, 64, 4), np.float32)
    _fill(np.uint64(5), np.uint32(6), np.uint32(7), 3 * 2**34 // 256, numbers)
    expected = [uniform_bits(5, 6, 7, 3 * 2**34 + i) for i in range(256)]
    assert numbers.view(np.uint32).reshape(-1).tolist() == expected


def test_threads_change_nothing() -> None:
    """Any number of threads gives the same numbers, up to the last."""
    before = get_threads()
    count = 1_000_003
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        results.append(uniform(1, 2, 3, count))
    set_threads(before)
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert results[0][-1:].view(np.uint32).item() == uniform_bits(1, 2, 3, count - 1)


@pytest.mark.parametrize(
    ("seed", "step", "stream"), [(-1, 0, 0), (2**64, 0, 0), (0, 2**32, 0), (0, 0, -1)]
)
def test_positions_that_do_not_fit_are_refused(seed: int, step: int, stream: int) -> None:
    """A seed, step or stream is never cut to its word."""
    with pytest.raises(OverflowError):
        uniform(seed, step, stream, 1)
