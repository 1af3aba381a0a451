"""`moot price`: what a job should cost on some chains, and the terms that it needs."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import gas_chains, options
from moot.command.gas_chains import show_eth, show_seconds

if TYPE_CHECKING:
    from moot.pricing import Price

USUAL = ("l1-osaka",)
_WISHES: Sequence[tuple[str, type, Any, str]] = (
    ("--gain", float, 0.0, "ETH that a wrong answer gives a liar, if it is accepted."),
    ("--audit-rate", float, None, "The share of jobs that are audited  [default: the cheapest]."),
    ("--bond", float, None, "A provider's bond in ETH  [default: the least]."),
    ("--margin", float, 0.5, "Of the provider and of whoever audits, as a share of the work."),
    ("--capital-rate", float, 0.05, "What an ETH that is locked for a year costs."),
    ("--spike", float, 4.0, "How many times its price gas may cost in a dispute."),
    ("--crowd", int, 100, "Liars behind one claim that the clocks suffice for."),
    ("--confirmations", int, 8, "Blocks that a reorganisation may take."),
)


def _wishing(command: options.Command) -> options.Command:
    """Add what a client may want."""
    for name, kind, default, about in reversed(_WISHES):
        option: Callable[[options.Command], options.Command] = click.option(
            name, type=kind, default=default, show_default=default is not None, help=about
        )
        command = option(command)
    return command


@click.command(short_help="Ask what a job should cost.")
@options.program("gpt2", "tiny")
@options.length(16, 4)
@options.arithmetic
@gas_chains.choosing(
    "Where the job is, as `moot gas chains` lists them; as often as you like  [default: l1-osaka].",
    has_several_fees=True,
)
@click.option(
    "--hour",
    type=float,
    default=1.0,
    show_default=True,
    help="What an hour of the machine costs, in the currency of the chain's file.",
)
@_wishing
@click.option(
    "--lies", type=int, default=3, show_default=True, help="Lies that are disputed, for intervals."
)
@options.seed
@options.as_json
def price(
    program: str,
    size: str,
    steps: int,
    checkpoint_every: int | None,
    arithmetic: str,
    data: Path | None,
    precision: str,
    inference: bool,  # noqa: FBT001 - click passes it
    trust_capture: bool,  # noqa: FBT001 - likewise
    as_json: bool,  # noqa: FBT001 - likewise
    chains: tuple[str, ...],
    gain: float,
    bond: float | None,
    **asked: Any,
) -> None:
    """Ask what a job should cost, and at which terms no known attack on it pays.

    The program is captured once. A small one's dispute is played by both sides, and its work is
    measured; of a large one a synthetic job of its sizes is disputed on the same contract, and its
    work is measured on an interval, or estimated from its shapes. The terms are the least bond, the
    cheapest audits, the reward and the shortest clocks at which lies, griefers, crowds and censors
    gain nothing.

    \b
      moot price --program mlp --gain 0.5
      moot price --program model.py:build --steps 1000 --chain l1-osaka --chain op-mainnet
      moot price --program mlp --gain 2 --audit-rate 0.05 --base-fee 5 --base-fee 50 --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    steps = options.check_steps(steps, inference=inference)
    gas_chains.find_chains(chains, None, asked["l2_base_fee"], asked["eth_price"])  # or refuse
    from moot.pricing import price as make_price  # noqa: PLC0415 - imports numpy
    from moot.tasks import Task, capture  # noqa: PLC0415 - likewise

    captured = capture(
        program,
        arithmetic=arithmetic,
        precision=precision,
        trust=trust_capture,
        size=size,
        seed=asked["seed"],
        data=data,
        inference=inference,
    )
    task = Task(captured, steps, options.choose_interval(checkpoint_every, 4, steps))
    found = make_price(task, chains=chains or USUAL, gain_eth=gain, bond_eth=bond, **asked)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found)


def _show(found: "Price") -> None:
    """Print a price for people."""
    console = options.make_console()
    sizes, work = found.sizes, found.work_s
    console.print(
        f"the job: {sizes.steps:,} steps, {sizes.checkpoints:,} checkpoints, {sizes.operators:,} "
        f"operators a step, up to {sizes.elements:,} elements and folds of {sizes.terms:,}"
    )
    spread = "" if work.low is None else f" ({work.low:,.3g} to {work.high:,.3g})"
    console.print(f"work:    {work.value:,.3g} s{spread}, {found.timed}, at {found.hour:g} an hour")
    console.print(f"dispute: {found.how}, over {found.lies} lies")
    rows = [quote.to_dict() for quote in found.quotes]
    console.print(_make_money(rows))
    console.print(_make_terms(rows))
    console.print(_make_times(rows))


def _make_money(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of what a job costs its client."""
    currencies = " or ".join(sorted({row["currency"] for row in rows}))
    names = ("ETH", "at most", currencies, "work", "gas", "audits", "capital")
    table = _begin("what a job costs its client, in ETH", names)
    table.add_column("mostly")
    for row in rows:
        cost, parts = row["cost"], row["parts"]
        most = cost["value"] if cost["high"] is None else cost["high"]
        table.add_row(
            *_name(row),
            *map(show_eth, (cost["value"], most)),
            f"{row['cost_fiat']:,.2f}",
            *map(show_eth, parts.values()),
            row["dominated_by"],
        )
    return table


def _make_terms(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the terms at which no known attack pays."""
    names = ("bond", "audits", "audit", "reward", "dispute", "±", "purse")
    table = _begin("terms at which no known attack pays, in ETH", names)
    table.add_column("bond against")
    for row in rows:
        dispute = row["dispute"]
        margin = "-" if dispute["low"] is None else show_eth(dispute["high"] - dispute["value"])
        table.add_row(
            *_name(row),
            show_eth(row["bond"]),
            f"{row['audit_rate']:.2%}",
            *map(show_eth, (row["audit_fee"], row["reward"], dispute["value"])),
            margin,
            show_eth(row["purse"]),
            row["bond_bound_by"],
        )
    return table


def _make_times(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the clocks."""
    names = ("commit", "reveal", "window", "clock", "increment")
    table = _begin("clocks, in blocks as the contract counts them", (*names, "plain", "longest"))
    table.add_column("clock against")
    for row in rows:
        blocks = (f"{row['blocks'][name]:,}" for name in names)
        times = (show_seconds(row["seconds"][name]) for name in ("plain", "longest"))
        table.add_row(*_name(row), *blocks, *times, row["clock_bound_by"])
    return table


def _begin(title: str, names: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("chain")
    for name in ("gwei", *names):
        table.add_column(name, justify="right")
    return table


def _name(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["chain"], f"{row['base_fee_gwei']:g}"
