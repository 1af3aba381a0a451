"""Addresses that this process has reserved, the first of which are memory.

What is reserved and not opened counts as memory nowhere: not for a limit on a process's data, nor
for a system that promises no more memory than it has.
"""

import ctypes
import mmap
import os
import secrets

PAGE_BYTES = mmap.PAGESIZE

_STEP_BYTES = 1 << 26
"""What is opened at once, at least."""

_FIRST, _PLACES, _DISTANCE = 1 << 44, 1 << 14, 1 << 32
"""Where the addresses may begin: far from all that a system places by itself. Between libraries
they would part machine code from its data by more than the two gigabytes that an instruction
reaches."""

_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_READ_AND_WRITE = mmap.PROT_READ | mmap.PROT_WRITE

_TRIALS = 8
"""Places that are tried, since others may have some."""

_FAILED = ctypes.c_size_t(-1).value

_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.argtypes = [*[ctypes.c_size_t] * 2, *[ctypes.c_int] * 3, ctypes.c_long]
_C.mmap.restype = ctypes.c_size_t
_C.munmap.argtypes = [ctypes.c_size_t] * 2
_C.mprotect.argtypes = _C.madvise.argtypes = [*[ctypes.c_size_t] * 2, ctypes.c_int]


def _reserve(size: int) -> int:
    """Return the first of so many addresses that nobody else has; 0 where the system has none."""
    for _ in range(_TRIALS):
        address = _FIRST + _DISTANCE * secrets.randbelow(_PLACES)
        given: int = _C.mmap(address, size, 0, _RESERVED, -1, 0)
        if given == address:
            return address
        if given != _FAILED:
            _C.munmap(given, size)
    return 0


class AddressSpace:
    """As many consecutive addresses as the machine has bytes of memory, or none.

    They stay reserved until the process ends.

    Attributes:
        size: how many addresses there are, 0 where the system gives none.
        address: the first of them.
    """

    def __init__(self) -> None:
        self._opened_bytes = 0
        wanted = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
        self.address, self.size = _reserve(wanted), wanted
        if not self.address:
            self.size = 0
        elif hasattr(mmap, "MADV_HUGEPAGE"):
            _C.madvise(self.address, self.size, mmap.MADV_HUGEPAGE)

    def open(self, size: int) -> None:
        """Make memory of the first `size` addresses, at most `self.size`.

        Raises:
            MemoryError: the system does not give so much; nothing has changed.
        """
        missing = size - self._opened_bytes
        if missing <= 0:
            return
        start = self.address + self._opened_bytes
        for step in (max(missing, _STEP_BYTES), missing):
            more = min(-(-step // PAGE_BYTES) * PAGE_BYTES, self.size - self._opened_bytes)
            if _C.mprotect(start, more, _READ_AND_WRITE) == 0:
                self._opened_bytes += more
                return
        raise MemoryError(f"the system gives no {missing:,} bytes more")

    def empty(self, first: int, size: int) -> None:
        """Give memory back to the system: its content is lost, and it may be written to as before.

        Args:
            first: which address is the first, a multiple of `PAGE_BYTES`.
            size: how many there are, another multiple.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            _C.madvise(self.address + first, size, mmap.MADV_DONTNEED)
