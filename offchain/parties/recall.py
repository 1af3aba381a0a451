"""A run that is in memory only while somebody asks for more than its history.

A provider of many jobs needs the tensors of those alone that are disputed.
"""

from collections.abc import Callable, Sequence

from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, TensorTree
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.graph import Origin
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.task import Task
from moot.offchain.providers.testimony import Testimony


class Recalled:
    """The testimony of a run that was computed before; see Testimony.

    Args:
        roots: the claimed roots of all checkpoints.
        open_run: returns the run, from the disk.
    """

    def __init__(self, roots: Sequence[Digest], open_run: Callable[[], Testimony]) -> None:
        self.history = Tree(Tag.HISTORY_NODE, roots)
        self._open = open_run
        self._opened: Testimony | None = None

    def release(self) -> None:
        """Give the run's memory back, until somebody asks again."""
        self._opened = None

    @property
    def _run(self) -> Testimony:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def task(self) -> Task:
        """See Testimony."""
        return self._run.task

    @property
    def behaviour(self) -> Behaviour:
        """See Testimony."""
        return self._run.behaviour

    def interval(self, first: int) -> Tree:
        """See Testimony."""
        return self._run.interval(first)

    def trace(self, step: int) -> Tree:
        """See Testimony."""
        return self._run.trace(step)

    def state_tree(self, step: int) -> Tree:
        """See Testimony."""
        return self._run.state_tree(step)

    def tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        """See Testimony."""
        return self._run.tensor(step, origin, reference)

    def operands(self, step: int, operator: int) -> Sequence[Array | None]:
        """See Testimony."""
        return self._run.operands(step, operator)

    def partials(self, step: int, operator: int, element: int) -> Array:
        """See Testimony."""
        return self._run.partials(step, operator, element)
