"""The pool of memory for tensors: no two living arrays ever share memory."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offchain.native import buffers

LARGE = (1 << 10, 1 << 8)


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    gc.collect()
    buffers.release()
    yield
    buffers.release()


def address(array: np.ndarray) -> int:
    """Return where an array begins."""
    return int(array.ctypes.data)


@given(
    st.lists(st.integers(0, 40), max_size=4),
    st.sampled_from([np.float32, np.int64, np.int32, np.bool_]),
)
def test_arrays_are_as_numpys(shape: list[int], dtype: type[np.generic]) -> None:
    """An array has its shape and type, is contiguous and aligned, and may be written to."""
    for array in (buffers.empty(shape, dtype), buffers.zeros(shape, dtype)):
        assert array.shape == tuple(shape)
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert not buffers.zeros(shape, dtype).any()
    assert address(buffers.empty(LARGE, dtype)) % 64 == 0


def test_memory_is_used_again() -> None:
    """What an array leaves goes to the next of its size, and zeros are zeros there too."""
    array = buffers.empty(LARGE, np.float32)
    array.fill(7)
    place = address(array)
    del array
    assert buffers.get_idle_bytes() >= 4 * np.prod(LARGE)
    again = buffers.zeros(LARGE, np.float32)
    assert address(again) == place
    assert not again.any()
    assert buffers.get_idle_bytes() == 0


def test_a_view_holds_its_memory() -> None:
    """As long as any view of an array lives, however it was made, its memory is not given on."""
    array = buffers.empty(LARGE, np.float32)
    view = array.reshape(-1)[5:].view(np.int32)[::3].T
    view[...] = 3
    del array
    others = [buffers.empty(LARGE, np.float32) for _ in range(4)]
    for other in others:
        other.fill(1)
    assert (view == 3).all()
    assert buffers.get_idle_bytes() == 0
    del view
    assert buffers.get_idle_bytes() > 0


def test_small_arrays_are_left_to_the_system() -> None:
    """An array of a few elements leaves nothing behind."""
    array = buffers.empty((10,), np.float32)
    del array
    assert buffers.get_idle_bytes() == 0


def test_no_more_is_held_than_was_in_use() -> None:
    """Blocks that fit nothing any more are given up: what is held stays near the most in use."""
    held = []
    most = 0
    for power in range(18, 26):
        array = buffers.empty((1 << power,), np.uint8)
        most = max(most, array.nbytes)
        del array
        held.append(buffers.get_idle_bytes() / most)
    assert max(held) <= 1.2


def test_threads_never_share_memory() -> None:
    """Arrays that are alive at once lie apart, whichever threads took them and gave them back."""

    def work(number: int) -> bool:
        for _ in range(200):
            array = buffers.empty((1 << 15,), np.int32)
            array.fill(number)
            if (array != number).any():
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_memory_can_be_given_back() -> None:
    """After a release nothing waits, and what is in use stays as it is."""
    array = buffers.zeros(LARGE, np.float32)
    other = buffers.zeros(LARGE, np.float32)
    del other
    buffers.release()
    assert buffers.get_idle_bytes() == 0
    assert not array.any()
