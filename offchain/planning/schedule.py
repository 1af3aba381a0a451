"""The schedule of a run: its tasks in their order, and the tensors that die after each."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from moot.offchain.planning.grouping import Unit, list_indices
from moot.offchain.planning.sorts import Sort
from moot.offchain.programs.graph import Origin, Program


class Task(NamedTuple):
    """A task: one operator, or a group of operators that run together.

    Attributes:
        unit: the group, or the index of the one operator.
        members: their indices, ascending.
        kept: the members whose outputs are needed after the task.
        dead: the operators whose outputs are not needed any more after the task.
    """

    unit: Unit
    members: tuple[int, ...]
    kept: tuple[int, ...]
    dead: tuple[int, ...]


def find_ancestors(
    program: Program, wanted: Collection[int], known: Collection[int] = ()
) -> list[int]:
    """Return the operators on which the wanted ones depend, themselves included, ascending.

    Those whose outputs are known are left out, and what only they depend on.
    """
    needed = {index for index in wanted if index not in known}
    for index in range(max(needed, default=-1), -1, -1):
        if index in needed:
            needed.update(i for i in program.nodes[index].inputs if i not in known)
    return sorted(needed)


def list_reads(program: Program, unit: Unit) -> set[int]:
    """Return the operators whose outputs are needed to compute a unit, its own among them.

    A sort reads no pairs, even those that another sort has, too.
    """
    if isinstance(unit, Sort):
        return {o.reference for o in unit.operands if o.origin is Origin.NODE}
    return {i for member in list_indices(unit) for i in program.nodes[member].inputs}


def schedule(
    program: Program, order: Sequence[Unit], wanted: Collection[int], *, shows_all: bool = False
) -> list[Task]:
    """Return the tasks for groups and operators in this order; the wanted outputs never die.

    Args:
        program: the program.
        order: groups and operators.
        wanted: the operators whose outputs are needed in the end.
        shows_all: whether every output is there after its task, if only to die at once.
    """
    tasks = [list_indices(unit) for unit in order]
    last: dict[int, int] = {}
    for place, members in enumerate(tasks):
        last.update(dict.fromkeys([*members, *list_reads(program, order[place])], place))
    dead: list[list[int]] = [[] for _ in order]
    for index, place in sorted(last.items()):
        if index not in wanted:
            dead[place].append(index)
    return [
        _make_task(
            unit,
            members,
            [m for m in members if shows_all or m in wanted or last[m] > place],
            ends,
        )
        for place, (unit, members, ends) in enumerate(zip(order, tasks, dead, strict=True))
    ]


def _make_task(
    unit: Unit, members: tuple[int, ...], needed: Sequence[int], ends: Sequence[int]
) -> Task:
    kept = members if isinstance(unit, int) else tuple(needed)
    return Task(unit, members, kept, tuple(e for e in ends if e in kept or e not in members))
