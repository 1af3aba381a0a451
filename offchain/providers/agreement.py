"""The agreement on a task: its program is captured, its data and its logs are agreed on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.programs.catalogue import NAMES
from moot.offchain.providers.batches import Choice
from moot.offchain.providers.catalogue import LOG_CHEATS
from moot.offchain.providers.cheats import make_cheat, parse_cheat
from moot.offchain.providers.logs import agree_on_logs, write_logs
from moot.offchain.providers.setting import Setting, describe_example, load
from moot.offchain.providers.task import Task

if TYPE_CHECKING:
    from moot.offchain.frontend.recipe import Recipe


def make_task(
    setting: Setting, choice: Choice | None = None, recipe: "Recipe | None" = None
) -> Task:
    """Capture the program and agree on its data.

    Args:
        setting: what is captured.
        choice: the batches that are made of a dataset, instead of the recipe's own.
        recipe: the recipe, where it is loaded already.

    Raises:
        UsageError: the dataset does not fit the program.
        CaptureError: there is no program of it, or a file's batches are others in a fresh process.
    """
    from moot.offchain.frontend.capture import capture  # noqa: PLC0415 - imports torch
    from moot.offchain.frontend.capture.elsewhere import check_elsewhere  # noqa: PLC0415 - likewise

    recipe = recipe or load(setting)
    arithmetic = find_arithmetic(setting.arithmetic)
    captured = capture(
        recipe,
        trust=setting.trust_capture,
        arithmetic=arithmetic,
        example=describe_example(setting),
        backend=setting.backend,
    )
    batch: Callable[[int], Sequence[Array]] = captured.batch
    if choice is None and setting.program not in NAMES:
        check_elsewhere(setting.program, setting.seed, captured.batch, captured.program.batch)
    if choice is not None:
        batch = choice.make_batches(captured.program.batch, setting.steps)
    task = Task(
        captured.program,
        captured.initial_state,
        batch,
        setting.steps,
        setting.checkpoint_every,
    )
    return agree_on_logs(task, write_logs(task)) if arithmetic == LOGGED else task


def post_logs(setting: Setting, task: Task) -> tuple[Setting, Task]:
    """Let a dishonest trainer post its logs: return what it was drawn to be, and the task then."""
    name, _ = parse_cheat(setting.cheat) if setting.cheat != "none" else ("none", {})
    if name not in LOG_CHEATS:
        return setting, task
    if task.logs is None:
        raise UsageError(f"{name} needs logs of roundings; choose --arithmetic logged")
    cheat = make_cheat(setting.cheat, task, np.random.default_rng(setting.seed))
    posted = [cheat.post_log(step, log) for step, log in enumerate(task.logs)]
    return replace(setting, cheat=cheat.describe()), agree_on_logs(task, posted)
