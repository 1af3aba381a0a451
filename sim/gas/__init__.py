"""Gas: what every call costs in disputes of every kind, and whether that has changed."""

from moot.sim.gas.rows import GasRow, Spread, summarise, tabulate

__all__ = ["GasRow", "Spread", "summarise", "tabulate"]
