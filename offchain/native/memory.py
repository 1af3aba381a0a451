"""The memory of runs: the check that they fit, and fresh pages that are touched beforehand."""

import ctypes
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from moot.offchain.errors import NotEnoughMemory
from moot.offchain.native import buffers

_NEGLIGIBLE_BYTES = 1 << 20
"""Bytes below which the system is not asked."""

_TOUCHED_BYTES = 1 << 24
"""Bytes that are touched at once: some hundredths of a second at most."""

_SYSTEM = Path("/proc/meminfo")
_OWN_GROUP = Path("/sys/fs/cgroup")


def check_memory(needed_bytes: int) -> None:
    """Refuse a run that needs more memory than there is.

    Args:
        needed_bytes: what it needs besides what this process holds already.

    Raises:
        NotEnoughMemory: there is less; nothing was computed.
    """
    missing = needed_bytes - buffers.get_idle_bytes()
    available = get_available_bytes() if missing > _NEGLIGIBLE_BYTES else None
    if available is not None and missing > available:
        raise NotEnoughMemory(needed_bytes, available + buffers.get_idle_bytes())


@contextmanager
def touching(size: int) -> Iterator[None]:
    """Touch memory for so many bytes of arrays meanwhile, which a run is going to need.

    A system may take seconds to give a gigabyte for the first time, and only when it is written to.
    Another thread does that, while Python is busy on one core. Nothing is touched where less than
    twice as much memory is left, and what is not touched in the end is left alone.
    """
    available = get_available_bytes()
    if size <= buffers.get_idle_bytes() or (available is not None and available < 2 * size):
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(target=_touch, args=(size, is_over), name="memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _touch(size: int, is_over: threading.Event) -> None:
    """Write to memory of the pool, step by step, until all was written to or it is over."""
    array = buffers.empty((size,), np.uint8)
    address = buffers.get_address(array)
    for start in range(0, size, _TOUCHED_BYTES):
        if is_over.is_set():
            break
        ctypes.memset(address + start, 0, min(_TOUCHED_BYTES, size - start))


def get_available_bytes() -> int | None:
    """Return how much memory this process may still take, None where the system does not say."""
    found = [size for size in (_read_system(), _read_group()) if size is not None]
    return min(found, default=None)


def get_peak_bytes(process: int | None = None) -> int:
    """Return the most memory that a process has had, this one by default.

    It is 0 of another process that has ended. Where the system keeps no record, it is what
    `getrusage` says of this process, which counts the one that it was forked from, too.
    """
    size = _read_field(Path(f"/proc/{process or os.getpid()}/status"), "VmHWM")
    if size is None and process is None:
        unit = 1 if sys.platform == "darwin" else 1024
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return size or 0


def _read_system() -> int | None:
    return _read_field(_SYSTEM, "MemAvailable")


def _read_field(path: Path, name: str) -> int | None:
    """Return the bytes of a field in one of the system's tables, None where there is none."""
    try:
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
        return int(fields[name].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _read_group() -> int | None:
    """Return the bytes that the process's control group leaves, None where it has no limit."""
    try:
        limit, used = ((_OWN_GROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
