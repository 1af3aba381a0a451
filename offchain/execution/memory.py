"""The check that a run fits into memory, before it starts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from offchain.errors import NotEnoughMemory
from offchain.native import buffers
from offchain.planning.order import Storage, count_bytes, find_storages
from offchain.planning.schedule import Task
from offchain.programs.graph import Origin, Program

_NEGLIGIBLE_BYTES = 1 << 20
"""Bytes below which the system is not asked."""

_SYSTEM = Path("/proc/meminfo")
_OWN_GROUP = Path("/sys/fs/cgroup")


def estimate_peak(
    program: Program, tasks: Sequence[Task], dead_slots: Sequence[Sequence[int]]
) -> int:
    """Return how many bytes a run takes besides its state and its batch, when it takes the most.

    The output of an operator that is an alias of a whole tensor takes no memory of its own. What an
    operator needs while it runs does not count.

    Args:
        program: the program.
        tasks: the tasks, in the order of the run.
        dead_slots: the slots of the state that die with each task.
    """
    storages = find_storages(program)
    holders: Counter[Storage] = Counter()
    live = peak = 0
    for task, slots in zip(tasks, dead_slots, strict=True):
        for storage in (storages[index] for index in task.kept):
            is_new = storage[0] is Origin.NODE and not holders[storage]
            live += count_bytes(program, storage) if is_new else 0
            holders[storage] += 1
        peak = max(peak, live)
        for storage in (storages[index] for index in task.dead):
            holders[storage] -= 1
            is_dead = storage[0] is Origin.NODE and not holders[storage]
            live -= count_bytes(program, storage) if is_dead else 0
        live -= sum(count_bytes(program, (Origin.STATE, slot)) for slot in slots)
    return peak


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
