"""Files that are written past the system's cache of files.

Nobody reads a state again but in a dispute. In the cache it would take memory, which a system may
take longer to give for the first time than a disk to write it, and which others could use.
"""

import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from moot.offchain.datastore.places import Part

_BLOCK_BYTES = 1 << 21
"""What is written at once; smaller files go through the cache."""

_ALIGNMENT = 4_096
"""What places, sizes and addresses of direct writes have to be multiples of."""

_SLOW_BYTES_A_SECOND = 1 << 27
"""Writing slower than this is worth the cache's memory, for whoever need not wait for the disk."""

_JUDGED_BYTES = 1 << 26
"""What was written before anything is said of how fast a disk is."""

_DIRECT = getattr(os, "O_DIRECT", 0)


class Pace:
    """How fast a disk has been; several threads may write to it at once."""

    def __init__(self) -> None:
        self._bytes, self._seconds = 0, 0.0

    def note(self, written: int, seconds: float) -> None:
        """Note that so many bytes took so long."""
        self._bytes, self._seconds = self._bytes + written, self._seconds + seconds

    @property
    def is_slow(self) -> bool:
        """Whether the disk is too slow to be waited for."""
        is_known = self._bytes >= _JUDGED_BYTES
        return is_known and self._bytes < self._seconds * _SLOW_BYTES_A_SECOND


def write_directly(descriptor: int, parts: Iterable[Part], pace: Pace) -> None:
    """Write all parts to a new file, past the cache if the system lets us."""
    memory = mmap.mmap(-1, _BLOCK_BYTES)  # which begins with a page, as direct writes have to
    block, used, is_direct = np.frombuffer(memory, np.uint8), 0, False
    for part in parts:
        rest = np.frombuffer(part, np.uint8)
        while rest.size:
            more = min(rest.size, _BLOCK_BYTES - used)
            block[used : used + more] = rest[:more]
            used, rest = used + more, rest[more:]
            if used == _BLOCK_BYTES:
                if not is_direct:
                    _set_direct(descriptor, is_direct=True)
                is_direct, used, began = True, 0, time.perf_counter()
                _write(descriptor, block.data)
                pace.note(_BLOCK_BYTES, time.perf_counter() - began)
    whole = used - used % _ALIGNMENT
    _write(descriptor, block[:whole].data)
    if is_direct:
        _set_direct(descriptor, is_direct=False)
    write_all(descriptor, block[whole:used].data)


def write_all(descriptor: int, data: Part, offset: int | None = None) -> None:
    """Write all bytes, at a place or where the file stands."""
    view = memoryview(data)
    while view.nbytes:
        if offset is None:
            count = os.write(descriptor, view)
        else:
            count = os.pwrite(descriptor, view, offset)
            offset += count
        view = view[count:]


def _write(descriptor: int, data: Part) -> None:
    """Write a block, through the cache if the disk asks for more than our alignment."""
    try:
        write_all(descriptor, data)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _set_direct(descriptor, is_direct=False)
        write_all(descriptor, data)


def _set_direct(descriptor: int, *, is_direct: bool) -> None:
    """Let an open file be written past the cache or through it; some systems have the latter."""
    with suppress(OSError):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_DIRECT
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _DIRECT if is_direct else flags)
