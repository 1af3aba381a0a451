"""The pool: transactions that wait for a block, in the order in which a block takes them."""

from dataclasses import dataclass, field

from eth.abc import SignedTransactionAPI
from eth_typing import Address as RawAddress

REPLACEMENT = (9, 8)
"""A transaction takes the place of another of its nonce for fees that are an eighth higher."""
MOST_WAITING = 4_096
MOST_OF_A_SENDER = 512


class NotTaken(Exception):  # noqa: N818 - says what is the case
    """The pool does not take a transaction; the message says why, as nodes do."""


@dataclass(slots=True)
class Pool:
    """Transactions by sender and nonce, and by their hashes which came after which."""

    waiting: dict[RawAddress, dict[int, SignedTransactionAPI]] = field(default_factory=dict)
    _places: dict[bytes, int] = field(default_factory=dict)
    _came: int = 0

    def add(self, transaction: SignedTransactionAPI, count: int) -> None:
        """Take a transaction of a sender who has made `count` so far.

        Raises:
            NotTaken: its nonce is used, its fees do not replace those of another, or all is full.
        """
        own = self.waiting.get(transaction.sender, {})
        nonce = transaction.nonce
        if nonce < count:
            raise NotTaken(f"nonce too low: next nonce {count}, tx nonce {nonce}")
        if nonce >= count + MOST_OF_A_SENDER or sum(map(len, self.waiting.values())) > MOST_WAITING:
            raise NotTaken("txpool is full")
        there = own.get(nonce)
        if there is not None and there.hash == transaction.hash:
            raise NotTaken("already known")
        if there is not None and not _outbids(transaction, there):
            raise NotTaken("replacement transaction underpriced")
        self.waiting.setdefault(transaction.sender, own)[nonce] = transaction
        self._came += 1
        self._places[transaction.hash] = self._came
        if there is not None:
            self._places.pop(there.hash, None)

    def take(self, transaction: SignedTransactionAPI) -> None:
        """Forget a transaction, and all of its sender's with this nonce or a lower one."""
        own = self.waiting.get(transaction.sender, {})
        for nonce in [nonce for nonce in own if nonce <= transaction.nonce]:
            self._places.pop(own.pop(nonce).hash, None)
        if not own:
            self.waiting.pop(transaction.sender, None)

    def drop(self, transaction: SignedTransactionAPI) -> None:
        """Forget this transaction only."""
        self.waiting.get(transaction.sender, {}).pop(transaction.nonce, None)
        self._places.pop(transaction.hash, None)

    def get_place(self, transaction: SignedTransactionAPI) -> int:
        """Return which of all that ever came a transaction was that waits here."""
        return self._places[transaction.hash]

    def find(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Return the transaction of this hash, if it waits here."""
        for own in self.waiting.values():
            for transaction in own.values():
                if transaction.hash == transaction_hash:
                    return transaction
        return None

    def count_next(self, sender: RawAddress, count: int) -> int:
        """Return the first nonce that is free for a sender who has made `count` so far."""
        own = self.waiting.get(sender, {})
        while count in own:
            count += 1
        return count

    def choose(self, sender: RawAddress, nonce: int, base_fee: int) -> SignedTransactionAPI | None:
        """Return a sender's transaction of this nonce, if it pays the base fee."""
        found = self.waiting.get(sender, {}).get(nonce)
        return found if found is not None and found.max_fee_per_gas >= base_fee else None


def calculate_tip(transaction: SignedTransactionAPI, base_fee: int) -> int:
    """Return what the maker of a block of this base fee gets for a unit of gas, in wei."""
    spare = transaction.max_fee_per_gas - base_fee
    return min(transaction.max_priority_fee_per_gas, spare)


def _outbids(new: SignedTransactionAPI, old: SignedTransactionAPI) -> bool:
    more, than = REPLACEMENT
    return (
        new.max_fee_per_gas * than >= old.max_fee_per_gas * more
        and new.max_priority_fee_per_gas * than >= old.max_priority_fee_per_gas * more
    )
