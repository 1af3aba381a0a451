"""Sequences on a device: launches that are known before they run, and graphs of them.

What no one sees but the tasks themselves lies in memory of the sequence's own, where it makes room
for others after it was read for the last time. Launches name addresses, so that a graph serves runs
whose tensors are where those of the run were that it was made for. It is made when addresses come
for a second time; until then, launches are made one by one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from offchain.backends.cuda.machine import Launch, Machine, Tensor
from offchain.backends.cuda.plans import Alias, View
from offchain.backends.cuda.single import LaunchedPlan
from offchain.backends.port import Step
from offchain.commitments.tensors import NUMPY_TYPES
from offchain.native.rooms import Memory
from offchain.programs.graph import Node

_MOST_GRAPHS = 4
"""Graphs of a sequence that are kept, each for other addresses."""

_REMEMBERED = 16
"""Addresses of runs that are remembered, in case that they come again."""

_GRAIN_BYTES = 512

_Addresses = tuple[int, ...]


class LaunchedSequence:
    """The plan of a sequence.

    Args:
        machine: what computes it.
        steps: the tasks, all of which are launches.
        reads: the places of the tensors that are given.
        kept: the places of the tensors that are wanted.
    """

    def __init__(
        self, machine: Machine, steps: Sequence[Step], reads: Sequence[int], kept: Sequence[int]
    ) -> None:
        self._machine, self._reads, self._kept = machine, reads, kept
        self._steps = [step for step in steps if not isinstance(step.plan, Alias)]
        self._roots: dict[int, int] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}
        for step in steps:
            if isinstance(step.plan, Alias):
                ((place,), (read, *_)) = step.writes, step.reads
                self._roots[place] = self._find_root(read)
                self._shapes[place] = step.outputs[0].shape
        self._nodes = {p: n for s in self._steps for p, n in zip(s.writes, s.outputs, strict=True)}
        wanted = dict.fromkeys(map(self._find_root, kept))
        self._made = [place for place in wanted if place in self._nodes]
        self._own: Tensor | None = None
        self._graphs: dict[_Addresses, Any] = {}
        self._seen: dict[_Addresses, None] = {}

    @property
    def needed_bytes(self) -> int:
        """The memory of its own, and that of what is kept."""
        return self._measure() + sum(_count_bytes(self._nodes[place]) for place in self._made)

    def run(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors that are kept."""
        tensors = dict(zip(self._reads, flats, strict=True))
        for place in self._made:
            node = self._nodes[place]
            tensors[place] = Tensor(self._machine, node.shape, NUMPY_TYPES[node.dtype])
        self._compute({place: tensor.address for place, tensor in tensors.items()})
        found = [tensors[self._find_root(place)] for place in self._kept]
        return [
            View(tensor, self._shapes[place]) if place in self._shapes else tensor
            for place, tensor in zip(self._kept, found, strict=True)
        ]

    def _compute(self, places: Mapping[int, int]) -> None:
        """Compute what is kept, given the addresses of all that is not the sequence's own."""
        machine, addresses = self._machine, tuple(places.values())
        if addresses not in self._graphs:
            if self._own is None:
                self._own = Tensor(machine, (self._measure(),), np.uint8)
            launches = self._list_launches(places, self._own.address)[0]
            if addresses not in self._seen:
                _remember(self._seen, addresses, None, _REMEMBERED)
                for launch in launches:
                    machine.launch(*launch)
                return
            _remember(self._graphs, addresses, machine.record(launches), _MOST_GRAPHS)
        machine.replay(self._graphs[addresses])

    def _find_root(self, place: int) -> int:
        return self._roots.get(place, place)

    def _measure(self) -> int:
        """Return the bytes of the sequence's own memory."""
        return self._list_launches(dict.fromkeys([*self._reads, *self._made], 0), 0)[1]

    def _list_launches(self, given: Mapping[int, int], own: int) -> tuple[list[Launch], int]:
        """Return all launches, and how far they reach in the sequence's own memory.

        Args:
            given: the addresses of the tensors that are given or kept, by their places.
            own: the address of the sequence's own memory.
        """
        memory, launches = Memory(), []
        at, taken = {0: 0, **given}, {}
        touched = [{self._find_root(p) for p in (*s.writes, *s.reads)} for s in self._steps]
        last = {place: number for number, places in enumerate(touched) for place in places}

        def reserve(size: int) -> int:
            return own + memory.reserve(_round(size)).offset

        for number, step in enumerate(self._steps):
            for place in step.writes:
                if place not in given:
                    taken[place] = memory.take(_round(_count_bytes(self._nodes[place])))
                    at[place] = own + taken[place].offset
            sources = [at[self._find_root(place)] for place in step.reads]
            targets = [at[place] for place in step.writes]
            launches += cast("LaunchedPlan", step.plan).list_launches(sources, targets, reserve)
            memory.end_task()
            for place in touched[number] & taken.keys():
                if last[place] == number:
                    memory.give_back(taken.pop(place))
        return launches, memory.most_bytes


def _remember(known: dict[_Addresses, Any], addresses: _Addresses, what: Any, most: int) -> None:
    """Add to what is known, and forget the first where that is too much."""
    known[addresses] = what
    if len(known) > most:
        del known[next(iter(known))]


def _count_bytes(node: Node) -> int:
    return node.elements * node.dtype.width


def _round(size: int) -> int:
    """Return the bytes that a tensor takes, so that all begin where lines of a cache do."""
    return -(-max(size, 1) // _GRAIN_BYTES) * _GRAIN_BYTES
