"""The table that says who was paid."""

from typing import Any

from rich.table import Table


def make_ledger_table(ledger: dict[str, Any]) -> Table:
    """Return what a dispute has changed in every account, from a report's ledger in wei."""
    table = Table("account", "change in ETH", title="who was paid")
    table.columns[1].justify = "right"
    for name, change in (*ledger["by_account"].items(), ("burned", ledger["burned"])):
        table.add_row(name, f"{change / 10**18:+.6f}")
    return table
