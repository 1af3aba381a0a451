"""Prints what a dispute costs on every chain, beside what other protocols publish.

`python docs/tools/chains.py` prints the table of `gas.md`. Ours is the reference dispute, played on
the contract; the others are constants of `sim/theory`: the gas of PRT's longest matches at all
three levels, of BoLD's honest side at all three, and what the bonds of Optimism's ladder charge.
"""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from moot.sim.chains.chain import Chain
from moot.sim.chains.files import find_chain
from moot.sim.gas.on_chains import Bill, charge, read_calls
from moot.sim.gas.play import Stage
from moot.sim.gas.report import OPENING
from moot.sim.gas.scenarios import REFERENCE
from moot.sim.theory import bold, optimism, prt

CHAINS = ("l1-prague", "l1-osaka", "l1-eip7976", "op-mainnet", "arbitrum-one")
ETHER = 10**18
WIDTH = 132


def list_published() -> Iterator[tuple[str, int]]:
    """Yield the gas of other protocols, both sides together unless it says otherwise."""
    yield "PRT: the longest matches", sum(map(prt.calculate_match_gas, prt.HEIGHTS))
    yield "BoLD: the honest side", sum(level.defence_gas for level in bold.ARBITRUM)
    yield (
        "Cannon: what bonds charge",
        optimism.make_ladder().total_wei // optimism.PRICE_WEI,
    )


def show(chain: Chain, wei: float) -> tuple[str, str]:
    """Return an amount in ETH and in the chain's currency."""
    return f"{wei / ETHER:,.5f}", f"{chain.to_fiat(wei):,.2f}"


def tabulate() -> Table:
    """Return the table."""
    table = Table(title="A dispute on every chain", caption="python docs/tools/chains.py")
    table.add_column("protocol")
    table.add_column("chain")
    for name in ("gas", "ETH", "USD", "of it data"):
        table.add_column(name, justify="right")
    calls = [it for it in read_calls(Stage().measure(REFERENCE).played) if it.call != OPENING]
    chains = [find_chain(name) for name in CHAINS]
    for chain in chains:
        bill = charge(calls, chain)
        share = f"{bill.data_wei / bill.total_wei:.0%}" if bill.data_wei else "-"
        amounts = show(chain, bill.total_wei)
        table.add_row("Moot: the reference", chain.name, f"{bill.gas:,}", *amounts, share)
    for protocol, gas in list_published():
        table.add_section()
        for chain in chains:
            # Its calldata is not published: a rollup's data fee is missing, and a draft's floor.
            bill = Bill(gas, gas * chain.fees.price_wei)
            least = "" if chain.name in ("l1-prague", "l1-osaka") else "above "
            amounts = tuple(least + it for it in show(chain, bill.total_wei))
            table.add_row(protocol, chain.name, f"{gas:,}", *amounts, "")
    return table


def main() -> None:
    """Print the table."""
    Console(width=WIDTH).print(tabulate())


if __name__ == "__main__":
    main()
