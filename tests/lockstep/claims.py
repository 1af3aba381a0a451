"""What a provider computes and commits to: a run of a program, with a cheat at one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from contracts.model.types import NOBODY, Opening, Terms
from contracts.reasons import LeafMode
from offchain.arithmetic.functions import CANONICAL_NAN
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    TensorTree,
    compute_state_root,
    compute_tensor_root,
)
from offchain.commitments.tree import Digest, Tree
from offchain.programs.graph import Operand, Origin, Program
from offchain.programs.roots import ProgramTree
from offchain.programs.semantics import Fetch, compute_element

Tensors = tuple[Array, ...]


def to_bits(array: Array) -> list[int]:
    """Return the bits of a tensor's elements."""
    return [int(x) for x in array.reshape(-1).view(f"u{array.itemsize}")]


def to_array(bits: Sequence[int], like: Array) -> Array:
    """Return the tensor of these bits that has the type and shape of another."""
    unsigned = np.array(bits, f"u{like.itemsize}")
    return unsigned.view(like.dtype).reshape(like.shape)


def flip(array: Array, place: int = 0) -> Array:
    """Return a tensor with another value, not a NaN, in one place."""
    bits = to_bits(array)
    bits[place] ^= CANONICAL_NAN if bits[place] == CANONICAL_NAN else 1
    return to_array(bits, array)


@dataclass(frozen=True)
class Task:
    """What all providers of a job are given."""

    program: Program
    start: Tensors
    batches: tuple[Tensors, ...]
    checkpoint_every: int = 1

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return len(self.batches)

    @cached_property
    def commitment(self) -> ProgramTree:
        """The program's commitment."""
        return ProgramTree(self.program)

    @cached_property
    def data(self) -> Tree | None:
        """The tree over all batches, or None if the program has no batch."""
        roots = [compute_tensor_root(slot) for batch in self.batches for slot in batch]
        return Tree(Tag.DATA_NODE, roots) if roots else None

    @property
    def checkpoints(self) -> list[int]:
        """The steps after which a history has a state, beginning with none."""
        return [*range(0, self.steps, self.checkpoint_every), self.steps]

    def terms(self, **changes: object) -> Terms:
        """Return the terms of a job for this task, with changes."""
        header = self.commitment.header
        values = {
            "operators": header.operators,
            "state_slots": header.state_slots,
            "batch_slots": header.batch_slots,
            "layout": header.layout,
            "program_top": header.top,
            "start_root": compute_state_root([compute_tensor_root(t) for t in self.start]),
            "data_top": self.data.top if self.data else bytes(32),
            "steps": self.steps,
            "checkpoint_every": self.checkpoint_every,
            "leaf_mode": LeafMode.SCALAR,
            "verifier": NOBODY,
            "bond_wei": 10**18,
            "commit_blocks": 8,
            "reveal_blocks": 8,
            "clock_blocks": 200,
            "increment_blocks": 2,
        }
        return Terms(**(values | changes))  # type: ignore[arg-type]


Cheat = Callable[[int, int, Array], Array]
"""Replaces the output of a node: from the step, the node's index and the honest output."""


def honest(_step: int, _index: int, array: Array) -> Array:
    """Compute what the program says."""
    return array


def cheat_at(step: int, index: int, place: int = 0) -> Cheat:
    """Return the cheat that changes one element of one output; all that follows is consistent."""

    def cheat(at_step: int, at_index: int, array: Array) -> Array:
        return flip(array, place) if (at_step, at_index) == (step, index) else array

    return cheat


@dataclass
class Claim:
    """A provider's run of a task, with every tree that a dispute can descend.

    `cheat` changes outputs, `fake` the state after a step (index -1 is the start), and `states`
    and `traces` are what comes of it.
    """

    task: Task
    cheat: Cheat = honest
    fake: Callable[[int, Tensors], Tensors] = lambda _, state: state
    states: list[Tensors] = field(default_factory=list)
    traces: list[Tensors] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Run the program."""
        self.states.append(self.fake(-1, self.task.start))
        for step in range(self.task.steps):
            outputs = self._run(step)
            self.traces.append(outputs)
            state = outputs[self.task.program.first_sink :]
            self.states.append(self.fake(step, state))

    def _run(self, step: int) -> Tensors:
        outputs: list[Array] = []
        for index, node in enumerate(self.task.program.nodes):
            fetch = self._fetch_from(step, outputs)
            bits = [compute_element(node, e, step, fetch) for e in range(node.elements)]
            empty = np.empty(node.shape, NUMPY_TYPES[node.dtype])
            outputs.append(self.cheat(step, index, to_array(bits, empty)))
        return tuple(outputs)

    def _fetch_from(self, step: int, outputs: list[Array]) -> Fetch:
        pools: dict[Origin, Sequence[Array]] = {
            Origin.NODE: outputs,
            Origin.STATE: self.states[step],
            Origin.BATCH: self.task.batches[step],
        }

        def fetch(place: int, operand: Operand, index: int) -> int:  # noqa: ARG001 - see Fetch
            return to_bits(pools[operand.origin][operand.reference])[index]

        return fetch

    def tensor(self, step: int, operand: Operand) -> TensorTree:
        """Return the tensor that an operand reads."""
        pools = {
            Origin.NODE: self.traces[step],
            Origin.STATE: self.states[step],
            Origin.BATCH: self.task.batches[step],
        }
        return TensorTree(pools[operand.origin][operand.reference])

    def state(self, step: int) -> Tree:
        """Return the tree over the state before a step."""
        return Tree(Tag.STATE_NODE, [compute_tensor_root(t) for t in self.states[step]])

    def state_root(self, step: int) -> Digest:
        """Return the root of the state before a step."""
        return compute_state_root([compute_tensor_root(t) for t in self.states[step]])

    @cached_property
    def history(self) -> Tree:
        """The tree over the states of all checkpoints."""
        return Tree(Tag.HISTORY_NODE, [self.state_root(s) for s in self.task.checkpoints])

    def interval(self, first: int) -> Tree:
        """Return the tree over the states of the interval that begins with a step."""
        last = min(first + self.task.checkpoint_every, self.task.steps)
        return Tree(Tag.INTERVAL_NODE, [self.state_root(s) for s in range(first, last + 1)])

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of a step and the state after it."""
        roots = [compute_tensor_root(output) for output in self.traces[step]]
        return Tree(Tag.TRACE_NODE, [*roots, self.state_root(step + 1)])

    def opening(self, step: int, operand: Operand, index: int) -> Opening:
        """Return the proof of an operand's element."""
        tensor = self.tensor(step, operand)
        assert tensor.tree is not None
        chunk, _ = divmod(index * operand.dtype.width, CHUNK_BYTES)
        if operand.origin is Origin.NODE:
            proof = self.trace(step).proof(operand.reference)
        elif operand.origin is Origin.STATE:
            proof = self.state(step).proof(operand.reference)
        else:
            assert self.task.data is not None
            place = step * len(self.task.program.batch) + operand.reference
            proof = self.task.data.proof(place)
        chunk_proof = tuple(tensor.tree.proof(chunk))
        return Opening(tensor.header, tensor.chunk(chunk), chunk_proof, tuple(proof))


def cheating(task: Task, step: int, index: int, place: int = 0) -> Claim:
    """Return a run with one wrong element of one output, and a wrong state after that step.

    The wrong state makes the claim differ even where nothing depends on the output.
    """

    def fake(at_step: int, state: Tensors) -> Tensors:
        return (flip(state[0]), *state[1:]) if at_step == step else state

    return Claim(task, cheat_at(step, index, place), fake)
