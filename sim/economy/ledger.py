"""The ledger of a simulated market: who has how much, free and locked, and where the rest went.

All amounts are whole gwei. What agents bring comes from outside, so that all of it adds up to 0.
"""

from array import array

import numpy as np

from offchain.errors import MootError


class BrokenLedgerError(MootError):
    """The money of a simulated market does not add up, or somebody has less than nothing."""


class Ledger:
    """The accounts of agents, by their numbers, and the sinks.

    Attributes:
        free: what each agent can use.
        locked: what each has locked in open jobs.
        burned: what the rules have burned.
        fees: what was paid for gas.
        work: what was paid for computing.
        outside: less what agents have brought, and what they took away or paid to censors.
        fund: what pays for audits.
        bonds: what open jobs have locked, counted job by job.
    """

    def __init__(self) -> None:
        self.free: array[int] = array("q")
        self.locked: array[int] = array("q")
        self.burned = self.fees = self.work = self.outside = self.fund = self.bonds = 0

    def open(self, capital_gwei: int) -> int:
        """Open an account for somebody who brings so much; return its number."""
        self.free.append(capital_gwei)
        self.locked.append(0)
        self.outside -= capital_gwei
        return len(self.free) - 1

    def sum_free(self) -> int:
        """Return what all agents have that is not locked."""
        return int(np.frombuffer(self.free, np.int64).sum())

    def sum_locked(self) -> int:
        """Return what all agents have locked."""
        return int(np.frombuffer(self.locked, np.int64).sum())

    def check(self, block: int) -> tuple[int, int]:
        """Check all that holds of the money after every block; return what is free and locked.

        Raises:
            BrokenLedgerError: it does not add up, somebody has less than nothing, or the locked
                money is not that of the open jobs.
        """
        free, locked = np.frombuffer(self.free, np.int64), np.frombuffer(self.locked, np.int64)
        sums = int(free.sum()), int(locked.sum())
        sinks = self.burned + self.fees + self.work + self.outside + self.fund
        if sum(sums) + sinks:
            raise BrokenLedgerError(f"block {block}: {sum(sums) + sinks} gwei too much")
        if sums[1] != self.bonds:
            raise BrokenLedgerError(f"block {block}: {sums[1]} gwei are locked, not {self.bonds}")
        if free.min() < 0 or locked.min() < 0 or self.fund < 0:
            raise BrokenLedgerError(f"block {block}: somebody has less than nothing")
        return sums
