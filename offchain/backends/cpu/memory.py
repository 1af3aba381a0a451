"""The check that a run fits into memory, before it starts."""

from pathlib import Path

from offchain.errors import NotEnoughMemory
from offchain.native import buffers

_NEGLIGIBLE_BYTES = 1 << 20
"""Bytes below which the system is not asked."""

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


def get_available_bytes() -> int | None:
    """Return how much memory this process may still take, None where the system does not say."""
    found = [size for size in (_read_system(), _read_group()) if size is not None]
    return min(found, default=None)


def _read_system() -> int | None:
    try:
        fields = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _read_group() -> int | None:
    """Return the bytes that the process's control group leaves, None where it has no limit."""
    try:
        limit, used = ((_OWN_GROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
