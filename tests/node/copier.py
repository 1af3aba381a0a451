"""Chains where somebody sees every call before it is in a block, and makes it first."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from offchain.chain import Address
from offchain.chain.jsonrpc import JsonRpc
from offchain.chain.receipts import Mined, Transaction
from offchain.chain.tester import Tester
from offchain.errors import TransactionRefused
from tests.node.anvil import ACCOUNTS, MNEMONIC

PATIENCE_S = 60.0


@dataclass
class Copier:
    """Copies calls.

    Attributes:
        account: who sends the copies; None as long as there is nobody.
        spared: the names of calls, and the senders, that it leaves alone.
        accepted: the names of the calls that were accepted from it.
    """

    account: Address | None = None
    spared: frozenset[str] = frozenset()
    accepted: set[str] = field(default_factory=set)

    def copy(self, transaction: Transaction) -> Transaction | None:
        """Return what the copier makes of a transaction, if it minds it."""
        known = {transaction.sender, transaction.call}
        if self.account is None or self.account in known or known & self.spared:
            return None
        return replace(transaction, sender=self.account)


class WatchedTester(Tester):
    """A chain in memory where the copier's transaction is first in the block."""

    def __init__(self, copier: Copier) -> None:
        super().__init__(ACCOUNTS, mnemonic=MNEMONIC)
        self._copier = copier

    def send(self, transaction: Transaction) -> Mined:
        """See Node."""
        copy = self._copier.copy(transaction)
        if copy is not None:
            with suppress(TransactionRefused):
                _, computation = self._apply(self._sign(copy))
                if computation.is_success:
                    self._copier.accepted.add(copy.call)
        return super().send(transaction)


class WatchedNode(JsonRpc):
    """A node where the copier's transaction is first in the block."""

    def __init__(self, url: str, copier: Copier) -> None:
        super().__init__(url, PATIENCE_S)
        self._copier = copier
        self._is_held = False

    def send(self, transaction: Transaction) -> Mined:
        """See Node."""
        copy = self._copier.copy(transaction)
        if copy is None:
            return super().send(transaction)
        self._hold(True)
        copied = self._ask("eth_sendTransaction", self._make_request(copy))
        try:
            return super().send(transaction)
        finally:
            self._hold(False)
            receipt = self._ask("eth_getTransactionReceipt", copied)
            if int(receipt["status"], 16):
                self._copier.accepted.add(copy.call)

    def _hold(self, is_held: bool) -> None:  # noqa: FBT001 - as the node has it
        """Say whether transactions wait until all are there that belong into a block."""
        self._is_held = is_held
        self._ask("evm_setAutomine", not is_held)

    def _await_receipt(self, call: str, transaction_hash: str) -> Any:
        if self._is_held:
            self._ask("evm_mine")
        return super()._await_receipt(call, transaction_hash)
