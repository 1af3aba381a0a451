"""Tasks: a recipe is captured as a program, and its length is agreed on."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from moot.display import Displayable
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.programs.factors import check_factors
from moot.offchain.providers.agreement import (
    agree,
    agree_plainly,
    capture_named,
    post_own_logs,
)
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.setting import Setting, load
from moot.offchain.providers.task import Task as Agreed
from moot.offchain.providers.task import check_interval

if TYPE_CHECKING:
    from moot.offchain.frontend.capture import Captured
    from moot.offchain.frontend.recipe import Recipe


def capture(
    program: "Recipe | str",
    *,
    arithmetic: str = "ordered",
    precision: str = "fp32",
    trust: bool = False,
    size: str = "tiny",
    seed: int = 0,
    data: Path | None = None,
    inference: bool = False,
) -> "Captured":
    """Return the program of one step of a recipe, its start state and its batches.

    Args:
        program: a recipe that is held in memory; an example's name, such as `mlp` or `gpt2`; or
            `path/to/file.py:function`, whose function takes the seed and returns a recipe.
        arithmetic: `ordered` (float32 in a fixed order), `exact` (sums are rounded once),
            `logged` (float64, whose roundings a log decides), or `hopper` or `ampere` (products of
            bfloat16 as these tensor cores compute them).
        precision: `fp32`, `bf16` for a model under autocast, or `int8` for linear layers of int8
            weights, with `inference`.
        trust: whether to leave out the comparison with eager torch.
        size: `tiny`, `small` or `full`; of an example.
        seed: of an example, or of the function of a file.
        data: the text of an example that is a language model.
        inference: an example's forward pass instead of its training.

    Returns:
        `program`, `initial_state` (arrays of the shapes of parameters, buffers and the optimizer's
        state, in the order of `program.state`), `batch(step)`, and `is_rehearsed`.

    Raises:
        CaptureError: the model does something that a program cannot express.
        UsageError: there is no such program, or the recipe makes no sense.

    Example:
        >>> import moot
        >>> captured = moot.capture("mlp")
        >>> captured.is_rehearsed, captured.program.state[0].name
        (True, 'parameter.1.weight')
    """
    from moot.offchain.frontend.capture import capture as capture_step  # noqa: PLC0415 - torch
    from moot.offchain.frontend.precision import set_precision  # noqa: PLC0415 - likewise

    setting = Setting(
        program=program if isinstance(program, str) else "",
        size=size,
        seed=seed,
        data=data,
        inference=inference,
        precision=precision,
        arithmetic=arithmetic,
        trust_capture=trust,
    )
    if isinstance(program, str):
        return capture_named(setting, load(setting))
    recipe = set_precision(program, precision)
    captured = capture_step(recipe, trust=trust, arithmetic=find_arithmetic(arithmetic))
    check_factors(captured.program)
    return captured


@dataclass(frozen=True)
class Task(Displayable):
    """A task: a program, its start, its data and its length, on which all providers agree.

    Attributes:
        captured: what `moot.capture` returns; a recipe or a name is captured.
        steps: how many are run; an inference has 1.
        checkpoint_every: steps from one committed state to the next, from 1 to `steps`.

    Raises:
        UsageError: there are no steps, or the interval does not fit them.

    Example:
        >>> import moot
        >>> task = moot.Task(moot.capture("mlp"), steps=2, checkpoint_every=1)
        >>> task.agreed.checkpoints, len(task.program_root)
        ((1, 2), 32)
    """

    captured: "Captured | Recipe | str" = field(repr=False)
    steps: int
    checkpoint_every: int = 1

    def __post_init__(self) -> None:
        check_interval(self.checkpoint_every, self.steps)
        from moot.offchain.frontend.capture import Captured  # noqa: PLC0415 - imports torch

        if not isinstance(self.captured, Captured):
            object.__setattr__(self, "captured", capture(self.captured))

    @cached_property
    def agreed(self) -> Agreed:
        """The task as providers and the referee have it, with its commitments."""
        captured = self._get_captured()
        return agree(captured, captured.batch, self.steps, self.checkpoint_every)

    @cached_property
    def plain(self) -> Agreed:
        """The task without rounding logs: what is agreed on before anybody has trained."""
        captured = self._get_captured()
        return agree_plainly(captured, captured.batch, self.steps, self.checkpoint_every)

    @property
    def program_root(self) -> bytes:
        """The root of the program: 32 bytes."""
        return self.agreed.commitment.header.root

    @property
    def is_compared(self) -> bool:
        """Whether the program was compared with eager torch."""
        return self._get_captured().is_rehearsed

    def _get_captured(self) -> "Captured":
        return cast("Captured", self.captured)

    def post_logs(self, cheat: Behaviour, seed: int = 0) -> "tuple[Task, Behaviour]":
        """Return the task with the rounding logs that a cheat posts, and the cheat as it was drawn.

        Args:
            cheat: one of whoever writes the logs of a program in `logged`.
            seed: of what the cheat leaves to be drawn.

        Raises:
            UsageError: the program has no logs.
        """
        drawn, agreed = post_own_logs(cheat, self.agreed, seed)
        task = replace(self)
        task.__dict__["agreed"] = agreed
        return task, drawn

    def to_dict(self) -> dict[str, object]:
        """Return the roots that everybody agrees on, in hexadecimal, and the length."""
        agreed = self.agreed
        return {
            "program": self.program_root.hex(),
            "start": agreed.start_root.hex(),
            "data": agreed.data_root.hex(),
            "arithmetic": str(agreed.program.arithmetic),
            "operators": len(agreed.program.nodes),
            "steps": self.steps,
            "checkpoint_every": self.checkpoint_every,
        }
