"""A player's testimony: whatever it can show of a task that has been run, to its referee.

Real runs show what they have computed or compute again; a synthetic one (`sim/synthetic`)
shows trees of any size that stand for tensors which nobody ever makes; a recorded one may show what
it kept. The moves of a dispute are made from a testimony, and from nothing else of a provider.
"""

from collections.abc import Sequence
from typing import Protocol

from moot.offchain.commitments.tensors import Array, TensorTree
from moot.offchain.commitments.tree import Tree
from moot.offchain.programs.graph import Origin
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.task import Task


class Testimony(Protocol):
    """What one provider says of a task."""

    @property
    def task(self) -> Task:
        """What is agreed."""

    @property
    def behaviour(self) -> Behaviour:
        """What the provider does differently; whether it moves at all."""

    @property
    def history(self) -> Tree:
        """The tree over the claimed history: the state roots of all checkpoints."""

    def interval(self, first: int) -> Tree:
        """Return the tree over the states after the steps of the interval from `first` on."""

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of all operators of a step, and the state after it."""

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the tensors of the state before a step."""

    def tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        """Return an operator's output, or a slot of the state or batch, with its tree."""

    def operands(self, step: int, operator: int) -> Sequence[Array | None]:
        """Return the tensors that an operator reads, None for its constants."""

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the claimed accumulators of one element of a fold, the initial one first."""
