"""`moot client`: post a job, see it to its end, and fetch its result."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import json_lines, party, setting_options
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.offchain.parties.context import PartyContext
    from moot.offchain.providers.batches import Choice
    from moot.offchain.providers.task import Task

NO_RESULT = STILL_OPEN = 3
MOST_BLOCKS = 2**20
_JOB = click.argument("job", type=click.IntRange(min=0))
_CHAIN = ("chain", "referee", "arithmetic")
_KEY = (*_CHAIN, "key", "password_from", "max_fee_gwei", "confirmations")
_PREMIUM = ("delivery", "premium", "premium_window")
_BLOCK_COUNT = click.IntRange(1, MOST_BLOCKS)
LEAST_CLOCK, CLOCK_S = 64, 100.0
"""The shortest clock that is chosen, in blocks, and what time it gives where blocks are fast."""


def _blocks(name: str, default: int, about: str) -> Callable[[options.Command], options.Command]:
    """Return an option for a time in blocks."""
    option = f"--{name}-blocks"
    return click.option(option, type=_BLOCK_COUNT, default=default, show_default=True, help=about)


@click.group(cls=Group, short_help="Post a job, see it to its end, and fetch its result.")
def client() -> None:
    """Post a job, see it to its end, and fetch its result."""


@client.command(short_help="Publish a task and open its job.")
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False))
@options.program("mlp", "tiny")
@options.length(16, 4)
@options.dataset
@options.seed
@click.option(
    "--trained",
    metavar="PLACE",
    help="Where a provider has trained it in `logged` by `moot train`, a folder or a URL: the logs "
    "are taken from there, and nothing is run here.",
)
@options.leaf
@click.option("--reward", type=float, default=0.1, show_default=True, help="In ETH.")
@click.option("--bond", type=float, default=1.0, show_default=True, help="In ETH.")
@_blocks("commit", 32, "Time to run and to commit.")
@_blocks("reveal", 16, "Time to show claims.")
@_blocks("window", 16, "Time to join late.")
@click.option(
    "--clock-blocks",
    type=_BLOCK_COUNT,
    help=f"Time of a side of a match.  [default: {LEAST_CLOCK}, and {CLOCK_S:g} seconds at least]",
)
@setting_options(*_KEY, "engine", "store", "verifier", "availability", "promise_bond", *_PREMIUM)
@json_lines
def post(
    folder: Path | None,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Publish a task to the store, and open its job; prints the job's number.

    The task is what FOLDER holds, which `moot program publish` has made: nothing of it is captured
    again, and --checkpoint-every alone is still to be chosen. Without FOLDER a program is captured;
    with --dataset its batches are made of a safetensors file, by a rule that is published instead
    of them. With --premium, whoever wins the job is paid for handing the result over: it can be
    demanded on the chain for --premium-window blocks.
    """
    from moot.offchain.disputes.referee.terms import Stakes  # noqa: PLC0415 - likewise
    from moot.offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.context import opened_context  # noqa: PLC0415 - likewise
    from moot.offchain.providers.setting import choose_leaf  # noqa: PLC0415 - imports numpy

    leaf, trained = given.pop("leaf"), given.pop("trained")
    chosen = {name: given.pop(name) for name in (*_CAPTURED, "checkpoint_every")}
    if folder is not None:
        _refuse_given(folder)
        if trained is not None:
            raise UsageError(f"{folder} holds the task already; leave --trained out, or the folder")
    choice = options.choose_dataset(given)
    money = {it: options.to_wei(given.pop(it), f"--{it}") for it in ("bond", "reward")}
    blocks = {f"{it}_blocks": given.pop(f"{it}_blocks") for it in _BLOCKS}
    with party(config, given, as_json=as_json) as (settings, tell):
        settings.require("store")
        if blocks["clock_blocks"] is None:
            blocks["clock_blocks"] = choose_clock(settings.block_seconds)
        stakes = Stakes(bond_wei=money["bond"], reward_wei=money["reward"], **blocks)
        leaf_mode = choose_leaf(leaf, settings.arithmetic)
        with opened_context(settings, tell) as context:
            if folder is None:
                task = _capture(settings.arithmetic, chosen, choice, context, trained)
            else:
                task = parties.read_task(folder, chosen["checkpoint_every"])
            parties.post(context, task, stakes, leaf_mode)


_CAPTURED = (
    *("program", "size", "precision", "inference", "data", "trust_capture", "seed"),
    "steps",
)
"""Options that say what to capture."""
_BLOCKS = ("commit", "reveal", "window", "clock")


def choose_clock(block_seconds: float) -> int:
    """Return a clock, in blocks, in which providers can answer: that takes time, not blocks."""
    return max(LEAST_CLOCK, math.ceil(CLOCK_S / max(block_seconds, 1e-3)))


def _refuse_given(folder: Path) -> None:
    """Refuse options that say what to capture, if nothing is captured."""
    context = click.get_current_context()
    for name in (*_CAPTURED, *options.DATASET):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{folder} holds the task already; leave {option} out, or the folder")


def _capture(
    arithmetic: str,
    chosen: dict[str, Any],
    choice: "Choice | None",
    context: "PartyContext",
    trained: str | None,
) -> "Task":
    """Capture the program that was chosen, with a dataset or a provider's logs if they were."""
    from moot.offchain.datastore.store import open_store  # noqa: PLC0415 - imports numpy
    from moot.offchain.providers.agreement import make_plain_task, make_task  # noqa: PLC0415 - torch
    from moot.offchain.providers.setting import Setting  # noqa: PLC0415 - imports torch
    from moot.offchain.training.claim import adopt_logs, get_claim  # noqa: PLC0415 - imports numpy

    steps = options.check_steps(chosen.pop("steps"), inference=chosen["inference"])
    every = options.choose_interval(chosen.pop("checkpoint_every"), 4, steps)
    setting = Setting(steps=steps, checkpoint_every=every, arithmetic=arithmetic, **chosen)
    if trained is None:
        return make_task(setting, choice)
    if arithmetic != "logged":
        raise UsageError(f"programs in `{arithmetic}` have no logs; leave --trained out")
    store = open_store(trained, context.folder / "trained")
    claim = get_claim(store)
    return adopt_logs(make_plain_task(setting, choice), store, claim)


@client.command(short_help="Say where a job stands.")
@_JOB
@setting_options(*_CHAIN, "delivery")
@json_lines
def status(job: int, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Say where JOB stands."""
    from moot.offchain.parties.context import opened_context  # noqa: PLC0415 - imports the chain

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_context(settings, tell, signs=False) as context,
    ):
        view = context.view(job)
        known, name = view.tournament, view.job.status.name.lower()
        claims, matches = len(known.get_claims()), len(known.boards)
        line = f"job {job}: {name}, {claims} claims, {matches} matches, block {view.block - 1}"
        tell("status", line, job=job, status=name, claims=claims, matches=matches)
        if settings.delivery:
            from moot.offchain.parties.buying import tell_premium  # noqa: PLC0415 - likewise
            from moot.offchain.parties.deliveries import Deliveries  # noqa: PLC0415 - likewise

            if (found := Deliveries(context).look(job, view.job)) is not None:
                tell_premium(context, job, found)


@client.command("await", short_help="See a job to its end.")
@_JOB
@setting_options(*_KEY, "store", "folder", "availability", "delivery")
@json_lines
def await_(job: int, config: Path | None, as_json: bool, **given: Any) -> int:  # noqa: FBT001 - click
    """See JOB to its end: begin the matches that are needed, end those nobody plays, settle.

    If --availability has a promise about JOB, what is demanded of it is shown meanwhile. If
    --delivery has a premium for its result, a line says how that stands.

    Exits with 0 when a claim has won, 3 when none has.
    """
    from moot.contracts.reasons import Status  # noqa: PLC0415 - seldom needed
    from moot.offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.context import opened_context  # noqa: PLC0415 - likewise

    is_won = False
    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_context(settings, tell) as context,
    ):
        is_won = parties.await_end(context, job) is Status.WON
    return 0 if is_won else NO_RESULT


@client.command(short_help="End what can be ended in a job, and take what is owed.")
@_JOB
@setting_options(*_KEY, "store", "folder", "availability", "delivery")
@json_lines
def settle(job: int, config: Path | None, as_json: bool, **given: Any) -> int:  # noqa: FBT001 - click
    """End what can be ended in JOB now, and take the money that it owes this account.

    Matches whose clocks have run out are ended, the job is settled if its windows are over, what is
    owed is collected, and so are the bond of a promise that was kept and a premium that nobody has
    earned; a result that nobody has promised is called for; nothing is waited for. Exits with 0 if
    the job is closed, 3 if it is still open: then `moot client await` sees it to its end.
    """
    from moot.contracts.reasons import Status  # noqa: PLC0415 - seldom needed
    from moot.offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.context import opened_context  # noqa: PLC0415 - likewise

    is_open = True
    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_context(settings, tell) as context,
    ):
        is_open = parties.settle(context, job) is Status.OPEN
    return STILL_OPEN if is_open else 0


@client.command(short_help="Fetch the final state of a job.")
@_JOB
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@setting_options(*_KEY, "store", "results", "delivery", "demand_budget", "stand_in_blocks")
@json_lines
def fetch(
    job: int,
    folder: Path,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Fetch the final state of JOB into FOLDER, verified against the claim that has won.

    With --demand-budget, a result that nobody serves is demanded on the chain, a deposit for each
    256 bytes, if there is a premium for it. If it is not shown in time, the premium comes back.
    """
    from moot.offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.context import opened_context  # noqa: PLC0415 - likewise
    from moot.offchain.parties.settings import split_list  # noqa: PLC0415 - likewise

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_context(settings, tell, signs=settings.demand_budget > 0) as context,
    ):
        if not settings.demand_budget:
            settings.require("results")
        parties.fetch(context, job, folder, split_list(settings.results))
