"""Sequences on a device: launches that are known before they run, and graphs of them.

What no one sees but the tasks themselves lies in memory of the sequence's own
(`backends/layout.py`). Launches name addresses, so that a graph serves runs whose tensors are where
those of the run were that it was made for. It is made when addresses come for a second time; until
then, launches are made one by one. So that addresses come again, each place of a tensor that is
kept is a holder of memory.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.plans import Alias, View
from moot.offchain.backends.cuda.single import LaunchedPlan, Reserve
from moot.offchain.backends.layout import SequenceLayout
from moot.offchain.backends.port import Step
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native.memory_layout import Memory

_MOST = 4
"""Graphs of a sequence that are kept, each for other addresses, and addresses without a graph that
are remembered, in case that they come again. Of more that come by turns, graphs would be made that
are forgotten before they are launched again."""

_GRAIN_BYTES = 512
"""At multiples of so many bytes begin all tensors, as those do that the driver gives out."""

_Addresses = tuple[int, ...]


class _Task(NamedTuple):
    """A task: its plan, where its operands and outputs are, and what it reserves.

    `reserved` are offsets in the sequence's own memory.
    """

    plan: LaunchedPlan
    reads: Sequence[int]
    writes: Sequence[int]
    reserved: Sequence[int]


class _Laid(NamedTuple):
    """The tasks of a sequence, the offsets of places in its own memory, and the bytes of that."""

    tasks: Sequence[_Task]
    offsets: Mapping[int, int]
    own_bytes: int


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
        return self._laid.own_bytes + sum(self._layout.sizes[place] for place in self._layout.made)

    def run(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors that are kept."""
        tensors = dict(zip(self._reads, flats, strict=True))
        layout = self._layout
        for place in layout.made:
            node = layout.nodes[place]
            tensors[place] = Tensor(self._machine, node.shape, NUMPY_TYPES[node.dtype], place)
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
                self._own = Tensor(machine, (self._laid.own_bytes,), np.uint8)
            launches = self._list_launches(places, self._own.address)
            if addresses not in self._seen:
                _remember(self._seen, addresses, None)
                for launch in launches:
                    machine.launch(*launch)
                return
            _remember(self._graphs, addresses, machine.record(launches))
        machine.replay(self._graphs[addresses])

    @cached_property
    def _laid(self) -> _Laid:
        """What is the same in all runs, wherever their tensors are."""
        memory, layout = Memory(_GRAIN_BYTES), self._layout
        tasks, offsets = list[_Task](), dict[int, int]()
        for step, new in layout.lay_out([*self._reads, *layout.made], memory):
            offsets.update((place, taken.offset) for place, taken in new.items())
            plan, reserved = cast("LaunchedPlan", step.plan), list[int]()

            def reserve(size: int, reserved: list[int] = reserved) -> int:
                reserved.append(memory.reserve(size).offset)
                return 0

            plan.list_launches([0] * len(step.reads), [0] * len(step.writes), reserve)
            reads = [layout.find_root(place) for place in step.reads]
            tasks.append(_Task(plan, reads, step.writes, reserved))
        return _Laid(tasks, offsets, memory.most_bytes)

    def _list_launches(self, given: Mapping[int, int], own: int) -> list[Launch]:
        """Return all launches.

        Args:
            given: the addresses of the tensors that are given or kept, by their places.
            own: the address of the sequence's own memory.
        """
        at = {0: 0, **given}
        at.update((place, own + offset) for place, offset in self._laid.offsets.items())
        launches = list[Launch]()
        for plan, reads, writes, reserved in self._laid.tasks:
            sources, targets = [at[place] for place in reads], [at[place] for place in writes]
            launches += plan.list_launches(sources, targets, _hand_out(own, reserved))
        return launches


def _hand_out(own: int, offsets: Sequence[int]) -> Reserve:
    """Return what gives addresses at offsets, one after the other."""
    left = iter(offsets)
    return lambda _size: own + next(left)


def _remember(known: dict[_Addresses, Any], addresses: _Addresses, what: Any) -> None:
    """Add to what is known, and forget the first where that is too much."""
    known[addresses] = what
    if len(known) > _MOST:
        del known[next(iter(known))]
