"""The layout of sequences: which places are one tensor, and who has which part of a run's memory.

What no one sees but the tasks themselves lies in memory of the run's own, where it makes room for
others after it was read for the last time.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from moot.offchain.backends.port import Step
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Place


class SequenceLayout:
    """The tasks of a sequence and the tensors between them.

    Args:
        steps: the tasks.
        alias: the type of plans whose output is their operand's memory under another shape.
        kept: the places of the tensors that are wanted.

    Attributes:
        steps: the tasks that compute something.
        shapes: the shapes of what is another tensor's memory, by place.
        sizes: the bytes of what is computed, by place.
        nodes: what it is.
        made: the places of the tensors that are computed and wanted.
    """

    def __init__(self, steps: Sequence[Step], alias: type, kept: Sequence[int]) -> None:
        self._roots: dict[int, int] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        for step in steps:
            if isinstance(step.plan, alias):
                ((place,), (read, *_)) = step.writes, step.reads
                self._roots[place] = self.find_root(read)
                self.shapes[place] = step.outputs[0].shape
        self.steps = [step for step in steps if not isinstance(step.plan, alias)]
        self.nodes = {p: n for s in self.steps for p, n in zip(s.writes, s.outputs, strict=True)}
        self.sizes = {p: n.elements * n.dtype.width for p, n in self.nodes.items()}
        wanted = dict.fromkeys(map(self.find_root, kept))
        self.made = [place for place in wanted if place in self.nodes]

    def find_root(self, place: int) -> int:
        """Return the place of the tensor whose memory another one is, or its own."""
        return self._roots.get(place, place)

    def lay_out(
        self, given: Collection[int], memory: Memory
    ) -> Iterator[tuple[Step, Mapping[int, Place]]]:
        """Yield each task, and where those of its outputs are that are the run's own.

        What a task reserves is its own until the next one is asked for.

        Args:
            given: the places of tensors that are elsewhere, which are given or wanted.
            memory: the run's own.
        """
        fixed, taken = {0, *given}, dict[int, Place]()
        touched = [{self.find_root(p) for p in (*s.writes, *s.reads)} for s in self.steps]
        last = {place: number for number, places in enumerate(touched) for place in places}
        makers = {place: number for number, step in enumerate(self.steps) for place in step.writes}
        for number, step in enumerate(self.steps):
            read = touched[number].difference(step.writes)
            after = {makers[place] for place in read if place in makers}
            memory.begin_task(after, [taken[place] for place in read if place in taken])
            new = {p: memory.take(self.sizes[p]) for p in step.writes if p not in fixed}
            taken.update(new)
            yield step, new
            memory.end_task()
            for place in touched[number] - fixed:
                if last[place] == number:
                    memory.give_back(taken.pop(place))
