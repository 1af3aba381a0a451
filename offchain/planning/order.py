"""The order of a step's tasks, in which tensors die early, and the slots of the state that die.

Memory is taken by storages: operators' own outputs, and slots of the state. The output of an
operator that is an alias of a whole tensor lies in that tensor's storage.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from moot.offchain.planning.readings import is_alias
from moot.offchain.programs.graph import Operand, Origin, Program

Storage = tuple[Origin, int]

Unit = Sequence[int]
"""Operators that run together."""

_MORTAL = frozenset({Origin.NODE, Origin.STATE})


def find_storages(program: Program) -> list[Storage]:
    """Return for each operator the storage that its output lies in."""
    storages: list[Storage] = []
    for index, node in enumerate(program.nodes):
        is_shared = is_alias(node)
        own = (Origin.NODE, index)
        storages.append(_get_storage(node.operands[0], storages) if is_shared else own)
    return storages


def _get_storage(operand: Operand, storages: Sequence[Storage]) -> Storage:
    is_output = operand.origin is Origin.NODE
    return storages[operand.reference] if is_output else (operand.origin, operand.reference)


def count_bytes(program: Program, storage: Storage) -> int:
    """Return the size of a storage; that of a batch's slot counts as nothing."""
    origin, index = storage
    if origin is Origin.BATCH:
        return 0
    tensor = program.nodes[index] if origin is Origin.NODE else program.state[index]
    return tensor.elements * tensor.dtype.width


class _Account:
    """The account of the reads that are still to come, as a run proceeds.

    Args:
        program: the program.
        units: all operators of the run.
        wanted: the operators whose outputs never die.
    """

    def __init__(self, program: Program, units: Sequence[Unit], wanted: Collection[int]) -> None:
        self._program = program
        storages = find_storages(program)
        self._kept = {storages[index] for index in wanted}
        self.reads = [_find_reads(program, unit, storages) for unit in units]
        self._readers = Counter(storage for reads in self.reads for storage in reads)
        read = {*self._readers, *self._kept}
        self.fills = [{(Origin.NODE, index) for index in unit} & read for unit in units]

    def find_dead(self, place: int) -> Iterator[Storage]:
        """Yield the storages that die with a unit, as things stand."""
        for storage in self.reads[place]:
            is_mortal = storage[0] in _MORTAL and storage not in self._kept
            if is_mortal and self._readers[storage] == 1:
                yield storage

    def frees_memory(self, place: int) -> bool:
        """Whether no more memory is in use after a unit than before it, as things stand."""
        filled = sum(count_bytes(self._program, storage) for storage in self.fills[place])
        return filled <= sum(count_bytes(self._program, s) for s in self.find_dead(place))

    def pass_by(self, place: int) -> None:
        """Count a unit's reads as done."""
        self._readers.subtract(self.reads[place])


def _find_reads(program: Program, unit: Unit, storages: Sequence[Storage]) -> set[Storage]:
    operands = [operand for index in unit for operand in program.nodes[index].operands]
    reads = {_get_storage(o, storages) for o in operands if o.origin is not Origin.IMMEDIATE}
    return reads - {(Origin.NODE, index) for index in unit}


def reorder(program: Program, units: Sequence[Unit], wanted: Collection[int]) -> list[int]:
    """Return an order of the units that needs less memory: what frees memory runs at once.

    A parameter's update, for instance, runs when its gradient is there and the parameter is read no
    more: the gradient and the old moments die with it, and what it leaves is no larger.

    Args:
        program: the program.
        units: all operators of the run, each unit after those that it reads.
        wanted: the operators whose outputs are needed in the end.

    Returns:
        The units' places, in the new order.
    """
    account = _Account(program, units, wanted)
    missing, followers = _find_dependencies(program, units)
    readers: dict[Storage, list[int]] = defaultdict(list)
    for place, reads in enumerate(account.reads):
        for storage in reads:
            readers[storage].append(place)
    order: dict[int, None] = {}
    for first in range(len(units)):
        waiting = [first]
        while waiting:
            place = waiting.pop()
            if place in order or missing[place]:
                continue
            if place != first and not account.frees_memory(place):
                continue
            account.pass_by(place)
            order[place] = None
            for follower in followers[place]:
                missing[follower].discard(place)
            touched = {other for storage in account.reads[place] for other in readers[storage]}
            waiting += sorted(touched.union(followers[place]).difference(order), reverse=True)
    return list(order)


def _find_dependencies(
    program: Program, units: Sequence[Unit]
) -> tuple[list[set[int]], list[list[int]]]:
    """Return the units that each unit reads, and those that read it."""
    place_of = {index: place for place, unit in enumerate(units) for index in unit}
    missing: list[set[int]] = []
    followers: list[list[int]] = [[] for _ in units]
    for place, unit in enumerate(units):
        inputs = {place_of[i] for index in unit for i in program.nodes[index].inputs} - {place}
        missing.append(inputs)
        for other in inputs:
            followers[other].append(place)
    return missing, followers


def find_last_reads(
    program: Program, units: Sequence[Unit], wanted: Collection[int]
) -> list[tuple[int, ...]]:
    """Return for each unit the slots of the state that nobody reads after it."""
    account = _Account(program, units, wanted)
    found = []
    for place in range(len(units)):
        dead = sorted(index for origin, index in account.find_dead(place) if origin is Origin.STATE)
        found.append(tuple(dead))
        account.pass_by(place)
    return found
