"""Sequences on a device: launches that are known before they run, and graphs of them.

What no one sees but the tasks themselves lies in memory of the sequence's own
(`backends/layout.py`). Launches name addresses, so that a graph serves runs whose tensors are where
those of the run were that it was made for. It is made when addresses come for a second time; until
then, launches are made one by one. So that addresses come again, each place of a tensor that is
kept is a holder of memory. Tasks of a graph wait for those whose memory they use, and for no others
(`dependencies.py`).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from moot.offchain.backends.cuda.concurrent_memory import ConcurrentMemory
from moot.offchain.backends.cuda.dependencies import Uses, find_dependencies
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor, Vertex
from moot.offchain.backends.cuda.plans import Alias, View
from moot.offchain.backends.cuda.single import LaunchedPlan, Reserve
from moot.offchain.backends.layout import SequenceLayout
from moot.offchain.backends.port import Step
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native.memory_layout import Memory, Range

_MOST = 4
"""Graphs of a sequence that are kept, each for other addresses, and addresses without a graph that
are remembered, in case that they come again. Of more that come by turns, graphs would be made that
are forgotten before they are launched again."""

_GRAIN_BYTES = 512
"""At multiples of so many bytes begin all tensors, as those do that the driver gives out."""

_MORE = 0.25
"""So much more memory than tasks need in turns is taken to keep them apart."""

_SPARE = 2
"""So many times as much memory has to be free where any is taken for that."""

_Addresses = tuple[int, ...]


class Task(NamedTuple):
    """A task as its plan, its launches one after the other, and the memory that these use."""

    plan: LaunchedPlan
    launches: Sequence[Launch]
    uses: Uses


class _Known(NamedTuple):
    """What is the same of a task in all runs.

    Attributes:
        plan: its plan.
        reads: the places of its operands, 0 for constants.
        writes: those of its outputs.
        reserved: the ranges of the sequence's own memory that it reserves.
    """

    plan: LaunchedPlan
    reads: Sequence[int]
    writes: Sequence[int]
    reserved: Sequence[Range]


class _Laid(NamedTuple):
    """The tasks of a sequence, places in its own memory, and the bytes of that."""

    tasks: Sequence[_Known]
    own: Mapping[int, Range]
    own_bytes: int


class LaunchedSequence:
    """The plan of a sequence.

    Args:
        machine: what computes it.
        steps: the tasks, all of which are launches.
        reads: the places of the tensors that are given.
        kept: the places of the tensors that are wanted.
        more: the memory that may be taken so that tasks need not wait for others whose memory they
            have, as a part of what they need in turns; None to have it in turns.
    """

    def __init__(
        self,
        machine: Machine,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        more: float | None = _MORE,
    ) -> None:
        self._machine, self._reads, self._kept, self._more = machine, reads, kept, more
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
        self._compute({p: _shift((0, t.size), t.address) for p, t in tensors.items()})
        found = [tensors[layout.find_root(place)] for place in self._kept]
        return [
            View(tensor, layout.shapes[place]) if place in layout.shapes else tensor
            for place, tensor in zip(self._kept, found, strict=True)
        ]

    def _compute(self, places: Mapping[int, Range]) -> None:
        """Compute what is kept, given where all is that is not the sequence's own."""
        machine, addresses = self._machine, tuple(_get_firsts([*places.values()]))
        if addresses not in self._graphs:
            tasks = self.list_tasks(places)
            if addresses not in self._seen:
                _remember(self._seen, addresses, None)
                for task in tasks:
                    for launch in task.launches:
                        machine.launch(*launch)
                return
            _remember(self._graphs, addresses, machine.record(link(tasks)))
        machine.replay(self._graphs[addresses])

    @cached_property
    def _laid(self) -> _Laid:
        """What is the same in all runs, wherever their tensors are."""
        in_turns, free = self._lay_out(Memory(_GRAIN_BYTES)), self._machine.get_free_bytes()
        if self._more is None:
            return in_turns
        limit = in_turns.own_bytes + int(in_turns.own_bytes * self._more)
        if free is not None and free < _SPARE * limit:
            return in_turns
        return self._lay_out(ConcurrentMemory(_GRAIN_BYTES, limit))

    def _lay_out(self, memory: Memory) -> _Laid:
        """Return the tasks, and who has which part of memory."""
        layout = self._layout
        tasks, own = list[_Known](), dict[int, Range]()
        for step, new in layout.lay_out([*self._reads, *layout.made], memory):
            own.update((p, _shift((0, layout.sizes[p]), at.offset)) for p, at in new.items())
            plan, reserved = cast("LaunchedPlan", step.plan), list[Range]()

            def reserve(size: int, reserved: list[Range] = reserved) -> int:
                reserved.append(_shift((0, size), memory.reserve(size).offset))
                return 0

            plan.list_launches([0] * len(step.reads), [0] * len(step.writes), reserve)
            reads = [layout.find_root(place) for place in step.reads]
            tasks.append(_Known(plan, reads, step.writes, reserved))
        return _Laid(tasks, own, memory.most_bytes)

    def list_tasks(self, places: Mapping[int, Range]) -> list[Task]:
        """Return the tasks that launch something.

        Args:
            places: where the tensors are that are given or kept.
        """
        if self._own is None:
            self._own = Tensor(self._machine, (self._laid.own_bytes,), np.uint8)
        start = self._own.address
        at = {0: (0, 0), **places}
        at.update((place, _shift(own, start)) for place, own in self._laid.own.items())
        tasks = list[Task]()
        for plan, reads, writes, reserved in self._laid.tasks:
            sources, targets = [at[place] for place in reads], [at[place] for place in writes]
            own = [_shift(place, start) for place in reserved]
            reserve = _hand_out(_get_firsts(own))
            launches = plan.list_launches(_get_firsts(sources), _get_firsts(targets), reserve)
            if launches:
                tasks.append(Task(plan, launches, Uses(sources, [*targets, *own])))
        return tasks


def _shift(place: Range, count: int) -> Range:
    """Return a range so many bytes behind."""
    return place[0] + count, place[1] + count


def _get_firsts(places: Sequence[Range]) -> list[int]:
    """Return the addresses of ranges."""
    return [first for first, _ in places]


def _hand_out(addresses: Sequence[int]) -> Reserve:
    """Return what gives addresses, one after the other."""
    left = iter(addresses)
    return lambda _size: next(left)


def link(tasks: Sequence[Task]) -> list[Vertex]:
    """Return the launches of tasks as a graph: those of a task in turn, after what it needs."""
    vertices, last = list[Vertex](), list[int]()
    for task, others in zip(tasks, find_dependencies([task.uses for task in tasks]), strict=True):
        after = [last[other] for other in others]
        for launch in task.launches:
            vertices.append(Vertex(launch, after))
            after = [len(vertices) - 1]
        last += after
    return vertices


def _remember(known: dict[_Addresses, Any], addresses: _Addresses, what: Any) -> None:
    """Add to what is known, and forget the first where that is too much."""
    known[addresses] = what
    if len(known) > _MOST:
        del known[next(iter(known))]
