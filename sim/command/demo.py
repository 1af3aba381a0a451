"""`moot demo`: one dispute, told move by move."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from sim.command import options
from sim.command.wording import describe_place, describe_scalar
from sim.scratch import open_room

if TYPE_CHECKING:
    from offchain.disputes.game import Played
    from offchain.disputes.session import Session

PROGRAM, SIZE = "gpt2", "small"
STEPS, CHECKPOINT_EVERY = 8, 4
CHEAT = "wrong-output:step=6,operator=mm_17"
HONEST = 2
ROOM_BYTES = 1 << 30
"""More than the demo's checkpoints take."""


@click.command(short_help="Watch a dispute, move by move.")
@options.chain
@options.seed
@options.as_json
def demo(chain: str, seed: int, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Three providers train a GPT-2; one of them flips a single bit somewhere inside.

    The referee contract finds the one wrong scalar operation, computes it, and slashes the liar.
    """
    from offchain.disputes.report import make_report  # noqa: PLC0415 - imports numpy and the chain
    from offchain.disputes.session import Setting, prepare  # noqa: PLC0415 - likewise

    setting = Setting(
        program=PROGRAM,
        size=SIZE,
        steps=STEPS,
        checkpoint_every=CHECKPOINT_EVERY,
        cheat=CHEAT,
        chain=chain,
        seed=seed,
        honest=HONEST,
    )
    console = options.make_console(quiet=as_json)
    console.print(
        f"[bold]Moot[/]: {HONEST + 1} providers train {PROGRAM} ({SIZE}) for {STEPS} steps; "
        "nobody trusts anybody.\n"
    )
    with open_room(ROOM_BYTES) as directory, options.progress(quiet=as_json) as report:
        session = prepare(setting, directory, report)
        _introduce(console, session)
        narrator = Narrator(session, console)
        for played in session.play():
            narrator.tell(played)
        result = make_report(session)
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _conclude(console, session, result)
    return 0 if session.honest_won else 3


def _introduce(console: Console, session: "Session") -> None:
    """Say who plays, and what each of them claims."""
    task = session.task
    header = task.commitment.header
    elements = sum(slot.elements for slot in task.program.state)
    console.print(
        f"The step was captured as {header.operators:,} operators over a state of "
        f"{elements:,} numbers; program root {_short(header.root)}."
    )
    for player in session.game.players:
        deed = player.run.behaviour.describe()
        console.print(f"  {player.name:<16} claims {_short(player.run.history_root)}   ({deed})")
    console.print()


def _short(digest: object) -> str:
    assert isinstance(digest, bytes)
    return f"0x{digest.hex()[:12]}…"


class Narrator:
    """Tells what each move means."""

    def __init__(self, session: "Session", console: Console) -> None:
        self._session = session
        self._console = console
        self._stage = ""

    def tell(self, played: "Played") -> None:
        """Tell one move."""
        if played.stage != self._stage:
            self._stage = played.stage
            self._console.print(f"[bold]{self._stage}[/]")
        text = self._describe(played)
        gas = f"{played.receipt.gas_used:>9,} gas" if played.receipt else ""
        self._console.print(f"  {played.player:<15} {text:<68} [dim]{gas}[/]")

    def _describe(self, played: "Played") -> str:
        tellers: dict[str, Callable[[], str]] = {
            "open_job": lambda: "opens the job: program, start, data, clocks and reward",
            "commit": lambda: "joins with a bond and a sealed claim",
            "reveal": lambda: "shows its claim",
            "start_match": lambda: "starts a match: two claims differ",
            "settle": lambda: "settles the job",
            "withdraw": lambda: "withdraws what it is owed",
            "timeout": lambda: "ends the match: its rival's clock has run out",
            "rule": lambda: "rules: the bounded verifier has recomputed the operator",
            "refer": lambda: "refers the leaf to the bounded verifier",
            "enter_interval": lambda: "commits to the state after every step of the interval",
            "enter_trace": lambda: "commits to the output of every operator of the step",
            "enter_operator": lambda: "shows which operator that is: " + self._operator(),
            "enter_state": lambda: "opens the state after the step",
            "open_chunk": lambda: "shows the 256 bytes",
            "prove_sink": lambda: "shows the step's output that the state should contain",
        }
        if played.call in tellers:
            return tellers[played.call]()
        event = played.events[0]
        tell: Callable[[Played, tuple[Any, ...]], str] = getattr(self, f"_{played.call}")
        return tell(played, event.args[2:])

    def _operator(self) -> str:
        match = self._session.referee.job(self._session.game.job_id).match
        if match is None:
            return ""
        program = self._session.task.program
        node = program.nodes[match.operator]
        return f"{program.names[match.operator]} ({node.kind.name.lower()})"

    def _open(self, _: "Played", args: tuple[Any, ...]) -> str:
        return f"opens {len(args[0])} nodes of its tree"

    def _pick(self, _: "Played", args: tuple[Any, ...]) -> str:
        return f"disputes node {args[0]}"

    def _pick_element(self, _: "Played", args: tuple[Any, ...]) -> str:
        return f"disputes element {args[0]}, claimed to be 0x{args[1]:08x}"

    def _open_fold(self, _: "Played", args: tuple[Any, ...]) -> str:
        return f"posts {len(args[0]) // 4} partial accumulators of that element's fold"

    def _pick_segment(self, _: "Played", args: tuple[Any, ...]) -> str:
        return f"disputes what happened between fold steps {args[0]} and {args[1]}"

    def _leaf(self, _: "Played", args: tuple[Any, ...]) -> str:
        claimed, computed = args
        relation = "=" if claimed == computed else "≠"
        return f"proves the operands: 0x{computed:08x} {relation} claimed 0x{claimed:08x}"


def _conclude(console: Console, session: "Session", result: dict[str, Any]) -> None:
    """Say what was found and who was paid."""
    located, verdict = result["located"], result["verdict"]
    console.print()
    if located["scalar"]:
        console.print(f"[bold]Found[/] in {describe_place(located)}:")
        console.print(f"  {describe_scalar(located['scalar'])}")
        line = session.task.program.lines[located["operator"]["index"]]
        if line:
            console.print(f"  in {line}")
    console.print(
        f"[bold]{verdict['winner']}[/]'s claim wins; {', '.join(verdict['losers'])} is slashed "
        f"({verdict['reason']}). {result['rounds']} moves, {result['gas']['total']:,} gas."
    )
    table = Table("account", "change in ETH", title="who was paid")
    table.columns[1].justify = "right"
    for name, change in result["ledger"]["by_account"].items():
        table.add_row(name, f"{change / 10**18:+.6f}")
    table.add_row("burned", f"{result['ledger']['burned'] / 10**18:+.6f}")
    console.print(table)
    seconds = result["seconds"]
    console.print(
        f"[dim]{seconds['run']} s training, {seconds['trace']} s making traces, "
        f"{seconds['chain']} s on the chain[/]"
    )
