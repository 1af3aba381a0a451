"""The plans of sequences: tasks whose calls of machine code are made one after the other.

What no one sees but the tasks themselves lies in the run's own memory (`backends/layout.py`). What
is kept are arrays of their own in every run.
"""

from collections.abc import Sequence
from operator import call
from typing import Any, cast

from moot.offchain.arithmetic.environment import report_change
from moot.offchain.backends.cpu.calls import CalledPlan, SharedSequences
from moot.offchain.backends.cpu.moves import Alias
from moot.offchain.backends.layout import SequenceLayout
from moot.offchain.backends.port import Step
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import DONE, UNSUITABLE, Call, Expected, Place
from moot.offchain.programs.graph import Slot


class CalledSequence:
    """The plan of a sequence.

    Args:
        steps: the tasks, all of which list their calls.
        reads: the places of the tensors that are given.
        kept: the places of the tensors that are wanted.
        slots: what the given tensors have to be, if that is not known.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        slots: Sequence[Slot] = (),
    ) -> None:
        self._layout = layout = SequenceLayout(steps, Alias, kept)
        made, nodes = layout.made, layout.nodes
        numbers = {place: 1 + i for i, place in enumerate((*reads, *made))}
        self._results = [(numbers[layout.find_root(p)], layout.shapes.get(p)) for p in kept]
        self._makers = [
            buffers.plan_empty(nodes[p].shape, NUMPY_TYPES[nodes[p].dtype]) for p in made
        ]
        self._kept_bytes = sum(layout.sizes[p] for p in made)
        first = len(numbers) - len(made) + 1
        is_plain = self._results == [(first + i, None) for i in range(len(made))]
        self._plain = slice(first, None) if is_plain else None
        self._numbers = numbers
        expected = [Expected(NUMPY_TYPES[slot.dtype], slot.shape) for slot in slots]
        self._sequences = SharedSequences(len(numbers), expected)

    @property
    def needed_bytes(self) -> int:
        """The memory of the run's own, and that of what is kept."""
        return self._kept_bytes + self._sequences.find(self._list_calls).own_bytes

    def run(self, flats: Sequence[Array]) -> list[Array] | None:
        """Return the tensors that are kept; None if an array does not fit its slot."""
        tensors: list[Any] = [None, *flats, *map(call, self._makers)]
        result = self._sequences.find(self._list_calls).perform(tensors)
        if result != DONE:
            if result == UNSUITABLE:
                raise report_change()
            return None
        if self._plain:
            return tensors[self._plain]
        return [
            tensors[i] if shape is None else tensors[i].reshape(shape) for i, shape in self._results
        ]

    def _list_calls(self, memory: Memory) -> list[Call]:
        """Return all calls, on tensors that are given or kept, and on others in memory."""
        places = {place: Place(number) for place, number in self._numbers.items()}
        find_root, calls = self._layout.find_root, list[Call]()
        for step, new in self._layout.lay_out(self._numbers, memory):
            places.update(new)
            sources = [places[find_root(place)] if place else None for place in step.reads]
            targets = [places[place] for place in step.writes]
            calls += cast("CalledPlan", step.plan).list_calls(sources, targets, memory)
        return calls
