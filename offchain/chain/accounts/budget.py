"""What an account has to hold: what transactions may take of it, and what it lacks for that."""

from collections.abc import Iterable

from moot.offchain.chain.accounts.fees import Fees
from moot.offchain.chain.receipts import Transaction


def calculate_reserve(transaction: Transaction, fees: Fees) -> int:
    """Return the most that a transaction takes from its account, in wei.

    So much has to be there for it, until a block has it, however little it takes then.
    """
    return transaction.value_wei + transaction.gas_limit * fees.max_fee_wei


def find_shortage(balance_wei: int, reserves_wei: Iterable[int]) -> int:
    """Return how many wei an account lacks for all that is reserved; 0 if it has enough."""
    return max(0, sum(reserves_wei) - balance_wei)
