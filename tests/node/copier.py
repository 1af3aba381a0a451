"""Chains with a front runner, who sees every pending call and makes the same call first."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from moot.offchain.chain import Address
from moot.offchain.chain.receipts import Mined, Transaction
from moot.offchain.chain.tester import Tester
from moot.offchain.errors import ChainError
from tests.node.anvil import ACCOUNTS, MNEMONIC, GatheringNode


@dataclass
class Copier:
    """A front runner that copies calls.

    Attributes:
        account: who sends the copies; None as long as there is nobody.
        spared: the names of calls, and the senders, that it leaves alone.
        accepted: the names of the calls that were accepted from it.
    """

    account: Address | None = None
    spared: frozenset[str] = frozenset()
    accepted: set[str] = field(default_factory=set)

    def copy(self, transaction: Transaction) -> Transaction | None:
        """Return the copier's copy of a transaction, None if it leaves it alone."""
        known = {transaction.sender, transaction.call}
        if self.account is None or self.account in known or known & self.spared:
            return None
        return replace(transaction, sender=self.account)


class WatchedTester(Tester):
    """A chain in memory where the copier's transaction is first in the block."""

    def __init__(self, copier: Copier) -> None:
        super().__init__(ACCOUNTS, mnemonic=MNEMONIC)
        self._copier = copier

    def _put_in_block(self, transaction: Transaction) -> Mined | ChainError:
        copy = self._copier.copy(transaction)
        if copy is not None and isinstance(super()._put_in_block(copy), Mined):
            self._copier.accepted.add(copy.call)
        return super()._put_in_block(transaction)


class WatchedNode(GatheringNode):
    """A node where the copier's transaction is first in the block."""

    def __init__(self, url: str, copier: Copier) -> None:
        super().__init__(url)
        self._copier = copier

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """See Node; all of them and their copies are in one block."""
        together: list[Transaction] = []
        for transaction in transactions:
            copy = self._copier.copy(transaction)
            together += [copy, transaction] if copy else [transaction]
        own = []
        for sent, answer in zip(together, super().send(together), strict=True):
            if sent in transactions:
                own.append(answer)
            elif isinstance(answer, Mined):
                self._copier.accepted.add(sent.call)
        return own
