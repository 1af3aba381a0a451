"""Behaviours: hooks by which a dishonest provider differs from an honest one.

A dishonest provider is the same worker with some of these hooks replaced, so that every cheat is
really played: with real tensors, real traces and real moves.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.programs.graph import Program
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.catalogue import HONEST

if TYPE_CHECKING:
    from moot.offchain.providers.cheats.drawing import Draws

Patch = Mapping[int, Callable[[Array], Array]]
"""For the index of a node: takes its output, returns the one that the provider goes on with."""


class Behaviour:
    """The honest behaviour, and the hooks that a dishonest one overrides.

    A cheat is a dataclass that inherits from it; its fields are its settings, and those that are
    None are drawn. Arrays that a hook is given are not its own: it returns others.

    Example:
        >>> from dataclasses import dataclass
        >>> import moot
        >>> @dataclass(eq=False)
        ... class Doubled(moot.Behaviour):
        ...     step: int = 1
        ...
        ...     def patch(self, step, state):
        ...         return {0: lambda output: output * 2} if step == self.step else None
        >>> Doubled(step=3).describe()
        'doubled:step=3'
    """

    name = HONEST
    """What reports call it; that of the class, where a subclass gives none."""

    plays = True
    """Whether the provider makes moves when its claim is disputed."""

    accomplice = ""
    """The cheat of a further provider, without which there is nothing to dispute."""

    posts_logs = False
    """Whether the provider writes the rounding logs that are agreed on."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def is_honest(self) -> bool:
        """Whether it is the honest behaviour."""
        return self.name == HONEST

    def draw(self, draws: "Draws") -> Self:
        """Return the behaviour with the settings that are left out drawn, fit for a task.

        Raises:
            UsageError: a setting is impossible with the task.
        """
        del draws
        return self

    def bind(self, program: Program) -> None:
        """Learn which program is run, before anything else."""

    def alter_program(self, program: Program) -> Program:
        """Return the program that is really run; it has the same operators."""
        return program

    def alter_state(self, step: int, state: Sequence[Array]) -> Sequence[Array]:
        """Return the state from which a step is really run."""
        del step
        return state

    def alter_batch(self, step: int, batch: Sequence[Array]) -> Sequence[Array]:
        """Return the batch that a step really gets."""
        del step
        return batch

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Return the rounding log by which a step is really computed."""
        del step
        return log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Return the rounding log that is agreed on, if the provider is the one who wrote it."""
        del step
        return log

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Return what to do to the outputs of a step's operators, if anything."""
        del step, state
        return None

    def alter_history(self, roots: Sequence[Digest]) -> Sequence[Digest]:
        """Return the history that is claimed, the state root of every checkpoint."""
        return roots

    def alter_trace(self, step: int, leaves: Sequence[Digest]) -> Sequence[Digest]:
        """Return the trace of a step that is claimed."""
        del step
        return leaves

    def alter_partials(self, step: int, operator: int, element: int, partials: Array) -> Array:
        """Return the accumulators of an element that are claimed."""
        del step, operator, element
        return partials

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return how many of a task's steps have to be run for what is claimed."""
        del checkpoint_every
        return steps

    def describe(self) -> str:
        """Return the behaviour with its settings, in the form that `--cheat` takes."""
        known = getattr(self, "__dataclass_fields__", {})
        values = {name: getattr(self, name) for name, field in known.items() if field.repr}
        settings = [
            f"{key}={value.hex() if isinstance(value, bytes) else value}"
            for key, value in values.items()
            if value is not None
        ]
        return ":".join(filter(None, (self.name, ",".join(settings))))
