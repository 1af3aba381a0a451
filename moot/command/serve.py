"""`moot serve`: a model's answers over HTTP, each with a receipt."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moot.command import options
from moot.command.parties import json_lines, party, setting_options
from moot.offchain.errors import UsageError
from moot.offchain.parties.settings import Settings

if TYPE_CHECKING:
    from moot.offchain.parties.events import Tell
    from moot.offchain.receipts.issuing import Conditions
    from moot.offchain.serving.answered import Issuer
    from moot.offchain.serving.checkpoints import Model
    from moot.offchain.serving.engine import Engine

FOLDER = click.Path(path_type=Path, file_okay=False)
_EXTRA = "moot serve needs starlette, uvicorn and transformers; pip install 'moot[serve]'"


@click.command(
    short_help="Answer by a language model over HTTP, with receipts.",
    epilog="\b\nExamples:\n  moot serve --model checkpoint --no-receipts\n"
    "  moot serve --model checkpoint --config provider.toml --receipts receipts",
)
@click.option(
    "--model",
    "folder",
    type=FOLDER,
    required=True,
    help="A checkpoint of the transformers library: config, safetensors, tokenizer.",
)
@click.option("--name", default="", help="The model's name in requests; the folder's by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any."
)
@click.option(
    "--context", type=click.IntRange(2), help="Tokens of a prompt and its answer; the model's."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="Answers that are computed at once.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "int8"]),
    default="fp32",
    show_default=True,
    help="int8: linear layers have int8 weights.",
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="NAME=FOLDER",
    help="A LoRA adapter, as PEFT writes it: a model more, of this name.",
)
@click.option(
    "--receipts",
    type=FOLDER,
    help="Where receipts and their answers are kept.  [default: receipts]",
)
@click.option("--no-receipts", is_flag=True, help="Answer without receipts; no key, no chain.")
@click.option(
    "--stake-wei",
    type=click.IntRange(1),
    help="What each answer is backed with.  [default: the least bond, 0.2 ETH]",
)
@click.option(
    "--token-price-wei",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The price of a token that is read or written.",
)
@click.option(
    "--cheat",
    default="",
    help="wrong-token:token=N: lie about this token of each answer, the first of which is 0.",
)
@setting_options("chain", "service", "key", "password_from")
@json_lines
def serve(
    folder: Path,
    name: str,
    host: str,
    port: int,
    context: int | None,
    slots: int,
    precision: str,
    adapters: tuple[str, ...],
    receipts: Path | None,
    no_receipts: bool,  # noqa: FBT001 - click passes it
    stake_wei: int | None,
    token_price_wei: int,
    cheat: str,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - likewise
    **given: Any,
) -> None:
    """Answer by the model in a folder, as OpenAI's clients ask, until this is interrupted.

    /v1/completions and /v1/chat/completions, whole or as streams; /v1/models, /metrics and
    /health. Each answer has a receipt: in the header Moot-Receipt, in the field `receipt`, and with
    all that is needed to check it at /v1/receipts/ID. Weights of bfloat16 are widened to float32.
    """
    try:
        from moot.offchain.serving.checkpoints import load_all  # noqa: PLC0415 - imports torch
        from moot.offchain.serving.lying import make_engine  # noqa: PLC0415 - likewise
        from moot.offchain.serving.requests import Limits  # noqa: PLC0415 - likewise
        from moot.offchain.serving.server import listen  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    if no_receipts and receipts is not None:
        raise UsageError("--receipts and --no-receipts exclude each other; leave one out")
    chosen = options.parse_adapters(adapters)
    with party(config, given, as_json=as_json) as (settings, tell):
        if not no_receipts and not settings.key:
            raise UsageError("receipts need --key, --chain and --service; or choose --no-receipts")
        listener = listen(host, port)
        models = load_all(folder, name, adapters=chosen, context=context, precision=precision)
        limits = Limits(slots=slots)
        served = [(it, make_engine(it.programs, limits, not no_receipts, cheat)) for it in models]
        for _, engine in served:
            _warm(engine, tell)
        gc.freeze()  # else each full collection looks through the models and their programs
        kept = receipts or Path("receipts")
        with _signing(settings, tell, kept, stake_wei, token_price_wei, no_receipts) as issuer:
            url = f"http://{host}:{listener.getsockname()[1]}/v1"
            names = [it.name for it in models]
            tell("answering", f"{', '.join(names)} at {url}", url=url, models=names)
            _run(served, issuer, listener)


def _warm(engine: "Engine", tell: "Tell") -> None:
    """Make the programs that most requests need, which takes long where it is done first."""
    sizes, lengths = engine.list_sizes(), engine.programs.list_lengths()
    count = len(sizes) + len(lengths)
    tell("preparing", f"{count} programs are made ready", programs=count)
    for length in lengths:
        engine.programs.find_answer(length)
    for size in sizes:
        engine.prepare(size)


def _run(served: "list[tuple[Model, Engine]]", issuer: "Issuer | None", listener: Any) -> None:
    from moot.offchain.serving.endpoint import Endpoint  # noqa: PLC0415 - optional
    from moot.offchain.serving.server import make_server  # noqa: PLC0415 - likewise

    app = Endpoint(served, issuer).make_app()
    make_server(app).run(sockets=[listener])


@contextmanager
def _signing(
    settings: Settings,
    tell: "Tell",
    folder: Path,
    stake_wei: int | None,
    token_price_wei: int,
    no_receipts: bool,  # noqa: FBT001 - as it was given
) -> Iterator["Issuer | None"]:
    """Open the key, the service and the book that receipts are signed with; none without."""
    if no_receipts:
        yield None
        return
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - slow to import

    from moot.contracts.model.types import MIN_BOND_WEI  # noqa: PLC0415 - imports numpy
    from moot.offchain.parties.context import open_keys  # noqa: PLC0415 - the chain
    from moot.offchain.parties.services import opened_service  # noqa: PLC0415 - likewise
    from moot.offchain.receipts.book import Book  # noqa: PLC0415 - imports eth_abi
    from moot.offchain.receipts.issuing import Conditions, Issuer  # noqa: PLC0415 - likewise
    from moot.offchain.serving.issuing import Looking, Signing  # noqa: PLC0415 - likewise

    conditions = Conditions.choose(
        settings.block_seconds, stake_wei or MIN_BOND_WEI, token_price_wei
    )
    (key,) = open_keys(settings, tell)
    provider = str(to_checksum_address(key.address))
    with (
        opened_service(settings, tell, signs=False) as context,  # another process may send
        Book(folder, context.service.domain, provider) as book,
    ):
        book.require_published(context.service.count_published(provider))
        if book.is_new:
            line = (
                f"a new book of receipts begins in {folder.resolve()}; if {provider} has signed "
                "receipts before, stop, and give --receipts their folder: a number that is used "
                "twice costs the whole bond"
            )
            tell("begun", line, folder=str(folder.resolve()), provider=provider)
        look = Looking(context.service, provider)
        _tell_cover(tell, look(conditions.last_blocks).bond_wei, conditions)
        yield Signing(Issuer(book, key.sign_digest, conditions, look))


def _tell_cover(tell: "Tell", bond_wei: int, conditions: "Conditions") -> None:
    """Say how many answers a bond covers, before the first one is refused for want of it."""
    count, blocks = bond_wei // conditions.stake_wei, conditions.last_blocks
    if count:
        line = f"the bond covers {count:,} answers in any {blocks} blocks"
    else:
        line = "no bond covers an answer: all requests are refused; see `moot service stake`"
    tell("covered", line, answers=count, blocks=blocks)
