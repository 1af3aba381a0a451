"""The agreement on a task: its program is captured, its data and its logs are agreed on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.programs.catalogue import is_file
from moot.offchain.programs.factors import check_factors
from moot.offchain.providers.batches import Choice
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import LOG_CHEATS
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.cheats.reading import read_cheat
from moot.offchain.providers.logs import agree_on_logs, write_logs
from moot.offchain.providers.setting import Setting, describe_example, load
from moot.offchain.providers.task import Task

if TYPE_CHECKING:
    from moot.offchain.frontend.capture import Captured
    from moot.offchain.frontend.recipe import Recipe


def make_task(
    setting: Setting, choice: Choice | None = None, recipe: "Recipe | None" = None
) -> Task:
    """Capture the program and agree on its data, and on its logs if it has any.

    Args and errors are those of `make_plain_task`.
    """
    return _with_logs(make_plain_task(setting, choice, recipe))


def make_plain_task(
    setting: Setting, choice: Choice | None = None, recipe: "Recipe | None" = None
) -> Task:
    """Capture the program and agree on its data; nothing is run for its logs.

    Args:
        setting: what is captured.
        choice: the batches that are made of a dataset, instead of the recipe's own.
        recipe: the recipe, where it is loaded already.

    Raises:
        UsageError: the dataset does not fit the program.
        CaptureError: there is no program of it, or a file's batches are others in a fresh process.
    """
    recipe = recipe or load(setting)
    if choice is None:
        captured = capture_named(setting, recipe)
        return agree_plainly(captured, captured.batch, setting.steps, setting.checkpoint_every)
    captured = _capture(setting, recipe)
    batch = choice.make_batches(captured.program.batch, setting.steps)
    return agree_plainly(captured, batch, setting.steps, setting.checkpoint_every)


def capture_named(setting: Setting, recipe: "Recipe") -> "Captured":
    """Return the program of a recipe that has a name.

    Raises:
        CaptureError: there is no program of it, or a file's batches are others in a fresh process.
    """
    from moot.offchain.frontend.capture.elsewhere import check_elsewhere  # noqa: PLC0415 - torch

    captured = _capture(setting, recipe)
    check_factors(captured.program)
    if is_file(setting.program):
        check_elsewhere(setting.program, setting.seed, captured.batch, captured.program.batch)
    return captured


def _capture(setting: Setting, recipe: "Recipe") -> "Captured":
    from moot.offchain.frontend.capture import capture  # noqa: PLC0415 - imports torch

    return capture(
        recipe,
        trust=setting.trust_capture,
        arithmetic=find_arithmetic(setting.arithmetic),
        example=describe_example(setting),
        backend=setting.backend,
    )


def agree(
    captured: "Captured", batch: Callable[[int], Sequence[Array]], steps: int, checkpoint_every: int
) -> Task:
    """Return the task of a captured program, with the logs that its arithmetic has."""
    return _with_logs(agree_plainly(captured, batch, steps, checkpoint_every))


def agree_plainly(
    captured: "Captured", batch: Callable[[int], Sequence[Array]], steps: int, checkpoint_every: int
) -> Task:
    """Return the task of a captured program, without logs."""
    return Task(captured.program, captured.initial_state, batch, steps, checkpoint_every)


def _with_logs(task: Task) -> Task:
    """Return a task with its logs, for which it is run, if its arithmetic has any."""
    is_logged = task.program.arithmetic == LOGGED
    return agree_on_logs(task, write_logs(task)) if is_logged else task


def post_logs(setting: Setting, task: Task) -> tuple[Setting, Task]:
    """Let a dishonest trainer post its logs: return what it was drawn to be, and the task then."""
    cheat = Behaviour() if setting.cheat == "none" else read_cheat(setting.cheat)
    if not cheat.posts_logs:
        return setting, task
    drawn, agreed = post_own_logs(cheat, task, setting.seed)
    is_named = drawn.name in LOG_CHEATS
    return replace(setting, cheat=drawn.describe() if is_named else drawn), agreed


def post_own_logs(cheat: Behaviour, task: Task, seed: int) -> tuple[Behaviour, Task]:
    """Return a cheat as it was drawn, and the task whose logs it has posted.

    Raises:
        UsageError: the task has no logs, or no room for the cheat.
    """
    if task.logs is None:
        raise UsageError(f"{cheat.name} needs logs of roundings; choose --arithmetic logged")
    drawn = cheat.draw(Draws(task, np.random.default_rng(seed)))
    posted = [drawn.post_log(step, log) for step, log in enumerate(task.logs)]
    return drawn, agree_on_logs(task, posted)
