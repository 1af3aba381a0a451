"""The chains of `moot gas report --chain` and `moot price`: their options and tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options

if TYPE_CHECKING:
    from moot.sim.chains.chain import Chain

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def choosing(
    about: str, *, has_several_fees: bool = False
) -> Callable[[options.Command], options.Command]:
    """Return the options that say on which chains, and at which prices.

    Args:
        about: what `--chain` is for.
        has_several_fees: whether there may be several base fees of the first layer.
    """
    more = " As often as you like." if has_several_fees else ""

    def add(command: options.Command) -> options.Command:
        for option in (
            click.option("--eth-price", type=float, help="Of an ETH, in place of the file's."),
            click.option(
                "--l2-base-fee",
                type=float,
                help="Gwei that a unit of a rollup's own gas costs, in place of the file's.",
            ),
            click.option(
                "--base-fee",
                *(["base_fees"] if has_several_fees else []),
                type=float,
                multiple=has_several_fees,
                help="Gwei that a unit of gas costs on the first layer, in place of the file's; "
                f"the data fee of a rollup follows it.{more}",
            ),
            click.option("--chain", "chains", multiple=True, metavar="NAME|FILE.toml", help=about),
        ):
            command = option(command)
        return command

    return add


def find_chains(
    names: Sequence[str],
    base_fee: float | None,
    l2_base_fee: float | None,
    eth_price: float | None,
) -> "list[Chain]":
    """Return the chains that were named, at the prices that were given."""
    from moot.sim.chains.files import find_chain  # noqa: PLC0415 - imports msgspec

    return [find_chain(name).replace_prices(base_fee, l2_base_fee, eth_price) for name in names]


def make_costs(objects: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of what scenarios cost on chains."""
    table = Table(title="what a dispute costs, without its opening")
    table.add_column("scenario")
    table.add_column("chain")
    for name in ("gas", "gas, ETH", "data, ETH", "ETH", "money", "opening, ETH"):
        table.add_column(name, justify="right")
    for entry in objects:
        for it in entry["chains"]:
            amounts = (it["execution_eth"], it["data_eth"], it["eth"])
            table.add_row(
                entry["scenario"],
                it["chain"],
                f"{it['gas']:,}",
                *map(show_eth, amounts),
                f"{it['fiat']:,.2f} {it['currency']}",
                show_eth(it["open_job"]["eth"]),
            )
        table.add_section()
    prices = {(it["currency"], it["eth_price"], it["prices_of"]) for it in objects[0]["chains"]}
    table.caption = "; ".join(
        f"an ETH at {price:,g} {currency} ({date})" for currency, price, date in sorted(prices)
    )
    return table


def make_clocks(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the times of a dispute with the default clocks on chains."""
    table = Table(title="how long the default clocks are")
    table.add_column("chain")
    names = ("a number", "joining", "a clock", "at most", "final", "inclusion", "withdrawal")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("outlast the sequencer")
    keys = ("block_number", "joining", "clock", "longest", "finality", "force_inclusion")
    for entry in entries:
        times = [entry["seconds"][key] for key in (*keys, "withdrawal")]
        enough = "yes" if entry["clock_covers_sequencer"] else "no"
        table.add_row(entry["chain"], *map(show_seconds, times), enough)
    return table


def show_eth(amount: float) -> str:
    """Return an amount of ETH with as many digits as say something."""
    return f"{amount:,.4f}" if amount >= 0.01 or not amount else f"{amount:.2g}"


def show_seconds(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= length:
            return f"{seconds / length:,.3g} {unit}"
    return f"{seconds:.3g} s" if seconds else "-"
