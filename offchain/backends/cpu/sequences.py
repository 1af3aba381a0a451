"""The plans of sequences: tasks whose calls of machine code are made one after the other.

What no one sees but the tasks themselves lies in the run's own memory, where it makes room for
others after it was read for the last time. What is kept are arrays of their own in every run.
"""

from collections.abc import Mapping, Sequence
from operator import call
from typing import Any, cast

from offchain.arithmetic.environment import report_change
from offchain.backends.cpu.calls import CalledPlan
from offchain.backends.cpu.moves import Alias
from offchain.backends.port import Step
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.native import buffers
from offchain.native.rooms import Memory
from offchain.native.sequences import UNFIT, UNSUITABLE, Call, Expected, NativeSequence, Place
from offchain.native.threads import get_threads
from offchain.programs.graph import Node, Slot


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
        self._steps = [step for step in steps if not isinstance(step.plan, Alias)]
        self._roots, shapes = _find_roots(steps)
        nodes = {p: n for s in self._steps for p, n in zip(s.writes, s.outputs, strict=True)}
        wanted = dict.fromkeys(self._find_root(place) for place in kept)
        made = [place for place in wanted if place in nodes]
        numbers = {place: 1 + i for i, place in enumerate((*reads, *made))}
        self._results = [(numbers[self._find_root(p)], shapes.get(p)) for p in kept]
        self._makers = [
            buffers.plan_empty(nodes[p].shape, NUMPY_TYPES[nodes[p].dtype]) for p in made
        ]
        self._kept_bytes = sum(nodes[p].elements * nodes[p].dtype.width for p in made)
        first = len(numbers) - len(made) + 1
        is_plain = self._results == [(first + i, None) for i in range(len(made))]
        self._plain = slice(first, None) if is_plain else None
        self._numbers, self._nodes = numbers, nodes
        self._expected = [Expected(NUMPY_TYPES[slot.dtype], slot.shape) for slot in slots]
        self._sequences: dict[int, NativeSequence] = {}

    @property
    def needed_bytes(self) -> int:
        """The memory of the run's own, and that of what is kept."""
        return self._kept_bytes + self._find_sequence().own_bytes

    def run(self, flats: Sequence[Array]) -> list[Array] | None:
        """Return the tensors that are kept; None if an array does not fit its slot."""
        tensors: list[Any] = [None, *flats, *map(call, self._makers)]
        sequence = self._sequences.get(get_threads()) or self._find_sequence()
        result = sequence.perform(tensors)
        if result == UNSUITABLE:
            raise report_change()
        if result == UNFIT:
            return None
        if self._plain:
            return tensors[self._plain]
        return [
            tensors[i] if shape is None else tensors[i].reshape(shape) for i, shape in self._results
        ]

    def _find_sequence(self) -> NativeSequence:
        """Return the calls as so many threads share them as kernels use now."""
        threads = get_threads()
        if threads not in self._sequences:
            memory = Memory()
            fixed = {place: Place(number) for place, number in self._numbers.items()}
            calls = self._lay_out(fixed, self._nodes, memory)
            sizes = memory.most_bytes, len(self._numbers)
            self._sequences[threads] = NativeSequence(calls, *sizes, self._expected)
        return self._sequences[threads]

    def _find_root(self, place: int) -> int:
        return self._roots.get(place, place)

    def _lay_out(
        self, places: dict[int, Place], nodes: Mapping[int, Node], memory: Memory
    ) -> list[Call]:
        """Return all calls, given where the tensors are that are given or kept."""
        fixed = {0, *places}
        touched = [{self._find_root(p) for p in (*s.writes, *s.reads)} for s in self._steps]
        last = {place: index for index, own in enumerate(touched) for place in own}
        calls: list[Call] = []
        for index, step in enumerate(self._steps):
            for place in step.writes:
                if place not in fixed:
                    places[place] = memory.take(nodes[place].elements * nodes[place].dtype.width)
            sources = [places[self._find_root(place)] if place else None for place in step.reads]
            targets = [places[place] for place in step.writes]
            calls += cast("CalledPlan", step.plan).list_calls(sources, targets, memory)
            memory.end_task()
            for place in touched[index] - fixed:
                if last[place] == index:
                    memory.give_back(places[place])
        return calls


def _find_roots(
    steps: Sequence[Step],
) -> tuple[Mapping[int, int], Mapping[int, tuple[int, ...]]]:
    """Return for each alias the place of the tensor that it is, and its own shape."""
    roots: dict[int, int] = {}
    shapes = {}
    for step in steps:
        if isinstance(step.plan, Alias):
            ((place,), (read, *_)) = step.writes, step.reads
            roots[place] = roots.get(read, read)
            shapes[place] = step.outputs[0].shape
    return roots, shapes
