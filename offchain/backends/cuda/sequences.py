"""Sequences on a device: launches that are known before they run, and graphs of them.

What no one sees but the tasks themselves lies in memory of the sequence's own
(`backends/layout.py`). Launches name addresses, so that a graph serves runs whose tensors are where
those of the run were that it was made for. It is made when addresses come for a second time; until
then, launches are made one by one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from offchain.backends.cuda.machine import Launch, Machine, Tensor
from offchain.backends.cuda.plans import Alias, View
from offchain.backends.cuda.single import LaunchedPlan
from offchain.backends.layout import SequenceLayout
from offchain.backends.port import Step
from offchain.commitments.tensors import NUMPY_TYPES
from offchain.native.rooms import Memory

_MOST_GRAPHS = 4
"""Graphs of a sequence that are kept, each for other addresses."""

_REMEMBERED = 16
"""Addresses of runs that are remembered, in case that they come again."""

_GRAIN_BYTES = 512
"""At multiples of so many bytes begin all tensors, as those do that the driver gives out."""

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
        self._layout = SequenceLayout(steps, Alias, kept)
        self._own: Tensor | None = None
        self._graphs: dict[_Addresses, Any] = {}
        self._seen: dict[_Addresses, None] = {}

    @property
    def needed_bytes(self) -> int:
        """The memory of its own, and that of what is kept."""
        return self._measure() + sum(self._layout.sizes[place] for place in self._layout.made)

    def run(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors that are kept."""
        tensors = dict(zip(self._reads, flats, strict=True))
        layout = self._layout
        for place in layout.made:
            node = layout.nodes[place]
            tensors[place] = Tensor(self._machine, node.shape, NUMPY_TYPES[node.dtype])
        self._compute({place: tensor.address for place, tensor in tensors.items()})
        found = [tensors[layout.find_root(place)] for place in self._kept]
        return [
            View(tensor, layout.shapes[place]) if place in layout.shapes else tensor
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

    def _measure(self) -> int:
        """Return the bytes of the sequence's own memory."""
        return self._list_launches(dict.fromkeys([*self._reads, *self._layout.made], 0), 0)[1]

    def _list_launches(self, given: Mapping[int, int], own: int) -> tuple[list[Launch], int]:
        """Return all launches, and how far they reach in the sequence's own memory.

        Args:
            given: the addresses of the tensors that are given or kept, by their places.
            own: the address of the sequence's own memory.
        """
        memory, at = Memory(_GRAIN_BYTES), {0: 0, **given}
        find_root, launches = self._layout.find_root, list[Launch]()

        def reserve(size: int) -> int:
            return own + memory.reserve(size).offset

        for step, new in self._layout.lay_out(given, memory):
            at.update((place, own + taken.offset) for place, taken in new.items())
            sources = [at[find_root(place)] for place in step.reads]
            targets = [at[place] for place in step.writes]
            launches += cast("LaunchedPlan", step.plan).list_launches(sources, targets, reserve)
        return launches, memory.most_bytes


def _remember(known: dict[_Addresses, Any], addresses: _Addresses, what: Any, most: int) -> None:
    """Add to what is known, and forget the first where that is too much."""
    known[addresses] = what
    if len(known) > most:
        del known[next(iter(known))]
