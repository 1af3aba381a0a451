"""The ledger of a simulated market: who has how much, free and locked, and where the rest went.

All amounts are whole gwei. What agents bring comes from outside, so that all of it adds up to 0.
"""

import numpy as np

from moot.offchain.errors import MootError, UsageError

MOST_GWEI = 4 * 10**18
"""What may come from outside: sums of it fit into 64 bits."""


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
        outside: less what agents have brought, and what they took away or paid for censors and
            for capital.
        fund: what pays for audits.
        bonds: what open jobs have locked, counted job by job.
    """

    def __init__(self) -> None:
        self._amounts = np.zeros((2, 0), np.int64)
        self.free, self.locked = (row.data for row in self._amounts)
        self.burned = self.fees = self.work = self.outside = self.fund = self.bonds = 0

    def open(self, capital_gwei: int) -> int:
        """Open an account for somebody who brings so much; return its number."""
        number = len(self.free)
        account = np.array([[capital_gwei], [0]], np.int64)
        # All amounts lie side by side, so that one look is enough for all of them; rows are read
        # and written one by one through their buffers, without numpy's own integers.
        self._amounts = np.concatenate([self._amounts, account], axis=1)
        self.free, self.locked = (row.data for row in self._amounts)
        self.bring(capital_gwei)
        return number

    def bring(self, amount_gwei: int) -> None:
        """Count what comes from outside; raises UsageError if that is more than can be counted."""
        self.outside -= amount_gwei
        if -self.outside > MOST_GWEI:
            raise UsageError(
                f"agents bring and gain more than {MOST_GWEI // 10**9:,} ETH, and there is a 30th "
                "of that; lower what they have, or what jobs are worth"
            )

    def check(self, block: int) -> tuple[int, int]:
        """Check all that holds of the money after every block; return what is free and locked.

        Raises:
            BrokenLedgerError: it does not add up, somebody has less than nothing, or the locked
                money is not that of the open jobs.
        """
        # As few calls of numpy as will do: each costs as much as adding up all accounts.
        free, locked = np.add.reduce(self._amounts, 1).tolist()
        sinks = self.burned + self.fees + self.work + self.outside + self.fund
        if free + locked + sinks:
            raise BrokenLedgerError(f"block {block}: {free + locked + sinks} gwei too much")
        if locked != self.bonds:
            raise BrokenLedgerError(f"block {block}: {locked} gwei are locked, not {self.bonds}")
        # The sign of numbers that are joined bit by bit is that of any of them.
        if np.bitwise_or.reduce(self._amounts.reshape(-1)) < 0 or self.fund < 0:
            raise BrokenLedgerError(f"block {block}: somebody has less than nothing")
        return free, locked
