"""A task: everything about a job that is agreed before anybody runs it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    Array,
    TensorCommitment,
    commit_tensors,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.errors import UsageError
from moot.offchain.execution.preparation import Preparation
from moot.offchain.programs.graph import Program
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.batches import RuledBatches, StoredBatches


def check_interval(checkpoint_every: int, steps: int) -> None:
    """Refuse an interval between checkpoints that a task of so many steps cannot have."""
    if not 1 <= checkpoint_every <= steps:
        raise UsageError(
            f"checkpoints every {checkpoint_every} steps do not fit {steps} steps; "
            f"choose a number from 1 to {steps}"
        )


@dataclass(frozen=True)
class Task:
    """A program, its start state, its data and its length.

    Attributes:
        program: the step.
        initial_state: arrays in the order of the program's state slots.
        batch: the batch of a step, arrays in the order of the program's batch slots.
        steps: number of steps.
        checkpoint_every: steps of an interval, after each of which there is a checkpoint.
        logs: the rounding log of each step, if the arithmetic has logs.
    """

    program: Program
    initial_state: Sequence[Array]
    batch: Callable[[int], Sequence[Array]]
    steps: int
    checkpoint_every: int
    logs: Sequence[StepLog] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"a task has at least one step, not {self.steps}")
        check_interval(self.checkpoint_every, self.steps)

    @cached_property
    def commitment(self) -> ProgramTree:
        """The program's tree."""
        return ProgramTree(self.program)

    @cached_property
    def preparation(self) -> Preparation:
        """The plans of the program on the default backend, for all runs of it in this process."""
        return self.prepare(DEFAULT)

    def prepare(self, backend: str) -> Preparation:
        """Return the plans of the program on a backend, for all runs of it in this process."""
        if backend not in self._prepared:
            self._prepared[backend] = Preparation(self.program, backend)
        return self._prepared[backend]

    def forget(self, backend: str) -> None:
        """Forget the plans on a backend, whose device was lost with all that they have there."""
        self._prepared.pop(backend, None)

    @cached_property
    def _prepared(self) -> dict[str, Preparation]:
        return {}

    @cached_property
    def start_commitments(self) -> Sequence[TensorCommitment]:
        """The commitments to the tensors of the start state."""
        return commit_tensors(self.initial_state)

    @property
    def start_roots(self) -> Sequence[Digest]:
        """The roots of the tensors of the start state."""
        return [commitment.root for commitment in self.start_commitments]

    @property
    def start_root(self) -> Digest:
        """The root of the start state."""
        return compute_state_root(self.start_roots)

    @cached_property
    def data_tree(self) -> Tree | None:
        """The tree over all batches; None when the program takes no batch."""
        if not self.program.batch:
            return None
        return Tree(Tag.DATA_NODE, self._list_batch_roots())

    def _list_batch_roots(self) -> Sequence[Digest]:
        """Return the roots of all batches' tensors: computed, or those that batches verify."""
        if isinstance(self.batch, (StoredBatches, RuledBatches)):
            roots = self.batch.roots
            if len(roots) == self.steps * len(self.program.batch):
                return roots
        steps = range(self.steps)
        return [compute_tensor_root(array) for step in steps for array in self.batch(step)]

    @property
    def data_root(self) -> Digest:
        """The root over all batches."""
        tree = self.data_tree
        return hash_root(Tag.DATA_ROOT, tree.count, tree.top) if tree else bytes(32)

    @cached_property
    def checkpoints(self) -> tuple[int, ...]:
        """The number of steps that are done at each checkpoint, the end of the last among them."""
        every = self.checkpoint_every
        return (*range(every, self.steps, every), self.steps)
