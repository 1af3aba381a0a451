"""The ledger of a simulated market: who has how much, free and locked, and where the rest went.

All amounts are whole gwei. What agents bring comes from outside, so that all of it adds up to 0.
"""

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
        self._count = 0
        self._amounts = np.zeros((2, 64), np.int64)
        self._share_out()
        self.burned = self.fees = self.work = self.outside = self.fund = self.bonds = 0

    def _share_out(self) -> None:
        """Let rows of numbers be read and written one by one, without numpy's own integers."""
        self.free, self.locked = (row.data for row in self._amounts)

    def open(self, capital_gwei: int) -> int:
        """Open an account for somebody who brings so much; return its number."""
        number = self._count
        if number == self._amounts.shape[1]:
            self._amounts = np.concatenate([self._amounts, np.zeros_like(self._amounts)], axis=1)
            self._share_out()
        self.free[number] = capital_gwei
        self.outside -= capital_gwei
        self._count += 1
        return number

    def check(self, block: int) -> tuple[int, int]:
        """Check all that holds of the money after every block; return what is free and locked.

        Raises:
            BrokenLedgerError: it does not add up, somebody has less than nothing, or the locked
                money is not that of the open jobs.
        """
        amounts = self._amounts[:, : self._count]
        free, locked = np.add.reduce(amounts, axis=1).tolist()
        sinks = self.burned + self.fees + self.work + self.outside + self.fund
        if free + locked + sinks:
            raise BrokenLedgerError(f"block {block}: {free + locked + sinks} gwei too much")
        if locked != self.bonds:
            raise BrokenLedgerError(f"block {block}: {locked} gwei are locked, not {self.bonds}")
        if amounts.min() < 0 or self.fund < 0:
            raise BrokenLedgerError(f"block {block}: somebody has less than nothing")
        return free, locked
