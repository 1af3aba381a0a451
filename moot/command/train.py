"""`moot train`: train in a folder, and claim what has come out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moot.command import options
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.offchain.providers.task import Task

OWN, PUBLISHED = "own", "published"
_PLANNED = ("program", "size", "precision", "seed", "steps", "checkpoint_every")
_NOT_PUBLISHED = (
    *("inference", "data", "arithmetic", "trust_capture"),
    *("backend", "engine", "workers"),
)
_CAPTURED = (
    *("program", "size", "precision", "inference", "data", "trust_capture", "steps"),
    *("checkpoint_every", "arithmetic", "seed"),
)


@click.command(
    short_help="Train in a folder, and claim what has come out.",
    epilog="\b\n"
    "Examples:\n"
    "  moot train run --program gpt2 --steps 100 --checkpoint-every 10\n"
    "  moot train run                                   (goes on where it was)\n"
    "  moot audit run                                   (on this or another machine)",
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@options.program("mlp", "tiny")
@options.length(16, 4)
@options.dataset
@options.arithmetic
@click.option(
    "--method",
    default=OWN,
    show_default=True,
    help="own; or published: stock torch in binary64 with a log of all roundings, as in arXiv "
    "2403.09603, to measure it (examples and files, no dataset).",
)
@click.option(
    "--cheat",
    default="",
    help="What to do otherwise than agreed, to try an audit; `moot dispute --help` lists cheats.",
)
@options.backend
@options.engine
@options.workers
@options.seed
@options.as_json
def train(folder: Path, **given: Any) -> None:
    """Train in FOLDER, and write what another machine needs to audit it.

    That is the program, its start, its data, the state of every checkpoint, the rounding logs of
    `--arithmetic logged`, and the claim, whose digest is printed. Nothing of it has to be believed.
    A training that was stopped goes on from its last checkpoint, by `moot train FOLDER` alone (and
    --method published, if it was trained so).

    `moot store serve FOLDER` shows it to others, and `moot audit` runs it again.
    """
    from moot.offchain.providers.store import Store  # noqa: PLC0415 - imports numpy
    from moot.offchain.training.trainer import PLAN  # noqa: PLC0415 - likewise
    from moot.trainings import train_agreed  # noqa: PLC0415 - likewise

    as_json, backend = given.pop("as_json"), given.pop("backend")
    engine, workers = given.pop("engine"), given.pop("workers")
    cheat, seed = given.pop("cheat"), given["seed"]
    method = given.pop("method")
    if method != OWN:
        _train_as_published(folder, method, given, cheat, as_json=as_json)
        return
    task = None
    if (folder / "notes").is_dir() and Store(folder).has_note(PLAN):
        _refuse_given(folder)
    else:
        task = _capture(given, backend)
    with options.progress(quiet=as_json) as report:
        done = train_agreed(
            folder,
            task,
            cheat or None,
            seed=seed,
            threads=None,
            backend=backend,
            engine=engine,
            workers=workers,
            progress=lambda count, whole: report("training", count, whole),
        )
    result = done.to_dict()
    if as_json:
        click.echo(json.dumps(result, indent=2))
        return
    console = options.make_console()
    console.print(
        f"{done.steps:,} steps are in {folder}, a checkpoint after every {done.checkpoint_every:,}"
    )
    console.print(f"claim    {result['claim']}")
    console.print(f"history  {result['history']}")


def _train_as_published(
    folder: Path, method: str, given: dict[str, Any], cheat: str, *, as_json: bool
) -> None:
    """Train by the published method."""
    from moot.offchain.training import published  # noqa: PLC0415 - imports torch

    if method != PUBLISHED:
        raise UsageError.unknown("method", method, (OWN, PUBLISHED))
    context = click.get_current_context()
    for name in _NOT_PUBLISHED:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"--method published has no {option}: stock torch computes")
    if options.choose_dataset(given) is not None:
        raise UsageError("--method published takes the recipe's own batches, and no --dataset")
    known = published.Published.read(folder)
    steps = options.check_steps(given["steps"], inference=False)
    every = options.choose_interval(given["checkpoint_every"], 4, steps)
    program, size, precision = (given[name] for name in ("program", "size", "precision"))
    plan = published.Plan(program, size, precision, given["seed"], steps, every)
    if known is not None and not _is_given(_PLANNED):
        plan = known.plan
    dishonesty = published.read_dishonesty(cheat)
    with options.progress(quiet=as_json) as report:
        done = published.train(
            folder, plan, dishonesty, lambda count, whole: report("training", count, whole)
        )
    result = {"folder": str(folder), "claim": done.claim.hex(), "steps": plan.steps}
    if as_json:
        click.echo(json.dumps(result | {"checkpoint_every": plan.checkpoint_every}, indent=2))
    else:
        click.echo(f"{plan.steps:,} steps are in {folder}, as published")
        click.echo(f"claim    {result['claim']}")


def _is_given(names: Sequence[str]) -> bool:
    """Return whether one of these options was given."""
    context = click.get_current_context()
    return any(context.get_parameter_source(it) is not ParameterSource.DEFAULT for it in names)


def _refuse_given(folder: Path) -> None:
    """Refuse options that say what to train, where something is trained already."""
    context = click.get_current_context()
    for name in (*_CAPTURED, *options.DATASET, "cheat", "method"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{folder} holds a training already; leave {option} out to go on, or choose another"
            )


def _capture(given: dict[str, Any], backend: str) -> "Task":
    """Return what is to be trained."""
    from moot.offchain.providers.agreement import make_plain_task  # noqa: PLC0415 - imports torch
    from moot.offchain.providers.setting import (  # noqa: PLC0415 - imports torch
        Setting,
        describe_backends,
    )

    choice = options.choose_dataset(given)
    steps = options.check_steps(given.pop("steps"), inference=given["inference"])
    every = options.choose_interval(given.pop("checkpoint_every"), 4, steps)
    setting = Setting(steps=steps, checkpoint_every=every, backend=backend, **given)
    options.announce(describe_backends(setting))
    return make_plain_task(setting, choice)
