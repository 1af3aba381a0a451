"""The pool of memory for tensors, since fresh pages cost more than most operators that fill them.

A block goes back to the pool when the last array on it is gone, and never before: whoever holds an
array, or a view of one, holds its block. Blocks in use and blocks in the pool together never take
more than a fifth above the most that was in use at once.
"""

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_LEAST_BYTES = 1 << 16
"""Smaller arrays are left to the system's allocator, which uses their memory again itself."""

_ALIGNMENT = 64
_FIT = 1.5
"""The greatest ratio of a waiting block's size to the size that is asked for."""

_SLACK = 1.2
"""The greatest ratio of the bytes that are held to the most that were in use at once."""

_STEPS_PER_DOUBLING = 8
"""Sizes of blocks between a power of two and the next; a block is at most an eighth too large."""


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
    return np.asarray(_Lease(_pool.take(_round(size)), tuple(shape), kind))


def plan_empty(shape: Sequence[int], dtype: npt.DTypeLike) -> Callable[[], npt.NDArray[Any]]:
    """Return what returns such an array each time, sooner if it is small."""
    kind = np.dtype(dtype)
    is_small = prod(shape) * kind.itemsize < _LEAST_BYTES
    return partial(np.empty if is_small else empty, tuple(shape), kind)


def zeros(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a contiguous array of zeros, as `np.zeros` does."""
    array = empty(shape, dtype)
    array[...] = 0
    return array


def get_address(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return _Word.from_address(id(array) + DATA_OFFSET).value


def get_idle_bytes() -> int:
    """Return the bytes of the blocks that wait in the pool."""
    return _pool.idle_bytes


def release() -> None:
    """Give the blocks that wait in the pool back to the system."""
    _pool.clear()


def _round(size: int) -> int:
    step = max(_ALIGNMENT, 1 << max(0, (size - 1).bit_length() - _STEPS_PER_DOUBLING.bit_length()))
    return -(-size // step) * step


class _Block(NamedTuple):
    """Memory, and the aligned address in it from which `size` bytes may be used."""

    memory: npt.NDArray[np.uint8]
    address: int
    size: int


def _make_block(size: int) -> _Block:
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    return _Block(memory, -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT, size)


class _Pool:
    """Blocks that wait to be used again, by size; the sizes that have waited longest come first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[int, list[_Block]] = OrderedDict()
        self._lock = threading.RLock()
        self.idle_bytes = 0
        self._used_bytes = 0
        self._most_bytes = 0

    def take(self, size: int) -> _Block:
        """Return a block of at least this size: one that waits, or a new one in place of others."""
        with self._lock:
            fitting = [s for s, blocks in self._idle.items() if blocks and size <= s <= _FIT * size]
            found = min(fitting, default=None)
            self._used_bytes += found or size
            self._most_bytes = max(self._most_bytes, self._used_bytes)
            if found is not None:
                self.idle_bytes -= found
                return self._idle[found].pop()
            self._drop(self._used_bytes + self.idle_bytes - int(_SLACK * self._most_bytes))
        return _make_block(size)

    def put(self, block: _Block) -> None:
        """Take a block back into the pool."""
        with self._lock:
            self._idle.setdefault(block.size, []).append(block)
            self._idle.move_to_end(block.size)
            self.idle_bytes += block.size
            self._used_bytes -= block.size

    def clear(self) -> None:
        """Drop every block that waits, and forget what was in use."""
        with self._lock:
            self._idle.clear()
            self.idle_bytes = 0
            self._most_bytes = self._used_bytes

    def renew_lock(self) -> None:
        """Forget that a thread, which is not there after a fork, may hold the lock."""
        self._lock = threading.RLock()

    def _drop(self, size: int) -> None:
        """Give up blocks of at least this many bytes together, or else all."""
        while size > 0 and self._idle:
            other, waiting = next(iter(self._idle.items()))
            if waiting:
                waiting.pop()
                self.idle_bytes -= other
                size -= other
            else:
                del self._idle[other]


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

    def __del__(self, put: Callable[[_Block], None] = _pool.put) -> None:
        put(self._block)  # bound early: at the interpreter's end `_pool` is gone before some arrays
