"""`moot demo`: one dispute, told move by move."""

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from moot.command import options
from moot.command.ledger import make_ledger_table
from moot.command.wording import describe_capture, describe_place, describe_scalar
from moot.sim.scratch import open_room

if TYPE_CHECKING:
    from moot.disputing import Dispute

PROGRAM, SIZE = "gpt2", "small"
STEPS, CHECKPOINT_EVERY = 8, 4
CHEAT = "wrong-output:step=6,operator=mm_17"
ROOM_BYTES = 1 << 30
"""Room that the demo's stores ask for: more than its checkpoints take."""


@click.command(short_help="Watch a dispute, move by move.")
@options.chain
@options.seed
@options.as_json
def demo(chain: str, seed: int, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Two providers train a GPT-2; one of them flips a single bit somewhere inside.

    The referee contract finds the one wrong scalar operation, computes it, and slashes the liar.
    """
    from moot.command.narrator import Narrator  # noqa: PLC0415 - likewise
    from moot.offchain.providers.setting import Setting  # noqa: PLC0415 - likewise
    from moot.session import prepare  # noqa: PLC0415 - likewise

    setting = Setting(
        program=PROGRAM,
        size=SIZE,
        steps=STEPS,
        checkpoint_every=CHECKPOINT_EVERY,
        cheat=CHEAT,
        chain=chain,
        seed=seed,
    )
    console = options.make_console(quiet=as_json)
    console.print(
        f"[bold]Moot[/]: two providers train {PROGRAM} ({SIZE}) for {STEPS} steps; "
        "nobody trusts anybody.\n",
        markup=True,
    )
    with open_room(ROOM_BYTES) as directory, options.progress(quiet=as_json) as report:
        dispute = prepare(setting, directory, report, is_durable=False)
        _introduce(console, dispute)
        narrator = Narrator(dispute.task.program, console)
        for played in dispute.play():
            narrator.tell(played)
        result = dispute.to_dict()
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _conclude(console, dispute, result)
    return 0 if dispute.verdict.honest_won else 3


def _introduce(console: Console, dispute: "Dispute") -> None:
    """Say who plays, and what each of them claims."""
    task = dispute.task
    header = task.commitment.header
    elements = sum(slot.elements for slot in task.program.state)
    console.print(
        f"The step was captured as {header.operators:,} operators over a state of "
        f"{elements:,} numbers; program root {_short(header.root)}."
    )
    console.print(describe_capture(is_compared=dispute.is_compared))
    for name, run in dispute.runs.items():
        deed = run.behaviour.describe()
        console.print(f"  {name:<16} claims {_short(run.history_root)}   ({deed})")
    console.print()


def _short(digest: object) -> str:
    assert isinstance(digest, bytes)
    return f"0x{digest.hex()[:12]}…"


def _conclude(console: Console, dispute: "Dispute", result: dict[str, Any]) -> None:
    """Say what was found and who was paid."""
    located, verdict = result["located"], result["verdict"]
    console.print()
    if located["scalar"]:
        console.print(f"[bold]Found[/] in {escape(describe_place(located))}:", markup=True)
        console.print(f"  {describe_scalar(located['scalar'])}")
        line = dispute.task.program.lines[located["operator"]["index"]]
        if line:
            console.print(f"  in {line}")
    console.print(
        f"[bold]{verdict['winner']}[/]'s claim wins; {', '.join(verdict['losers'])} is slashed "
        f"({verdict['reason']}). {result['moves']} moves, {result['gas']['total']:,} gas.",
        markup=True,
    )
    console.print(make_ledger_table(result["ledger"]))
    seconds = result["seconds"]
    console.print(
        f"[dim]{seconds['run']} s training, {seconds['trace']} s making traces, "
        f"{seconds['chain']} s on the chain[/]",
        markup=True,
    )
