"""Which operators run together, in which order, and when a tensor is dead."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from offchain.execution.maps import is_identity
from offchain.execution.plans import as_map
from offchain.programs.graph import Node, Origin, Program

_MAX_GROUP = 64
_WINDOW = 96
"""How far behind the first member of a group the others may be."""


class Task(NamedTuple):
    """Operators that run together: one, or maps of one shape.

    Attributes:
        members: their indices, ascending.
        kept: the members whose outputs are needed after the task.
        dead: the operators whose outputs are not needed any more after the task.
    """

    members: tuple[int, ...]
    kept: tuple[int, ...]
    dead: tuple[int, ...]


def find_ancestors(program: Program, wanted: Collection[int]) -> list[int]:
    """Return the operators on which the wanted ones depend, themselves included, ascending."""
    needed = set(wanted)
    for index in range(max(needed, default=-1), -1, -1):
        if index in needed:
            needed.update(program.nodes[index].inputs)
    return sorted(needed)


def schedule(
    program: Program, order: Sequence[Sequence[int]], wanted: Collection[int]
) -> list[Task]:
    """Return the tasks for groups of operators in this order; the wanted outputs never die."""
    last: dict[int, int] = {}
    for place, members in enumerate(order):
        for member in members:
            last[member] = place
            last.update(dict.fromkeys(program.nodes[member].inputs, place))
    dead: list[list[int]] = [[] for _ in order]
    for index, place in sorted(last.items()):
        if index not in wanted:
            dead[place].append(index)
    tasks = []
    for place, (members, ends) in enumerate(zip(order, dead, strict=True)):
        kept = [m for m in members if len(members) == 1 or m in wanted or last[m] > place]
        tasks.append(
            Task(
                tuple(members), tuple(kept), tuple(e for e in ends if e in kept or e not in members)
            )
        )
    return tasks


def group_maps(program: Program, needed: Sequence[int]) -> list[list[int]]:
    """Return an order of these operators in which connected maps of one shape are together.

    A group is computed where its first member was: its members read each other element by element,
    and otherwise only what is there by then.
    """
    candidates = {index: as_map(program.nodes[index]) for index in needed}
    maps = {index: node for index, node in candidates.items() if node is not None}
    done: set[int] = set()
    order = []
    for index in needed:
        if index not in done:
            members = _find_group(maps, index, done) if index in maps else [index]
            done.update(members)
            order.append(members)
    return order


def _find_group(maps: Mapping[int, Node], first: int, done: Collection[int]) -> list[int]:
    """Return the group that begins with the map `first`, given what is there."""
    shape = maps[first].shape
    inputs: dict[int, list[int]] = {first: []}
    for index in range(first + 1, first + _WINDOW):
        node = maps.get(index)
        if node is None or node.shape != shape or index in done:
            continue
        inside = [o for o in node.operands if o.origin is Origin.NODE and o.reference in inputs]
        is_ready = all(i in inputs or i in done for i in node.inputs)
        if is_ready and all(is_identity(operand, shape) for operand in inside):
            inputs[index] = [operand.reference for operand in inside]
    return _find_connected(inputs, first)[:_MAX_GROUP]


def _find_connected(inputs: Mapping[int, Sequence[int]], first: int) -> list[int]:
    """Return what is connected with `first` by reading one another, ascending."""
    neighbours: dict[int, set[int]] = {index: set(read) for index, read in inputs.items()}
    for index, read in inputs.items():
        for other in read:
            neighbours[other].add(index)
    found, waiting = {first}, [first]
    while waiting:
        new = neighbours[waiting.pop()] - found
        found |= new
        waiting += sorted(new)
    return sorted(found)
