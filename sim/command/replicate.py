"""The command `moot replicate`: one training on two kinds of hardware, compared bit for bit."""

import json
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from offchain.replication.profiles import PROFILES
from sim.command import options

if TYPE_CHECKING:
    from offchain.replication.compare import Summary


def _describe_profiles() -> str:
    return options.list_choices("Profiles:", {row.name: row.like for row in PROFILES.values()})


@click.command(
    short_help="Train under two profiles and compare the bits.", epilog=_describe_profiles()
)
@click.option("--program", default="gpt2", show_default=True, help=options.PROGRAM_HELP)
@click.option("--size", default="tiny", show_default=True, help=options.SIZE_HELP)
@click.option(
    "--steps", type=click.IntRange(1), default=20, show_default=True, help="Steps to train."
)
@click.option("--trainer", default="native", show_default=True, help="The trainer's profile.")
@click.option("--auditor", default="old", show_default=True, help="The auditor's profile.")
@options.arithmetic
@options.seed
@options.as_json
def replicate(
    program: str,
    size: str,
    steps: int,
    trainer: str,
    auditor: str,
    arithmetic: str,
    seed: int,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Train under two profiles, first with stock torch and then in an arithmetic.

    Every profile is a process whose settings make this machine compute like another one. After each
    step the two states are compared, element by element.
    """
    from offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - only when it runs
    from offchain.replication.compare import Setting, compare, summarize  # noqa: PLC0415 - imports torch
    from offchain.replication.profiles import find_profile  # noqa: PLC0415 - likewise

    profiles = find_profile(trainer), find_profile(auditor)
    find_arithmetic(arithmetic)
    found: dict[str, Any] = {}
    with options.progress(quiet=as_json) as report:
        for name, chosen in (("without", None), ("with", arithmetic)):
            setting = Setting(program, size, steps, seed, chosen)
            done = []
            for step in compare(setting, *profiles):
                done.append(step)
                report(f"{name} {arithmetic}", len(done), steps)
            found[name] = _make_object(summarize(done))
    result = {
        "program": program,
        "size": size,
        "steps": steps,
        "seed": seed,
        "trainer": trainer,
        "auditor": auditor,
        "arithmetic": arithmetic,
        "differing_steps_without": found["without"]["differing_steps"],
        "differing_steps_with": found["with"]["differing_steps"],
        **found,
    }
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result)


def _make_object(summary: "Summary") -> dict[str, Any]:
    """Return the counts of a comparison: of the steps in all, of the rest after the last one."""
    last = summary.last
    return {
        "differing_steps": summary.differing_steps,
        "first_differing_step": summary.first_differing_step,
        "differing_tensors": last.tensors,
        "tensors": last.all_tensors,
        "differing_elements": last.elements,
        "elements": last.all_elements,
        "largest_difference": last.distance,
    }


def _show(result: dict[str, Any]) -> None:
    """Print the comparison for people."""
    console, rows = options.make_console(), (result["without"], result["with"])
    table = Table(
        "",
        "stock torch",
        result["arithmetic"],
        title=f"{result['trainer']} beside {result['auditor']}, {result['steps']} steps",
    )
    pairs = (("differing_tensors", "tensors"), ("differing_elements", "elements"))
    table.add_row("steps that differ", *(f"{row['differing_steps']:,}" for row in rows))
    for differing, whole in pairs:
        shown = (f"{row[differing]:,} of {row[whole]:,}" for row in rows)
        table.add_row(f"{whole} that differ after the last", *shown)
    table.add_row("largest difference", *(f"{row['largest_difference']:.3g}" for row in rows))
    console.print(table)
