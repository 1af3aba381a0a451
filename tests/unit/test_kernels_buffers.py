"""The pool of memory for tensors: no two living arrays ever share memory."""

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.native import buffers
from moot.offchain.native.address_space import PAGE_BYTES, AddressSpace
from moot.offchain.native.buffers import get_address
from moot.offchain.native.scratch import get_scratch

LARGE = (1 << 10, 1 << 8)

SPACE = AddressSpace()


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
    array = buffers.empty(shape, dtype)
    assert array.shape == tuple(shape)
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert address(buffers.empty(LARGE, dtype)) % 64 == 0


def test_addresses_keep_their_arrays() -> None:
    """Memory whose address is kept is given to nobody else."""
    held = buffers.Addresses.of([buffers.empty(LARGE, np.float32), None])
    other = buffers.empty(LARGE, np.float32)
    first, _ = held.arrays
    assert first is not None
    assert held.words.tolist() == [address(first), 0]
    assert address(other) != held.words[0]


def test_memory_is_used_again() -> None:
    """What an array leaves goes to the next of its size."""
    array = buffers.empty(LARGE, np.float32)
    place = address(array)
    del array
    assert buffers.get_idle_bytes() >= 4 * np.prod(LARGE)
    again = buffers.empty(LARGE, np.float32)
    assert address(again) == place


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
    pool = buffers._Pool()  # of its own: threads keep scratch memory in the other
    held = []
    for power in range(18, 26):
        size = 1 << power
        block = pool.take(size)
        pool.take(PAGE_BYTES)  # so that no gap meets the next one
        pool.put(block)
        held.append(pool.count_idle_bytes() / size)
    assert 1 <= max(held) <= 1.2


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
    array = buffers.empty(LARGE, np.float32)
    array.fill(0)
    other = buffers.empty(LARGE, np.float32)
    del other
    buffers.release()
    assert buffers.get_idle_bytes() == 0
    assert not array.any()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 1 << 22)), max_size=60))
def test_any_sizes_in_any_order(draws: list[tuple[int, int]]) -> None:
    """Living blocks keep what they hold, little more is held than was used, gaps that meet join."""
    pool = buffers._Pool()
    pool._space = SPACE
    living: dict[int, buffers._Block] = {}
    most = 0
    for key, size in draws:
        if key in living:
            block = living.pop(key)
            assert ctypes.string_at(block.address, block.size) == bytes([key]) * block.size
            pool.put(block)
        else:
            block = living[key] = pool.take(size)
            assert block.size - PAGE_BYTES < size <= block.size
            ctypes.memset(block.address, key, block.size)
        used = sum(block.size for block in living.values())
        most = max(most, used)
        assert used + pool.count_idle_bytes() <= 1.2 * most
    for key, block in living.items():
        assert ctypes.string_at(block.address, block.size) == bytes([key]) * block.size
        pool.put(block)
    pool.clear()
    assert pool.count_idle_bytes() == 0
    assert len(pool._gaps) == min(len(draws), 1)


def test_an_array_that_goes_while_another_one_is_made() -> None:
    """What dies in the pool's own time waits for the next who comes."""
    array = buffers.empty(LARGE, np.float32)
    pool = buffers._pool
    with pool._lock:
        del array
    assert buffers.get_idle_bytes() >= 4 * np.prod(LARGE)


def test_a_system_that_reserves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a range of addresses arrays are the system's, and go back to it."""
    pool = buffers._Pool()
    pool._space = space = AddressSpace()
    monkeypatch.setattr(space, "size", 0)
    block = pool.take(1 << 20)
    assert block.start is None
    assert block.address % 64 == 0
    pool.put(block)
    assert pool.count_idle_bytes() == 0


_LIMITED = """
import resource
from moot.offchain.native import buffers

array = buffers.empty((1 << 20,), "uint8")
array.fill(0)
with open("/proc/self/status") as status:
    data = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (data + (1 << 27), resource.RLIM_INFINITY))
try:
    buffers.empty((1 << 30,), "uint8")
except MemoryError:
    buffers.empty((1 << 20,), "uint8")
    print("refused", int(array.any()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit no data")
def test_a_limit_on_data_counts_what_is_memory() -> None:
    """Reserved addresses use up no limit; what is too much is refused, and changes nothing."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused 0\n"


def test_machine_code_stays_near_its_data() -> None:
    """The range lies far from libraries, between whose parts it would leave no room to jump."""
    assert SPACE.size
    assert abs(SPACE.address - get_address(np.empty(1))) > 1 << 40


def test_what_is_left_of_a_gap_still_waits() -> None:
    """The rest of memory that was written to counts, until it is given back."""
    pool = buffers._Pool()
    pool._space = SPACE
    pool.put(pool.take(3 * PAGE_BYTES))
    block = pool.take(PAGE_BYTES)
    assert pool.count_idle_bytes() == 2 * PAGE_BYTES
    pool.put(block)
    pool.clear()
    assert pool.count_idle_bytes() == 0


def test_scratch_is_a_threads_own() -> None:
    """It begins where a line of the cache does, is found again, and grows."""
    small = get_scratch("a test's", 3)
    assert address(small) % 64 == 0
    assert get_scratch("a test's", 2) is small
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(get_scratch, "a test's", 3).result()
    assert not np.shares_memory(other, small)
    assert not np.shares_memory(get_scratch("another test's", 3), small)
    large = get_scratch("a test's", 1 << 20)
    assert large.size >= 1 << 20
    assert address(large) % 64 == 0
