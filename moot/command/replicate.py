"""The command `moot replicate`: one training on two kinds of hardware, compared bit for bit."""

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options
from moot.offchain.errors import UsageError
from moot.offchain.replication.profiles import ALL_PROFILES, find_profile, list_offered

if TYPE_CHECKING:
    from moot.offchain.replication.compare import Summary
    from moot.offchain.replication.outcome import Outcome


def _describe_profiles() -> str:
    return options.list_choices("Profiles:", {row.name: row.like for row in ALL_PROFILES.values()})


@click.command(
    short_help="Train under two profiles and compare the bits.", epilog=_describe_profiles()
)
@click.option("--program", default="gpt2", show_default=True, help=options.PROGRAM_HELP)
@click.option("--size", default="tiny", show_default=True, help=options.SIZE_HELP)
@click.option(
    "--steps", type=click.IntRange(1), default=20, show_default=True, help="Steps to train."
)
@click.option("--trainer", default="native", show_default=True, help="The trainer's profile.")
@click.option("--auditor", help="The auditor's profile; by default one unlike the trainer's.")
@options.arithmetic
@click.option(
    "--method",
    default="proven",
    show_default=True,
    help="How `logged` logs: proven (a bound of the error decides) or published.",
)
@options.precision
@options.seed
@options.as_json
def replicate(
    program: str,
    size: str,
    steps: int,
    trainer: str,
    auditor: str | None,
    arithmetic: str,
    method: str,
    precision: str,
    seed: int,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Train under two profiles, first with stock torch and then in an arithmetic.

    Every profile is a process whose settings make this machine compute like another one. After each
    step the two states are compared, element by element. Ratios are of seconds: a step of the
    trainer, or of the auditor, over one of stock torch in binary64 or in binary32.
    """
    from moot.offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - only when it runs
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise
    from moot.offchain.replication.compare import Setting, compare, summarize  # noqa: PLC0415 - imports torch
    from moot.offchain.replication.prints import list_differing  # noqa: PLC0415 - likewise
    from moot.offchain.replication.replicate import METHODS, replicate  # noqa: PLC0415 - likewise

    first = find_profile(trainer)
    second = find_profile(auditor or _choose_other(trainer))
    found = find_arithmetic(arithmetic)
    if method not in METHODS:
        raise UsageError.unknown("method", method, METHODS)
    for profile in (first, second):
        describe_backend(profile.backend, found)  # refuses what it does not compute
    differing = list_differing(first, second) if found.has_engines else None
    if differing == []:
        options.warn([f"{first.name} and {second.name} compute alike here in binary64"])
    setting = Setting(program, size, steps, seed, precision=precision)
    with options.progress(quiet=as_json) as report:
        done = []
        for step in compare(setting, first, second):
            done.append(step)
            report("without", len(done), steps)
        stock = summarize(done)
        chosen = replace(setting, arithmetic=arithmetic)
        outcome = replicate(
            chosen, first, second, method, lambda count: report(f"with {arithmetic}", count, steps)
        )
    asked = {
        "program": program,
        "size": size,
        "seed": seed,
        "trainer": first.name,
        "auditor": second.name,
        "arithmetic": arithmetic,
        "precision": precision,
        "method": method if arithmetic == "logged" else None,
        "differing_binary64": differing,
    }
    result = asked | _make_object(stock, outcome)
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result)


def _choose_other(trainer: str) -> str:
    """Return a profile that differs from the trainer's most, of those that there are."""
    offered = [row.name for row in list_offered()]
    preferred = ("old", "split", "native")
    return next(name for name in preferred if name in offered and name != trainer)


def _make_object(stock: "Summary", outcome: "Outcome") -> dict[str, Any]:
    """Return the counts of both; of the state without an arithmetic those after the last step."""
    last = stock.last
    return {
        "steps": outcome.steps,
        "differing_steps_without": stock.differing_steps,
        "differing_steps_with": outcome.differing_steps,
        "corrections": outcome.corrections,
        "log_bytes_per_step": outcome.log_bytes_per_step,
        "steerable_share": outcome.steerable_share,
        "trainer_over_binary64": outcome.trainer_over_binary64,
        "auditor_over_binary64": outcome.auditor_over_binary64,
        "over_binary32": outcome.over_binary32,
        "first_differing_step_without": stock.first_differing_step,
        "first_differing_step_with": outcome.first_differing_step,
        "without": {
            "differing_tensors": last.tensors,
            "tensors": last.all_tensors,
            "differing_elements": last.elements,
            "elements": last.all_elements,
            # JSON has no infinite numbers.
            "largest_difference": last.distance if math.isfinite(last.distance) else None,
        },
    }


def _show(result: dict[str, Any]) -> None:
    """Print the comparison for people."""
    table = Table(
        "",
        "",
        title=f"{result['trainer']} beside {result['auditor']}, {result['steps']} steps",
        show_header=False,
    )
    last = result["without"]
    name = " ".join(filter(None, (result["arithmetic"], result["method"])))
    table.add_row("steps that differ with stock torch", f"{result['differing_steps_without']:,}")
    for whole in ("tensors", "elements"):
        shown = f"{last[f'differing_{whole}']:,} of {last[whole]:,}"
        table.add_row(f"{whole} that differ after the last", shown)
    largest = last["largest_difference"]
    table.add_row("largest difference", "not finite" if largest is None else f"{largest:.3g}")
    table.add_section()
    if (differing := result["differing_binary64"]) is not None:
        table.add_row("binary64 that differs", ", ".join(differing) or "none: both compute alike")
    table.add_row(f"steps that differ with {name}", f"{result['differing_steps_with']:,}")
    table.add_row("corrections by the auditor", f"{result['corrections']:,}")
    table.add_row("bytes of a step's log", f"{result['log_bytes_per_step']:,.0f}")
    table.add_row("share of roundings that can be steered", f"{result['steerable_share']:.2g}")
    for key, label in (
        ("trainer_over_binary64", "trainer over stock binary64"),
        ("auditor_over_binary64", "auditor over stock binary64"),
        ("over_binary32", "trainer over stock binary32"),
    ):
        table.add_row(label, "unknown" if result[key] is None else f"{result[key]:.2f}")
    options.make_console().print(table)
