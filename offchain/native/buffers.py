"""The pool of memory for tensors, since fresh pages cost more than most operators that fill them.

A block goes back to the pool when the last array on it is gone, and never before: whoever holds an
array, or a view of one, holds its block. A block is the first gap between others that is wide
enough, and gaps that meet are one, so that sizes which come and go leave little behind. Blocks in
use and the memory of gaps together never take more than a fifth above the most that was in use at
once.
"""

import ctypes
import os
import sys
import threading
from bisect import bisect, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.native.address_space import PAGE_BYTES, AddressSpace

_LEAST_BYTES = 1 << 16
"""Smaller arrays are left to the system's allocator, which uses their memory again itself."""

_ALIGNMENT = 64

_SLACK = 1.2
"""The greatest ratio of the bytes that are held to the most that were in use at once."""

_Word = ctypes.c_size_t


def _find_data_offset() -> int:
    """Return where an array's object has the address of its elements.

    Numpy's interface for C fixes the place: it is the first field. To ask the array itself for the
    address takes longer than many a kernel.
    """
    probe = np.empty(1)
    address, offset = probe.ctypes.data, object.__basicsize__
    assert _Word.from_address(id(probe) + offset).value == address
    return offset


DATA_OFFSET = _find_data_offset()
"""Bytes from the start of an array's object to the field that has the address of its elements."""


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a contiguous array of arbitrary content, as `np.empty` does."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    if size < _LEAST_BYTES:
        return np.empty(shape, kind)
    return np.asarray(_Lease(_pool.take(size), tuple(shape), kind))


def plan_empty(shape: Sequence[int], dtype: npt.DTypeLike) -> Callable[[], npt.NDArray[Any]]:
    """Return what returns such an array each time, sooner if it is small."""
    kind = np.dtype(dtype)
    is_small = prod(shape) * kind.itemsize < _LEAST_BYTES
    return partial(np.empty if is_small else empty, tuple(shape), kind)


def get_address(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first element, which lasts as long as the array.

    Whoever keeps addresses for later keeps `Addresses`.
    """
    return _Word.from_address(id(array) + DATA_OFFSET).value


@dataclass(frozen=True, slots=True)
class Addresses:
    """Arrays and the addresses of their first elements, which last as long as this.

    Attributes:
        arrays: the arrays; None for one that is not there.
        words: their addresses, 0 for None.
    """

    arrays: tuple[npt.NDArray[Any] | None, ...]
    words: npt.NDArray[np.int64]

    @classmethod
    def of(cls, arrays: Iterable[npt.NDArray[Any] | None]) -> "Addresses":
        """Return the addresses of some arrays."""
        held = tuple(arrays)
        words = [0 if array is None else get_address(array) for array in held]
        return cls(held, np.array(words, np.int64))


def get_idle_bytes() -> int:
    """Return the bytes of memory that wait in the pool."""
    return _pool.count_idle_bytes()


def release() -> None:
    """Give the memory that waits in the pool back to the system."""
    _pool.clear()


class _Block(NamedTuple):
    """Memory: who owns it, its first address, its bytes, and where it begins in the pool's space.

    One that lies outside of the space has no beginning in it.
    """

    owner: object
    address: int
    size: int
    start: int | None


def _make_block(size: int) -> _Block:
    """Return a block outside of the space."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    return _Block(memory, -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT, size, None)


class _Gap(NamedTuple):
    """Bytes between blocks, and how many of them may have been written to since they were empty."""

    size: int
    written: int


class _Pool:
    """Blocks of one space, and the gaps between them, by where they start.

    An array may go at any time, even while its thread is in the pool: its block is put down then,
    and entered by whoever comes next.
    """

    def __init__(self) -> None:
        self._space: AddressSpace | None = None
        self._starts: list[int] = []
        self._gaps: dict[int, _Gap] = {}
        self._left: deque[_Block] = deque()
        self._lock = threading.Lock()
        self._stop = self._used_bytes = self._idle_bytes = self._most_bytes = 0

    def take(self, size: int) -> _Block:
        """Return a block of at least this size.

        Raises:
            MemoryError: the system has not so much.
        """
        whole = -(-size // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            self._enter()
            space = self._space = self._space or AddressSpace()
            start = self._find(whole, space)
            if start is None:
                return _make_block(size)
            self._used_bytes += whole
            self._most_bytes = max(self._most_bytes, self._used_bytes)
            held = self._used_bytes + self._idle_bytes
            self._shrink(space, held - int(_SLACK * self._most_bytes))
            return _Block(space, space.address + start, whole, start)

    def put(self, block: _Block) -> None:
        """Take a block back into the pool."""
        self._left.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._enter()
            finally:
                self._lock.release()

    def count_idle_bytes(self) -> int:
        """Return the bytes of the gaps that may have been written to."""
        with self._lock:
            self._enter()
            return self._idle_bytes

    def clear(self) -> None:
        """Empty every gap, and forget what was in use."""
        with self._lock:
            self._enter()
            if self._space is not None:
                self._shrink(self._space, self._idle_bytes)
            self._most_bytes = self._used_bytes

    def renew_lock(self) -> None:
        """Forget that a thread, which is not there after a fork, may hold the lock."""
        self._lock = threading.Lock()

    def _find(self, size: int, space: AddressSpace) -> int | None:
        """Return where a block starts from now on; None if the space has no room for it."""
        for start in self._starts:
            if self._gaps[start].size >= size:
                gap = self._remove(start)
                rest = gap.size - size
                if rest:
                    self._insert(start + size, _Gap(rest, min(rest, gap.written)))
                return start
        last = self._find_gap_before(self._stop)
        first = self._stop if last is None else last
        if first + size > space.size:
            return None
        space.open(first + size)
        if last is not None:
            self._remove(last)
        self._stop = first + size
        return first

    def _find_gap_before(self, place: int) -> int | None:
        """Return where the gap starts that ends at a place, if one does."""
        at = bisect(self._starts, place) - 1
        if at < 0:
            return None
        start = self._starts[at]
        return start if start + self._gaps[start].size == place else None

    def _enter(self) -> None:
        """Make gaps of the blocks that were put down, each one with those that it meets."""
        while self._left:
            block = self._left.popleft()
            if block.start is None:
                continue
            self._used_bytes -= block.size
            first, size, written = block.start, block.size, block.size
            for start in (self._find_gap_before(first), first + size):
                if start in self._gaps:
                    gap = self._remove(start)
                    first = min(first, start)
                    size, written = size + gap.size, written + gap.written
            self._insert(first, _Gap(size, written))

    def _shrink(self, space: AddressSpace, size: int) -> None:
        """Empty gaps of at least this many bytes together, or else all, the last ones first."""
        for start in reversed(self._starts):
            if size <= 0:
                break
            gap = self._gaps[start]
            if gap.written:
                space.empty(start, gap.size)
                self._gaps[start] = _Gap(gap.size, 0)
                self._idle_bytes -= gap.written
                size -= gap.written

    def _insert(self, start: int, gap: _Gap) -> None:
        insort(self._starts, start)
        self._gaps[start] = gap
        self._idle_bytes += gap.written

    def _remove(self, start: int) -> _Gap:
        del self._starts[bisect(self._starts, start) - 1]
        gap = self._gaps.pop(start)
        self._idle_bytes -= gap.written
        return gap


_pool = _Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew_lock)


class _Lease:
    """The memory of one array; numpy keeps it for as long as any view of the array lives."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: _Block, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self._block = block
        self.__array_interface__ = {
            "data": (block.address, False),
            "shape": shape,
            "typestr": kind.str,
            "version": 3,
        }

    def __del__(
        self,
        put: Callable[[_Block], None] = _pool.put,
        is_ending: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        # Both are bound early: at the interpreter's end names are gone before some arrays, and
        # nobody takes a block any more.
        if not is_ending():
            put(self._block)
