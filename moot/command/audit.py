"""`moot audit`: run a claimed training again, and compare the states bit for bit."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options

if TYPE_CHECKING:
    from moot.offchain.parties.settings import Settings
    from moot.trainings import Audit

DIFFERS = 3


@click.command(
    short_help="Run a claimed training again, and compare the bits.",
    epilog="\b\n"
    "Examples:\n"
    "  moot audit run\n"
    "  moot audit http://127.0.0.1:8080 --claim 8f3a… --share 0.1 --folder audit\n"
    "  moot audit run --interval 3",
)
@click.argument("place")
@click.option("--claim", help="What names the claim  [default: the only one that is there].")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    help="Run a drawn share of the intervals again  [default: all].",
)
@click.option(
    "--interval",
    "intervals",
    type=click.IntRange(0),
    multiple=True,
    help="Run this interval again, from the trainer's checkpoint before it; the first one is 0.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, options.MAX_SEED),
    help="What intervals are drawn from  [default: what nobody can know].",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep here what comes from elsewhere, and what was audited, and go on from there.",
)
@click.option(
    "--program",
    help="What was trained by the published method, if it is no example: its code runs on this "
    "machine, with all that you may do.",
)
@click.option(
    "--challenge",
    type=click.IntRange(0),
    metavar="JOB",
    help="If something differs, take it to the chain: join JOB, which is about this training, with "
    "the right claim, and defend that to the end.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The settings of who challenges, as `moot watch` has them: chain, referee, key, store.",
)
@options.backend
@options.engine
@options.as_json
def audit(
    place: str,
    claim: str | None,
    share: float | None,
    intervals: tuple[int, ...],
    seed: int | None,
    folder: Path | None,
    program: str | None,
    challenge: int | None,
    config: Path | None,
    backend: str,
    engine: str,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> int:
    """Run the training at PLACE again, and compare its states with those that were claimed.

    PLACE is a folder of `moot train`, or an address at which `moot store serve` shows one. Nothing
    of it is believed: every object is verified against the claim. An interval is run from the
    checkpoint before it, so that a share of them, or a single one, can be audited by itself.

    Exits with 0 when all that was run again is as claimed, 3 when it is not. Then the first
    difference is printed: the interval's steps, the tensor, its element, and both of its values.
    With --challenge a difference is taken to the chain, and who has claimed it there loses its
    bond; what happens is told on stderr.
    """
    from moot.trainings import audit as audit_training  # noqa: PLC0415 - imports numpy

    computing = {"backend": backend, "engine": engine}
    settings = None if challenge is None else _read_settings(config, computing)
    with options.progress(quiet=as_json) as report:
        found = audit_training(
            place,
            claim=claim,
            intervals=intervals or None,
            share=share,
            seed=seed,
            folder=folder,
            program=program,
            backend=backend,
            engine=engine,
            progress=lambda done, whole: report("auditing", done, whole),
        )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found)
    if found.is_right:
        return 0
    if challenge is not None and settings is not None:
        _challenge(settings, challenge, place, found.claim)
    return DIFFERS


def _read_settings(config: Path | None, given: dict[str, str]) -> "Settings":
    """Return the settings of who challenges, before anything slow begins."""
    from moot.offchain.parties.settings import read_settings  # noqa: PLC0415 - seldom needed

    settings = read_settings(config, given)
    settings.require("chain", "referee", "key", "store")
    return settings


def _challenge(settings: "Settings", job_id: int, place: str, digest: bytes) -> None:
    """Take what differs to the chain, and say how that ends."""
    from moot.command.ending import until_terminated  # noqa: PLC0415 - seldom needed
    from moot.offchain.datastore.store import open_store  # noqa: PLC0415 - likewise
    from moot.offchain.parties.challenger import challenge  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.events import Lines  # noqa: PLC0415 - likewise
    from moot.offchain.training.claim import get_claim  # noqa: PLC0415 - likewise

    with TemporaryDirectory(prefix="moot-") as kept, until_terminated():
        claim = get_claim(open_store(place, kept), digest)
        has_won = challenge(settings, Lines(as_json=False, stream=sys.stderr), job_id, claim)
        word = "has won" if has_won else "has no claim that has won"
        click.echo(f"job {job_id} is over: this auditor {word}", err=True)


def _show(found: "Audit") -> None:
    """Print what was found, for people."""
    console = options.make_console()
    word = "is as claimed" if found.is_right else "differs"
    console.print(
        f"claim {found.claim.hex()} {word}: {len(found.intervals):,} of {found.of:,} intervals, "
        f"{found.steps:,} steps"
    )
    if found.corrections or found.void:
        console.print(
            f"the logs turned {found.corrections:,} roundings of this machine; "
            f"{found.void:,} of their entries mean nothing"
        )
    if (place := found.difference) is None:
        return
    table = Table("", "", title="The first difference", show_header=False)
    table.add_row("steps", f"{place.first_step} to {place.last_step}")
    if place.tensor is None:
        table.add_row("state", "the trainer has not kept the one that it claims")
    else:
        table.add_row("tensor, element", f"{place.tensor}, {place.element:,}")
        table.add_row("claimed", place.claimed)
        table.add_row("found here", place.found)
        table.add_row("that differ", f"{place.tensors:,} tensors, {place.elements:,} elements")
    console.print(table)
