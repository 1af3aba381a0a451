"""`moot dispute`: play one dispute and report on it."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options
from moot.command.ledger import make_ledger_table
from moot.command.wording import describe_capture, describe_place, describe_scalar
from moot.offchain.errors import CannotWrite, UsageError
from moot.offchain.providers.catalogue import ALL_CHEATS, HONEST
from moot.sim.writing import write_whole

if TYPE_CHECKING:
    from moot.disputing import Dispute

HONEST_LOST = 3
REPLAYS = frozenset({".html", ".json"})


def _describe_cheats() -> str:
    """Return the table of the cheats and their settings, in lines that click leaves as they are."""
    about = {}
    for name, cheat in ALL_CHEATS.items():
        settings = f"\n  {'':<20} ({', '.join(cheat.settings)})" if cheat.settings else ""
        about[name] = cheat.about + settings
    example = "Cheats (and settings), as in wrong-output:step=11,operator=mm_17,element=5,bit=3:"
    return options.list_choices(example, about)


@click.command(short_help="Play one dispute and report on it.", epilog=_describe_cheats())
@options.program("gpt2", "tiny")
@options.length(16, 4)
@click.option(
    "--cheat",
    default="wrong-output",
    show_default=True,
    help="none; one of the cheats below, or path/to/file.py:Class of your own, with some of its "
    "settings; what is left out is drawn from the seed.",
)
@options.arithmetic
@options.leaf
@click.option(
    "--bond", type=float, default=1.0, show_default=True, help="Each provider's bond, in ETH."
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the providers' checkpoints here, and go on from what is there.",
)
@click.option(
    "--replay",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the dispute's replay: FILE.html is a page in one file, FILE.json its record, which "
    "`moot court` shows.",
)
@options.chain
@options.backend
@click.option(
    "--cheat-backend", help="What computes for who cheats  [default: what computes for all]."
)
@options.workers
@options.seed
@options.as_json
def dispute(
    program: str,
    size: str,
    steps: int,
    checkpoint_every: int | None,
    cheat: str,
    arithmetic: str,
    leaf: str | None,
    bond: float,
    store: Path | None,
    replay: Path | None,
    chain: str,
    backend: str,
    cheat_backend: str | None,
    workers: int,
    seed: int,
    data: Path | None,
    precision: str,
    inference: bool,  # noqa: FBT001 - click passes it
    trust_capture: bool,  # noqa: FBT001 - likewise
    as_json: bool,  # noqa: FBT001 - likewise
) -> int:
    """Play one dispute between an honest provider and a cheat, on a chain.

    Prints the verdict, the cheat that was played, the step, operator, element and scalar operation
    that were found, every transaction with its gas, and who was paid. Exits with 0 when the honest
    claim won, 3 when it did not.
    """
    from moot.offchain.providers.setting import (  # noqa: PLC0415 - likewise
        Setting,
        check_setting,
        describe_backends,
    )
    from moot.session import prepare  # noqa: PLC0415 - likewise

    _check_replay(replay)
    steps = options.check_steps(steps, inference=inference)
    setting = Setting(
        program=program,
        size=size,
        steps=steps,
        checkpoint_every=options.choose_interval(checkpoint_every, 4, steps),
        cheat=cheat,
        arithmetic=arithmetic,
        leaf=leaf,
        chain=chain,
        backend=backend,
        cheat_backend=cheat_backend,
        workers=workers,
        seed=seed,
        data=data,
        precision=precision,
        inference=inference,
        trust_capture=trust_capture,
        bond_wei=options.to_wei(bond, "--bond"),
    )
    check_setting(setting)
    options.announce(describe_backends(setting))
    with (
        options.stores(store) as directory,
        options.progress(quiet=as_json) as report,
        redirect_stdout(sys.stderr),  # what a user's cheat prints is not the result
    ):
        played = prepare(setting, directory, report, is_durable=store is not None)
        for number, _ in enumerate(played.play(), 1):
            report("moves", number, number + 1)
        result = played.to_dict() | _describe_shared(played)
        if replay is not None:
            _write_replay(played, replay)
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result)
    return 0 if played.verdict.honest_won else HONEST_LOST


def _describe_shared(played: "Dispute") -> dict[str, Any]:
    """Return what it has cost to share runs out among workers, if any were."""
    shared = {name: str(it.shared) for name, it in played.runs.items() if it.shared is not None}
    return {"shared": shared} if shared else {}


def _check_replay(path: Path | None) -> None:
    """Refuse a file that no replay can be written to, before anything slow begins."""
    if path is None:
        return
    if path.suffix not in REPLAYS:
        raise UsageError(f"--replay {path} is neither a .html nor a .json file; name it so")
    if not path.parent.is_dir():
        raise CannotWrite(f"cannot write {path}: there is no folder {path.parent}; make it first")


def _write_replay(played: "Dispute", path: Path) -> None:
    """Write a dispute's page, or its record."""
    from moot.offchain.record.schema import encode_record  # noqa: PLC0415 - seldom needed

    is_page = path.suffix == ".html"
    write_whole(path, played.make_page() if is_page else encode_record(played.record()).decode())


def _show(result: dict[str, Any]) -> None:
    """Print a report for people."""
    console = options.make_console()
    verdict, located = result["verdict"], result["located"]
    losers = ", ".join(verdict["losers"]) or "nobody"
    console.print(
        f"[bold]{verdict['winner']}[/]'s claim wins, {losers} loses ({verdict['reason']}), "
        f"{result['moves']} moves, {result['gas']['total']:,} gas",
        markup=True,
    )
    for name, behaviour in result["behaviours"].items():
        if behaviour != HONEST:
            console.print(f"cheat: {name} played {behaviour}", soft_wrap=True)
    console.print(describe_capture(is_compared=result["compared_with_torch"]))
    if located["operator"]:
        console.print(f"found: {describe_place(located)}")
    if located["scalar"]:
        console.print(f"       {describe_scalar(located['scalar'])}")
    seconds = result["seconds"]
    console.print(
        f"took:  {seconds['run']:.1f} s running, {seconds['trace']:.1f} s making traces, "
        f"{seconds['chain']:.1f} s on the chain"
    )
    for name, cost in result.get("shared", {}).items():
        console.print(f"       {name}: {cost}")
    console.print(_make_transactions_table(result["transactions"]))
    table = Table("stage", "gas", title="gas by stage")
    table.columns[1].justify = "right"
    for stage, gas in result["gas"]["by_phase"].items():
        table.add_row(stage, f"{gas:,}")
    console.print(table)
    console.print(make_ledger_table(result["ledger"]))


def _make_transactions_table(moves: Sequence[dict[str, Any]]) -> Table:
    """Return every transaction of a dispute, in order."""
    headers = ("block", "stage", "account", "call", "bytes of calldata", "gas")
    table = Table(*headers, title="transactions")
    for column in (table.columns[0], *table.columns[-2:]):
        column.justify = "right"
    for move in moves:
        numbers = f"{move['calldata_bytes']:,}", f"{move['gas_used']:,}"
        table.add_row(str(move["block"]), move["phase"], move["player"], move["call"], *numbers)
    return table
