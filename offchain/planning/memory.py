"""The estimate of the memory that a run takes, before it starts."""

from collections import Counter
from collections.abc import Sequence

from moot.offchain.planning.order import Storage, count_bytes, find_storages
from moot.offchain.planning.schedule import Task
from moot.offchain.programs.graph import Origin, Program


def estimate_peak(
    program: Program, tasks: Sequence[Task], dead_slots: Sequence[Sequence[int]]
) -> int:
    """Return how many bytes a run takes besides its state and its batch, when it takes the most.

    The output of an operator that is an alias of a whole tensor takes no memory of its own. What an
    operator needs while it runs does not count.

    Arguments are those of `list_live_bytes`.
    """
    return max(list_live_bytes(program, tasks, dead_slots), default=0)


def list_live_bytes(
    program: Program, tasks: Sequence[Task], dead_slots: Sequence[Sequence[int]]
) -> list[int]:
    """Return how many bytes a run takes at each task, besides its state and its batch.

    Args:
        program: the program.
        tasks: the tasks, in the order of the run.
        dead_slots: the slots of the state that die with each task.
    """
    storages = find_storages(program)
    holders: Counter[Storage] = Counter()
    live, found = 0, []
    for task, slots in zip(tasks, dead_slots, strict=True):
        for storage in (storages[index] for index in task.kept):
            is_new = storage[0] is Origin.NODE and not holders[storage]
            live += count_bytes(program, storage) if is_new else 0
            holders[storage] += 1
        found.append(live)
        for storage in (storages[index] for index in task.dead):
            holders[storage] -= 1
            is_dead = storage[0] is Origin.NODE and not holders[storage]
            live -= count_bytes(program, storage) if is_dead else 0
        live -= sum(count_bytes(program, (Origin.STATE, slot)) for slot in slots)
    return found
