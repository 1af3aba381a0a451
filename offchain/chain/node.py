"""The port to a chain: all that Moot asks of one, of the tester and of a JSON-RPC node alike."""

from collections.abc import Sequence
from typing import Any, Protocol

from moot.offchain.chain.receipts import Address, Log, Mined, Past, Transaction
from moot.offchain.errors import ChainError, ChainUnavailable

CALL_GAS_LIMIT = 30_000_000
"""The gas that a view may use, for which nobody pays."""


class Node(Protocol):
    """A chain, and the accounts on it that we may use.

    Every method raises only errors of `moot.offchain.errors`; each may raise ChainUnavailable.
    """

    def get_chain_id(self) -> int:
        """Return the id that the chain has at this moment."""

    def get_accounts(self) -> tuple[Address, ...]:
        """Return the accounts that can send, in the node's order."""

    def get_block_number(self) -> int:
        """Return the number of the latest block."""

    def get_balance(self, address: Address) -> int:
        """Return a balance, in wei, after the latest block."""

    def get_code(self, address: Address) -> bytes:
        """Return the code of a contract after the latest block, empty if there is none."""

    def get_block_hash(self, number: int) -> bytes | None:
        """Return the hash of a block; None if the chain has none of this number."""

    def get_logs(
        self, address: Address, first: int, last: int, keys: Sequence[bytes] = ()
    ) -> tuple[Log, ...]:
        """Return the logs of a contract from block `first` to block `last`, in order.

        If there are keys, only those whose second topic, the first indexed argument, is one.
        """

    def get_past(self, transaction_hash: str, block: int) -> Past | None:
        """Return a transaction of a block; None if the chain has it there no longer."""

    def view(self, call: str, to: Address, data: bytes) -> bytes:
        """Return what a call would return after the latest block, or raise Reverted."""

    def get_block_gas(self) -> int:
        """Return how much gas the latest block has room for."""

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """Send transactions, all before any is waited for, and wait until blocks have them.

        Those of one sender get into the chain in the order given. What becomes of one does not
        change what becomes of the others, in whose place in the result is what it came to:

        - Mined: it is in a block, and succeeded;
        - Reverted: it is in a block, and failed;
        - TransactionRefused: it was not taken, and changed nothing;
        - TransactionLost: it was taken, and no block has it in time, or another with its nonce.
        """

    def mine(self, blocks: int) -> None:
        """Let the chain grow by this many blocks."""

    def snapshot(self) -> Any:
        """Return a mark for `revert`; what it is depends on the node."""

    def revert(self, mark: Any) -> None:
        """Put the chain back to a mark, which may be used once."""

    def distrust(self, problem: str) -> ChainUnavailable:
        """Leave the node for another one, if there is one; return the error that says why."""

    def close(self) -> None:
        """Give up the connection."""
