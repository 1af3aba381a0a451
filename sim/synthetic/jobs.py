"""Synthetic jobs and their runs: of a few tensors, which nobody computes, all trees of a dispute.

A new job is a task, with the tensors of its start, and a run, which says what its operators put
out, which state comes of that, and what the accumulators of its folds are. Commitments are real,
and so are the moves: `moot.offchain.disputes.play.players` makes them from what the events show and
these trees.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import cast

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, compute_state_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.partials import pack_partials
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.task import Task
from moot.sim.synthetic.run_length import RunLengthTensor, RunLengthTree


@dataclass(frozen=True)
class SyntheticTask(Task):
    """A job that nobody computes.

    Attributes:
        start: the tensors of the start state.
        data: those of every step's batch.
    """

    start: Sequence[RunLengthTensor] = field(kw_only=True)
    data: Sequence[RunLengthTensor] = field(default=(), kw_only=True)

    @cached_property
    def start_roots(self) -> Sequence[Digest]:
        """The roots of the tensors of the start state."""
        return [tensor.root for tensor in self.start]

    def _list_batch_roots(self) -> Sequence[Digest]:
        return [tensor.root for tensor in self.data] * self.steps


def make_rows(shape: Sequence[int]) -> tuple[Row, ...]:
    """Return the access that reads a tensor as it is."""
    return tuple(Row(size, 0, ((variable, 1),)) for variable, size in enumerate(shape))


def copy(kind: Kind, origin: Origin, reference: int, dtype: DType, shape: tuple[int, ...]) -> Node:
    """Return an operator whose output is a tensor as it is: a source, a sink or a move."""
    operand = Operand(origin, dtype, reference, 0, make_rows(shape))
    return Node(kind, Function.COPY, dtype, shape, (operand,))


def make_program(
    state: Sequence[Slot],
    sources: Sequence[tuple[Origin, int]],
    operators: Sequence[Node],
    kept: Sequence[int],
    batch: Sequence[Slot] = (),
    arithmetic: Arithmetic = ORDERED,
) -> Program:
    """Return a program.

    Args:
        state: the slots of the state.
        sources: what is read of the state and of the batch, first of all.
        operators: those behind the sources.
        kept: for each slot of the state, the operator whose output is there after the step.
        batch: the slots of the batch.
        arithmetic: of the folds.
    """
    read = [(origin, i, (batch if origin is Origin.BATCH else state)[i]) for origin, i in sources]
    nodes = (
        *(copy(Kind.SOURCE, origin, i, slot.dtype, slot.shape) for origin, i, slot in read),
        *operators,
        *(
            copy(Kind.SINK, Origin.NODE, place, slot.dtype, slot.shape)
            for place, slot in zip(kept, state, strict=True)
        ),
    )
    names = tuple(f"n{i}" for i in range(len(nodes)))
    return Program(tuple(state), tuple(batch), nodes, names, ("",) * len(nodes), arithmetic)


class SyntheticRun(ABC):
    """One provider's run of a synthetic job, honest or not: whatever a dispute may ask of it.

    Args:
        task: the job.
        changed: the one step, besides the first, after which the state is another than before it.
        behaviour: whether it moves at all.
    """

    def __init__(
        self, task: SyntheticTask, changed: int, behaviour: Behaviour | None = None
    ) -> None:
        self.task = task
        self.changed = changed
        self.behaviour = behaviour or Behaviour()
        self._trace = lru_cache(maxsize=8)(self._make_trace)

    @abstractmethod
    def list_outputs(self, step: int) -> Mapping[int, RunLengthTensor]:
        """Return the outputs of a step: for each run of equal ones, by its first operator."""

    @abstractmethod
    def list_state(self, step: int) -> Sequence[RunLengthTensor]:
        """Return the tensors of the state before a step."""

    def get_partial(self, step: int, operator: int, element: int, place: int) -> int:
        """Return the claimed accumulator of an element of a fold after so many terms.

        Raises:
            LookupError: the kind of run has no folds, and says nothing of any.
        """
        raise LookupError(f"{step}, {operator}: element {element} has no accumulator {place}")

    def hash_state(self, step: int) -> Digest:
        """Return the root of the state before a step."""
        return compute_state_root([tensor.root for tensor in self.list_state(step)])

    @cached_property
    def history(self) -> Tree:
        """The tree over the claimed history."""
        steps, every = self.task.steps, self.task.checkpoint_every
        return self._grow(Tag.HISTORY_NODE, range(every, steps + every, every))

    def interval(self, first: int) -> Tree:
        """Return the tree over the states after the steps of the interval from `first` on."""
        last = min(first + self.task.checkpoint_every, self.task.steps)
        return self._grow(Tag.INTERVAL_NODE, range(first + 1, last + 1))

    def _grow(self, tag: Tag, ends: range) -> Tree:
        """Return the tree over the states after so many steps; the last may be beyond the end."""
        places = {0, bisect_right(ends, self.changed)}
        roots = {
            place: self.hash_state(min(ends[place], self.task.steps))
            for place in places
            if place < len(ends)
        }
        return RunLengthTree(tag, len(ends), roots)

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of all operators of a step, and the state after it."""
        return self._trace(step)

    def _make_trace(self, step: int) -> Tree:
        operators = len(self.task.program.nodes)
        roots = {place: tensor.root for place, tensor in self.list_outputs(step).items()}
        roots[operators] = self.hash_state(step + 1)
        return RunLengthTree(Tag.TRACE_NODE, operators + 1, roots)

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the tensors of the state before a step."""
        return Tree(Tag.STATE_NODE, [tensor.root for tensor in self.list_state(step)])

    def tensor(self, step: int, origin: Origin, reference: int) -> RunLengthTensor:
        """Return an operator's output, or a slot of the state or of the batch, with its tree."""
        if origin is Origin.STATE:
            return self.list_state(step)[reference]
        if origin is Origin.BATCH:
            return self.task.data[reference]
        outputs = self.list_outputs(step)
        return outputs[max(place for place in outputs if place <= reference)]

    def operands(self, step: int, operator: int) -> list[Array | None]:
        """Return the tensors that an operator reads, None for its constants."""
        read = self.task.program.nodes[operator].operands
        return [
            None if o.origin is Origin.IMMEDIATE else self.tensor(step, o.origin, o.reference).array
            for o in read
        ]

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the claimed accumulators of one element of a fold, the initial one first."""
        program = self.task.program
        size = program.arithmetic.accumulator_bytes or program.nodes[operator].dtype.width
        get = partial(self.get_partial, step, operator, element)
        return cast("Array", _Partials(get, size))


@dataclass(frozen=True, slots=True)
class _Partials:
    """An array of accumulators, which are made where it is read, of so many bytes each."""

    get: Callable[[int], int]
    size: int

    def __getitem__(self, places: Sequence[int] | slice) -> Array:
        if isinstance(places, slice):
            places = range(places.start, places.stop)
        return pack_partials([self.get(place) for place in places], self.size)
