"""The team of threads: calls of machine code whose items it shares out."""

import ctypes
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.backends.cpu.calls import reserve_scratch, share_out
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import DONE, Call, NativeSequence
from moot.offchain.native.threads import get_threads, set_threads

_Entry = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


class Recorder:
    """A function of words that writes down what it is called with, and by which thread.

    Attributes:
        calls: thread, scratch memory, first and stop of every call.
    """

    def __init__(self, pause: float = 0) -> None:
        self.calls: list[tuple[int, int, int, int]] = []
        self._pause = pause
        self._callback = _Entry(self._record)

    @property
    def entry(self) -> int:
        """The function's address."""
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _record(self, marker: int, scratch: int, first: int, stop: int) -> int:
        assert marker == 7
        self.calls.append((threading.get_ident(), scratch, first, stop))
        time.sleep(self._pause)
        return 0

    def make(self, items: int, grain: int, size: int) -> NativeSequence:
        """Return the sequence of one call that is shared out."""
        memory = Memory()
        place, own = reserve_scratch(memory, size)
        one = Call(self.entry, (7, place, 0, items))
        shared = share_out(one, grain, scratch=(1, own))
        return NativeSequence([shared], memory.most_bytes, 0)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Put the number of threads back afterwards."""
    before = get_threads()
    yield
    set_threads(before)


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 300), st.integers(1, 60), st.integers(1, 200))
def test_a_call_is_shared_out_in_ranges(threads: int, items: int, grain: int, size: int) -> None:
    """Every item is computed once, from multiples of the grain on, in memory of each thread's."""
    set_threads(threads)
    recorder = Recorder()
    assert recorder.make(items, grain, size).perform([None]) == DONE
    ranges = sorted((first, stop) for _, _, first, stop in recorder.calls)
    assert [item for first, stop in ranges for item in range(first, stop)] == list(range(items))
    assert all(first % grain == 0 for first, _ in ranges)
    rooms = {(thread, scratch) for thread, scratch, _, _ in recorder.calls}
    assert len(rooms) == len({thread for thread, _ in rooms}) <= threads
    places = sorted(scratch for _, scratch in rooms)
    assert all(after - before >= size for before, after in pairwise(places))


def test_several_threads_take_ranges() -> None:
    """Helpers come to work that takes long, woken or not."""
    set_threads(3)
    recorder = Recorder(pause=0.01)
    sequence = recorder.make(64, 1, 8)
    for pause in (0, 0.2):
        time.sleep(pause)
        recorder.calls.clear()
        assert sequence.perform([None]) == DONE
        assert len({thread for thread, _, _, _ in recorder.calls}) == 3


def test_no_more_threads_come_than_there_is_memory_for() -> None:
    """A call that was laid out for two threads is shared by two, though kernels use four."""
    set_threads(2)
    recorder = Recorder(pause=0.005)
    sequence = recorder.make(64, 1, 8)
    set_threads(4)
    other = Recorder(pause=0.01)
    other.make(64, 1, 8).perform([None])
    assert len({thread for thread, _, _, _ in other.calls}) == 4
    assert sequence.perform([None]) == DONE
    assert len({thread for thread, _, _, _ in recorder.calls}) == 2


def test_fewer_threads_come_when_kernels_use_fewer() -> None:
    """A call that was laid out for three threads is one thread's if kernels use one."""
    set_threads(3)
    recorder = Recorder(pause=0.005)
    sequence = recorder.make(64, 1, 8)
    set_threads(1)
    assert sequence.perform([None]) == DONE
    assert {thread for thread, _, _, _ in recorder.calls} == {threading.get_ident()}


def test_sequences_share_out_at_once() -> None:
    """Sequences of several threads have one team: whoever finds it at work computes alone."""
    set_threads(3)
    recorders = [Recorder(pause=0.0002) for _ in range(4)]
    sequences = [recorder.make(40, 1, 8) for recorder in recorders]
    found: list[int] = []

    def perform(sequence: NativeSequence) -> None:
        found.extend(sequence.perform([None]) for _ in range(10))

    threads = [threading.Thread(target=perform, args=[sequence]) for sequence in sequences]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [DONE] * 40
    for recorder in recorders:
        items = sorted(i for _, _, first, stop in recorder.calls for i in range(first, stop))
        assert items == sorted(list(range(40)) * 10)
