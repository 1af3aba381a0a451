"""The choice of outputs that are kept after a run, so that others need not be computed anew.

Whoever has shown all outputs of a step is asked for some of them afterwards. An output that costs
much to compute for each of its bytes, such as a product's, is worth keeping; one that a map makes
of others is soon made again.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from moot.offchain.planning.order import count_bytes, find_storages
from moot.offchain.planning.schedule import Task
from moot.offchain.programs.graph import Origin, Program


def choose_kept(
    program: Program, tasks: Sequence[Task], most_bytes: int, live_bytes: Sequence[int]
) -> frozenset[int]:
    """Return the operators whose outputs are kept, the ones that cost the most per byte first.

    With them the run takes at no time more memory than it takes at some time without.

    Args:
        program: the program.
        tasks: the tasks, in the order of the run.
        most_bytes: what all that is kept takes at most.
        live_bytes: what the run takes at each task, without them.
    """
    storages = find_storages(program)
    ends = {index: place for place, task in enumerate(tasks) for index in task.dead}
    live = np.array(live_bytes, np.int64)
    peak = int(live.max(initial=0))
    kept: set[int] = set()
    for index in _list_costly(program):
        size = count_bytes(program, storages[index])
        is_own = storages[index] == (Origin.NODE, index)
        if not is_own or index not in ends or size > most_bytes:
            continue
        after = live[ends[index] + 1 :]
        if int(after.max(initial=0)) + size <= peak:
            after += size
            most_bytes -= size
            kept.add(index)
    return frozenset(kept)


def _list_costly(program: Program) -> Iterator[int]:
    """Yield the operators that fold, those that fold the most for each byte first."""
    nodes = program.nodes
    folds = [index for index, node in enumerate(nodes) if node.kind.folds and node.elements]
    yield from sorted(
        folds, key=lambda i: nodes[i].fold_length / nodes[i].dtype.width, reverse=True
    )
