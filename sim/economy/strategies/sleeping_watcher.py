"""A sleeping watcher: it takes part, and does nothing."""

from dataclasses import dataclass

from moot.sim.economy.strategies.base import Strategy


@dataclass
class SleepingWatcher(Strategy):
    """The strategy of a watcher that looks at nothing, which is what a strategy does by itself."""
