"""`moot receipt`: look at receipts of answers, check them, and take them to the chain."""

import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import json_lines, party, setting_options
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.offchain.parties.events import Lines
    from moot.offchain.parties.settings import Settings
    from moot.offchain.receipts.packed import SignedReceipt
    from moot.offchain.serving.programs import Programs

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
MOST_LENGTHS = 3
"""Contexts of which programs are kept at once, the model's own among them."""
REFUTED = 3
UNVERIFIABLE = 4
UNSOUND = 3
LOST = 3
_SETTINGS = ("chain", "service", "key", "password_from", "max_fee_gwei", "confirmations", "folder")

model_of = click.option(
    "--model", type=FOLDER, required=True, help="Your own copy of the checkpoint."
)
precision_of = click.option(
    "--precision",
    type=click.Choice(["fp32", "int8"]),
    default="fp32",
    show_default=True,
    help="That of `moot serve`.",
)

adapters_of = click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="NAME=FOLDER",
    help="An adapter that is served, as for `moot serve`; there may be several.",
)


@click.group(cls=Group, short_help="Look at receipts of answers, and check them.")
def receipt() -> None:
    """Receipts: signed terms and claims of answers, which anybody may take to the chain.

    FILE has a receipt as `moot serve` gives it: JSON, the text of the header, or the packed bytes.
    """


@receipt.command(
    short_help="Show what a receipt says, and who has signed it.",
    epilog="\b\nExamples:\n  moot receipt show answer.json\n  moot receipt show answer.json --json",
)
@click.argument("file", type=FILE)
@options.as_json
def show(file: Path, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Show the receipt in FILE: its terms, its claim, and what backs it.

    It ends with 3 if no challenge of it could be decided. A receipt that is not signed by the
    provider that it names is refused.
    """
    from moot.contracts.model.receipts import is_sound  # noqa: PLC0415 - imports much
    from moot.offchain.receipts.documents import read_receipt  # noqa: PLC0415 - likewise

    signed = read_receipt(file)
    sound = is_sound(signed.receipt)
    shown = _list_fields(signed)
    if as_json:
        click.echo(json.dumps({**shown, "is_sound": sound}))
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in shown.items():
            table.add_row(name.replace("_", " "), str(value))
        options.make_console().print(table)
        if not sound:
            click.echo("No challenge of this receipt could be decided: do not rely on it.")
    return 0 if sound else UNSOUND


@receipt.command(
    short_help="Run an answer again, and compare it with its receipt.",
    epilog="\b\nExamples:\n"
    "  moot receipt check answer.json --model checkpoint\n"
    "  moot receipt check answer.json --model checkpoint --chain http://… --service 0x…",
)
@click.argument("file", type=FILE)
@model_of
@precision_of
@adapters_of
@setting_options("chain", "service")
@options.as_json
def check(
    file: Path,
    model: Path,
    precision: str,
    adapters: tuple[str, ...],
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> int:
    """Say whether the answer in FILE is that of the model, in one pass over its tokens.

    FILE is what /v1/receipts/ID gives. VERIFIED ends with 0, REFUTED with 3, UNVERIFIABLE with 4:
    the receipt is of another model, question or text than these. With --chain and --service it is
    said, too, whether the receipt still may be challenged, and what stands behind it.
    """
    from moot.offchain.receipts.documents import read_document  # noqa: PLC0415 - imports much
    from moot.offchain.serving.tasks import choose_model, read_asked  # noqa: PLC0415 - imports torch
    from moot.offchain.serving.verdicts import Verdict, check_receipt  # noqa: PLC0415 - likewise

    signed, document = read_document(file)
    with party(config, given, as_json=as_json) as (settings, tell):
        backing = _look(settings, tell, signed) if settings.chain or settings.service else {}
    models, asked = _Finder(model, precision, adapters)(document), read_asked(document)
    programs = choose_model(models, asked.question, signed.receipt)
    checked = check_receipt(signed, asked, programs)
    result = {
        "verdict": checked.verdict.value,
        "recomputation": checked.recomputation.value,
        "line": checked.line,
        "token": checked.token,
        "step": checked.step,
        "operator": checked.operator,
        "element": checked.element,
        **backing,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        click.echo(f"{checked.verdict.value}: {checked.line}")
        for line in backing.get("lines", ()):
            click.echo(line)
    ends = {Verdict.VERIFIED: 0, Verdict.REFUTED: REFUTED, Verdict.UNVERIFIABLE: UNVERIFIABLE}
    return ends[checked.verdict]


@receipt.command(
    short_help="Take a wrong receipt to the chain, and play that to its end.",
    epilog="\b\nExamples:\n"
    "  moot receipt challenge answer.json --model checkpoint --config watcher.toml",
)
@click.argument("file", type=FILE)
@model_of
@precision_of
@adapters_of
@setting_options(*_SETTINGS)
@json_lines
def challenge(
    file: Path,
    model: Path,
    precision: str,
    adapters: tuple[str, ...],
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> int:
    """Challenge the receipt in FILE with the right claim, and defend that to the end.

    The answer is run first, step by step: a receipt that is right is not challenged, since that
    would lose the bond. Whoever is interrupted goes on by the same command. Ends with 0 when the
    provider has lost, 3 when it has not.
    """
    from moot.offchain.parties.accuser import accuse  # noqa: PLC0415 - imports the chain
    from moot.offchain.receipts.documents import read_document  # noqa: PLC0415 - imports much
    from moot.offchain.serving.tasks import (  # noqa: PLC0415 - likewise
        choose_model,
        make_task,
        read_asked,
    )
    from moot.offchain.serving.verdicts import Verdict, check_receipt  # noqa: PLC0415 - likewise

    signed, document = read_document(file)
    with party(config, given, as_json=as_json) as (settings, tell):
        models, asked = _Finder(model, precision, adapters)(document), read_asked(document)
        programs = choose_model(models, asked.question, signed.receipt)
        checked = check_receipt(signed, asked, programs)
        tell("checked", f"{checked.verdict.value}: {checked.line}", verdict=checked.verdict.value)
        if checked.verdict is not Verdict.REFUTED:
            raise UsageError("only a receipt that is refuted can be challenged")
        task = make_task(programs, asked.question, signed.receipt.steps)
        has_won = accuse(_give_store(settings), tell, signed, task)
        line = "the provider has lost a bond" if has_won else "the provider has lost nothing"
        tell("ended", line, has_won=has_won)
    return 0 if has_won else LOST


@receipt.command(
    short_help="Defend your receipts whenever one is challenged.",
    epilog="\b\nExamples:\n"
    "  moot receipt defend --model checkpoint --receipts receipts --config provider.toml",
)
@model_of
@precision_of
@adapters_of
@click.option("--receipts", type=FOLDER, required=True, help="That of `moot serve`.")
@setting_options(*_SETTINGS, "cheat")
@json_lines
def defend(
    model: Path,
    precision: str,
    adapters: tuple[str, ...],
    receipts: Path,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Play every challenge of your receipts to its end, until this is terminated.

    A challenge of an honest receipt is won by whoever makes its moves in time: what they need is
    computed again from the model and the book of receipts. Jobs that no service names are left
    alone.
    """
    from moot.offchain.parties.defender import defend as play_all  # noqa: PLC0415 - the chain
    from moot.offchain.parties.services import opened_service  # noqa: PLC0415 - likewise
    from moot.offchain.receipts.book import BookReader  # noqa: PLC0415 - imports much
    from moot.offchain.serving.tasks import TaskFinder  # noqa: PLC0415 - likewise

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_service(settings, tell, signs=False) as context,
    ):
        challenges, models = context.service.challenges, _Finder(model, precision, adapters)
        find = TaskFinder(BookReader(receipts), models, context.service.find_job)
        find.require_models()
        tell("defending", f"receipts in {receipts} are defended", challenges=challenges)
        play_all(_give_store(settings), tell, challenges, find)


@receipt.command(
    short_help="Sample receipts that clients hand over, and challenge what is wrong.",
    epilog="\b\nExamples:\n"
    "  moot receipt watch inbox --model checkpoint --rate 0.1 --config watcher.toml",
)
@click.argument("inbox", type=click.Path(path_type=Path, file_okay=False, exists=True))
@model_of
@precision_of
@adapters_of
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="The share of answers to run again; receipts are compared in any case.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, options.MAX_SEED),
    help="What answers are drawn from  [default: what nobody can know].",
)
@setting_options(*_SETTINGS)
@json_lines
def watch(
    inbox: Path,
    model: Path,
    precision: str,
    adapters: tuple[str, ...],
    rate: float,
    seed: int | None,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Look at each file that comes into INBOX, what /v1/receipts/ID gives, until terminated.

    With --key a receipt that is refuted is challenged and played to its end, and two receipts of a
    provider that do not go together cost it its bond. Without a key nothing is sent.
    """
    from moot.offchain.parties.receipt_watcher import ReceiptWatcher  # noqa: PLC0415 - the chain

    with party(config, given, as_json=as_json) as (settings, tell):
        drawn = secrets.randbits(64) if seed is None else seed
        finder = _Finder(model, precision, adapters)
        watcher = ReceiptWatcher(_give_store(settings), tell, inbox, finder, rate, drawn)
        tell("watching", f"receipts in {inbox} are watched", rate=rate)
        watcher.run()


def _give_store(settings: "Settings") -> "Settings":
    """Return settings with a store of the party's own, for the tasks that it makes itself."""
    return replace(settings, store=str(Path(settings.folder) / "tasks"))


class _Finder:
    """Finds the models that a document may be of; few lengths are kept, since anybody names them.

    Args:
        folder: the checkpoint.
        precision: that of the weights.
        adapters: names and folders of adapters, as --adapter gives them.
    """

    def __init__(self, folder: Path, precision: str, adapters: "Sequence[str]" = ()) -> None:
        self._folder, self._precision = folder, precision
        self._adapters = options.parse_adapters(adapters)
        self._known: OrderedDict[int | None, list[Programs]] = OrderedDict()

    def __call__(self, document: "Mapping[str, Any]") -> "list[Programs]":
        """Return the model's programs, and then those of its adapters."""
        whole, length = self._load(None), document.get("length")
        # A text of any length that the whole model has a program for is answered by that one.
        is_other = type(length) is int and 2 <= length < whole[0].context
        is_other = is_other and length not in whole[0].list_lengths()
        return self._load(length) if is_other else whole

    def _load(self, context: int | None) -> "list[Programs]":
        from moot.offchain.serving.checkpoints import load_all  # noqa: PLC0415 - imports torch

        if context not in self._known:
            loaded = load_all(
                self._folder, precision=self._precision, context=context, adapters=self._adapters
            )
            self._known[context] = [it.programs for it in loaded]
        self._known.move_to_end(context)
        while len(self._known) > MOST_LENGTHS:
            del self._known[next(it for it in self._known if it is not None)]
        return self._known[context]


def _look(settings: "Settings", tell: "Lines", signed: "SignedReceipt") -> dict[str, Any]:
    """Return what a service says of a receipt: whether it may be challenged, and what backs it."""
    from moot.offchain.parties.services import opened_service  # noqa: PLC0415 - the chain
    from moot.offchain.receipts.packed import require_same  # noqa: PLC0415 - imports eth_utils
    from moot.offchain.receipts.weakness import ANNOUNCING_BLOCKS  # noqa: PLC0415 - imports numpy

    receipt = signed.receipt
    with opened_service(settings, tell, signs=False) as context:
        service, block = context.service, context.service.chain.block_number()
        require_same(service.domain, signed.domain, "receipt")
        bond_wei = service.get_bond(receipt.provider, receipt.last_block)
        job = service.find_job(signed.digest)
    lines = []
    if receipt.issued_block > block:
        lines.append(f"it is from the future: block {receipt.issued_block}, and this is {block}")
    if receipt.last_block < block:
        lines.append(f"it has expired: block {receipt.last_block} was the last to challenge it")
    if receipt.open_wei > bond_wei:
        lines.append(
            f"the bond does not cover it: {receipt.open_wei} wei are promised, {bond_wei} stand"
        )
    ends = receipt.last_block - ANNOUNCING_BLOCKS
    if ends < block <= receipt.last_block:
        lines.append(f"it is about to expire: block {receipt.last_block} is the last")
    if job is not None:
        lines.append(f"it was challenged, in job {job}")
    return {"block": block, "bond_wei": bond_wei, "job": job, "lines": lines}


def _list_fields(signed: "SignedReceipt") -> dict[str, str | int]:
    """Return what a receipt says by name: numbers, and all else as text."""
    receipt, domain = signed.receipt, signed.domain
    shown: dict[str, str | int] = {
        "digest": f"0x{signed.digest.hex()}",
        "chain": domain.chain_id,
        "service": domain.service,
    }
    for field in fields(receipt):
        value = getattr(receipt, field.name)
        shown[field.name] = f"0x{value.hex()}" if isinstance(value, bytes) else value
    return {**shown, "open_wei": receipt.open_wei}
