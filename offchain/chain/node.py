"""The port: what Moot needs of a chain, which the tester and a JSON-RPC node both provide."""

from typing import Any, Protocol

from offchain.chain.receipts import Address, Log, Mined, Transaction

GAS_LIMIT = 2**24
"""Gas offered with every transaction, so that nobody estimates: the cap of EIP-7825."""

CALL_GAS_LIMIT = 30_000_000
"""Gas given to a view, which nobody pays for."""


class Node(Protocol):
    """A chain, and the accounts on it that we may use.

    Every method raises only errors of `offchain.errors`; each may raise ChainUnavailable.
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

    def get_logs(self, address: Address, first: int, last: int) -> tuple[Log, ...]:
        """Return the logs of a contract from block `first` to block `last`, in order."""

    def view(self, call: str, to: Address, data: bytes) -> bytes:
        """Return what a call would return after the latest block, or raise Reverted."""

    def send(self, transaction: Transaction) -> Mined:
        """Send, and wait until a block has it.

        Raises:
            TransactionRefused: it was not taken, and changed nothing.
            Reverted: it is in a block, and failed.
            TransactionLost: it was taken, and no block has it in time.
        """

    def mine(self, blocks: int) -> None:
        """Let the chain grow by this many blocks."""

    def snapshot(self) -> Any:
        """Return a mark for `revert`; what it is depends on the node."""

    def revert(self, mark: Any) -> None:
        """Put the chain back to a mark, which may be used once."""

    def close(self) -> None:
        """Give up the connection."""
