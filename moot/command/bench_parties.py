"""`moot bench parties`: what it costs to be a party of jobs."""

import json
from typing import Any

import click
from rich.table import Table

from moot.command import options
from moot.command.ending import until_terminated
from moot.offchain.errors import MootError

_MOST = 64


@click.command(short_help="Measure providers as processes of their own.")
@click.option("--providers", type=click.IntRange(1, _MOST), default=2, show_default=True)
@click.option("--jobs", type=click.IntRange(1, _MOST), default=1, show_default=True)
@click.option("--block-seconds", type=click.FloatRange(0.05, 60), default=0.5, show_default=True)
@click.option(
    "--commit-blocks",
    type=click.IntRange(1, 2**20),
    default=32,
    show_default=True,
    help="Time to run and to commit; all other clocks are those of `moot client post`.",
)
@options.as_json
def parties(
    providers: int,
    jobs: int,
    block_seconds: float,
    commit_blocks: int,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Measure providers as processes: requests, bytes, gas, memory, time from post to settled.

    On a node for development, which counts what each of them asks. The first of several cheats in
    all jobs; the jobs are posted one after another, and played at once.
    """
    from moot.bench.parties import measure_parties  # noqa: PLC0415 - imports the chain
    from moot.offchain.disputes.referee.terms import Stakes  # noqa: PLC0415 - imports numpy

    found = None
    with until_terminated():
        found = measure_parties(providers, jobs, block_seconds, Stakes(commit_blocks=commit_blocks))
    if found is None:
        raise MootError("ended before all was measured")
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    console = options.make_console()
    table = Table(
        *("provider", "idle requests a block", "busy", "idle questions a block", "busy"),
        *(
            "questions a transaction",
            "RPC, MB",
            "transactions",
            "gas",
            "peak, MB",
            "its computing, MB",
        ),
        title="providers",
    )
    for it in found["parties"]:
        table.add_row(
            it["party"],
            f"{it['idle_requests_a_block']:.2f}",
            f"{it['busy_requests_a_block']:.2f}",
            f"{it['idle_questions_a_block']:.2f}",
            f"{it['busy_questions_a_block']:.2f}",
            f"{it['questions_a_transaction']:.1f}",
            f"{it['rpc_bytes'] / 1e6:.2f}",
            str(it["transactions"]),
            f"{it['gas']:,}",
            f"{it['peak_bytes'] / 1e6:.0f}",
            f"{it['computing_peak_bytes'] / 1e6:.0f}",
        )
    console.print(table)
    table = Table(
        *("provider", "matches", "at once", "answers", "blocks to an answer: mean", "worst"),
        "missed clocks",
        title="matches",
    )
    for it in found["parties"]:
        table.add_row(
            it["party"],
            str(it["matches"]),
            str(it["most_matches"]),
            str(it["answers"]),
            f"{it['mean_answer_blocks']:.2f}",
            str(it["worst_answer_blocks"]),
            str(it["missed_clocks"]),
        )
    console.print(table)
    names = ("job", "status", "meetings", "defeated", "missed_claims", "blocks")
    rows = Table(*(name.replace("_", " ") for name in names), "seconds", title="jobs")
    for it in found["jobs"]:
        rows.add_row(*(str(it[name]) for name in names), f"{it['seconds']:.0f}")
    console.print(rows)
    console.print(
        f"{len(found['jobs'])} jobs in {found['blocks']} blocks, {found['seconds']:.0f} s: "
        f"{found['jobs_per_minute']:.2f} a minute, {found['missed_claims']} claims "
        f"and {found['missed_clocks']} clocks missed"
    )
