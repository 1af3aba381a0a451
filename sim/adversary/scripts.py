"""Scripts: whatever an adversary can say of a real run, as testimonies that depart from it.

A script is the honest run with some of its trees replaced, so that moves are made of it as of any
testimony. A claim has several scripts: they agree on its history, and differ in what is committed
to later (an interval, a trace, accumulators), which is what an adversary can still choose when it
is disputed. A node with a made-up value can be committed to, and never opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, TensorTree, hash_tensor
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.programs.graph import Origin
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.task import Task
from moot.offchain.providers.testimony import Testimony

RIGHT, GARBAGE = "right", "garbage"
"""The claim of the honest run, and a history that nobody can open."""


@dataclass(frozen=True, eq=False)
class Script:
    """A testimony that departs from an honest run in some trees.

    Attributes:
        honest: the run.
        about: what is said that is not so, in a few words.
        history: the tree over the claimed history.
        intervals, traces, states: trees that differ, by their steps.
        tensors: outputs that differ, by step and operator.
        partials_from: after how many terms the accumulators of a changed element are wrong.
    """

    honest: Run
    about: str
    history: Tree
    intervals: Mapping[int, Tree] = field(default_factory=dict)
    traces: Mapping[int, Tree] = field(default_factory=dict)
    states: Mapping[int, Tree] = field(default_factory=dict)
    tensors: Mapping[tuple[int, int], TensorTree] = field(default_factory=dict)
    partials_from: int = 0
    behaviour: Behaviour = field(default_factory=Behaviour)

    @property
    def task(self) -> Task:
        """What is agreed."""
        return self.honest.task

    def interval(self, first: int) -> Tree:
        """See Testimony."""
        return self.intervals.get(first) or self.honest.interval(first)

    def trace(self, step: int) -> Tree:
        """See Testimony."""
        return self.traces.get(step) or self.honest.trace(step)

    def state_tree(self, step: int) -> Tree:
        """See Testimony."""
        return self.states.get(step) or self.honest.state_tree(step)

    def tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        """See Testimony."""
        changed = self.tensors.get((step, reference)) if origin is Origin.NODE else None
        return changed or self.honest.tensor(step, origin, reference)

    def operands(self, step: int, operator: int) -> Sequence[Array | None]:
        """See Testimony."""
        return self.honest.operands(step, operator)

    def partials(self, step: int, operator: int, element: int) -> Array:
        """See Testimony."""
        found = self.honest.partials(step, operator, element)
        if (step, operator) not in self.tensors:
            return found
        changed = np.array(found)
        changed.view(np.uint8).reshape(len(changed), -1)[self.partials_from + 1 :, 0] ^= 1
        return changed


class Unopened(TensorTree):
    """A tensor of which one chunk's node is made up, so that it can't be opened there."""

    def __init__(self, array: Array, chunk: int, node: Digest) -> None:
        super().__init__(array)
        assert self.tree is not None, "it has elements"
        leaves = [self.tree.node(0, place) for place in range(self.tree.count)]
        leaves[chunk] = node
        self.tree = Tree(Tag.TENSOR_NODE, leaves)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that an adversary can make, with what it can say when it is disputed."""

    name: str
    top: Digest
    scripts: tuple[Testimony, ...]


def draw_claims(honest: Run, random: Random, wrong: int, scripts: int) -> tuple[Claim, ...]:
    """Return the claims of an adversary: the right one, wrong ones, and a history of no preimage.

    Args:
        honest: the run from which all of them depart.
        random: draws steps, operators, elements, terms and nodes.
        wrong: how many wrong histories there are.
        scripts: how many ways there are to defend each of them.
    """
    writer = _Writer(honest, random)
    right = tuple(writer.write_flag() for _ in range(max(1, scripts // 3)))
    claims = [Claim(RIGHT, honest.history.top, (honest, *right))]
    claims += [writer.draw_claim(f"wrong-{number}", scripts) for number in range(1, wrong + 1)]
    return (*claims, Claim(GARBAGE, _make_up(random), ()))


def _make_up(random: Random) -> Digest:
    return keccak256(random.randbytes(32))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the scripts of claims about one run."""

    honest: Run
    random: Random

    def draw_claim(self, name: str, scripts: int) -> Claim:
        """Return a wrong history, from a drawn checkpoint on, with ways to defend it."""
        task, random = self.honest.task, self.random
        checkpoints = [self.honest.history.node(0, it) for it in range(len(task.checkpoints))]
        checkpoint = random.randrange(len(checkpoints))
        slot = random.randrange(len(task.program.state))
        last = task.checkpoints[checkpoint]
        leaves = _list_leaves(self.honest.state_tree(last))
        leaves[slot] = self._change_slot(last, slot)
        state = Tree(Tag.STATE_NODE, leaves)
        root = hash_root(Tag.STATE_ROOT, state.count, state.top)
        is_lasting = random.random() < 0.5
        end = len(checkpoints) if is_lasting else checkpoint + 1
        checkpoints[checkpoint:end] = [root] * (end - checkpoint)
        history = Tree(Tag.HISTORY_NODE, checkpoints)
        ways = [self._write(history, checkpoint, root, state, slot) for _ in range(scripts)]
        return Claim(name, history.top, tuple(ways))

    def write_flag(self) -> Script:
        """Return a script that has the right history, and goes wrong within a drawn interval."""
        task = self.honest.task
        checkpoint = self.random.randrange(len(task.checkpoints))
        last = task.checkpoints[checkpoint]
        state = self.honest.state_tree(last)
        root = hash_root(Tag.STATE_ROOT, state.count, state.top)
        return self._write(self.honest.history, checkpoint, root, state, 0)

    def _write(
        self, history: Tree, checkpoint: int, root: Digest, state: Tree, slot: int
    ) -> Script:
        """Return one way to defend a state root that is claimed at a checkpoint."""
        task, random = self.honest.task, self.random
        first, last = checkpoint * task.checkpoint_every, task.checkpoints[checkpoint]
        step = random.randrange(first, last)
        interval = _list_leaves(self.honest.interval(first))
        interval[step - first :] = [root] * (last - step)
        leaves = _list_leaves(self.honest.trace(step))
        leaves[-1] = root
        operator = self._draw_operator(slot)
        tensors: dict[tuple[int, int], TensorTree] = {}
        words = f"step {step}, the state"
        if operator < len(leaves) - 1:
            tensors, leaves[operator], words = self._change(step, operator)
        return Script(
            self.honest,
            words,
            history,
            {first: Tree(Tag.INTERVAL_NODE, interval)},
            {step: Tree(Tag.TRACE_NODE, leaves)},
            {step + 1: state},
            tensors,
            random.choice((0, 0, 1, 3, random.randrange(64))),
        )

    def _draw_operator(self, slot: int) -> int:
        """Return an operator; the number of operators stands for the state after the step."""
        program, random = self.honest.task.program, self.random
        count = len(program.nodes)
        folds = [place for place, node in enumerate(program.nodes) if node.kind.folds]
        drawn = (random.randrange(count), random.choice(folds or [0]), program.first_sink + slot)
        return random.choice((*drawn, count))

    def _change(
        self, step: int, operator: int
    ) -> tuple[dict[tuple[int, int], TensorTree], Digest, str]:
        """Return an operator's output with one element, or one node, changed; its root; words."""
        random, place = self.random, f"step {step}, operator {operator}"
        array = self.honest.outputs(step, [operator])[operator]
        if not array.size or random.random() < 0.15:
            return {}, _make_up(random), f"{place}, a root of nothing"
        element = random.choice((0, array.size - 1, random.randrange(array.size)))
        tensor, words = _flip(array, element), f"{place}, element {element}"
        if random.random() < 0.15:
            assert tensor.tree is not None, "it has elements"
            chunk = random.randrange(tensor.tree.count)
            tensor = Unopened(array, chunk, _make_up(random))
            words = f"{place}, a node of nothing over chunk {chunk}"
        return {(step, operator): tensor}, hash_tensor(tensor.header, tensor.top), words

    def _change_slot(self, step: int, slot: int) -> Digest:
        """Return the root of a slot of the state before a step that is not its own."""
        array = self.honest.state(step)[slot]
        if not array.size or self.random.random() < 0.3:
            return _make_up(self.random)
        return _flip(array, self.random.randrange(array.size)).root


def _list_leaves(tree: Tree) -> list[Digest]:
    return [tree.node(0, place) for place in range(tree.count)]


def _flip(array: Array, element: int) -> TensorTree:
    """Return a tensor with the lowest bit of one element turned."""
    changed = np.array(array)
    width = changed.itemsize
    changed.reshape(-1).view(np.uint8)[element * width] ^= 1
    return TensorTree(changed)
