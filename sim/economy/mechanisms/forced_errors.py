"""Forced errors: providers are now and then told to be wrong, and whoever notices is paid.

Truebit's answer to the verifier's dilemma. The provider commits to both answers and shows, when
nobody has objected in time, that the error was forced; it loses nothing. A watcher that was asked
and has not noticed has not checked.
"""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI
from moot.sim.economy.mechanisms.base import Audit, check_rate


@dataclass(frozen=True, slots=True)
class ForcedErrors(Audit):
    """The rule that a share `forced` of jobs is wrong on purpose, and worth `jackpot_eth` to find.

    A share `rate` of all jobs is shown to a watcher; nobody is paid for looking alone. Clients pay
    the jackpots.
    """

    rate: float = 1.0
    forced: float = 0.02
    jackpot_eth: float = 2.0

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if not 0 <= self.forced < 1 or self.jackpot_eth < 0:
            raise UsageError("forced is from 0 to below 1, and jackpot_eth is 0 or more")

    def choose_rate(self, reputation: float) -> float:
        """Return the same rate for all."""
        del reputation
        return self.rate

    def choose_forced_rate(self) -> float:
        """Return how often an error is forced."""
        return self.forced

    def choose_jackpot(self) -> int:
        """Return what a forced error is worth."""
        return round(self.jackpot_eth * GWEI)
