"""The chain of the node for development: blocks made of what waits in the pool."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from eth.abc import BlockHeaderAPI, ReceiptAPI, SignedTransactionAPI
from eth.exceptions import PyEVMError
from eth.validation import validate_gas_limit
from eth.vm.forks.prague import PragueVM
from eth_typing import Address as RawAddress
from eth_typing import BlockNumber
from eth_utils.exceptions import ValidationError
from rlp.exceptions import RLPException

from moot.offchain.chain.devnode.pool import NotTaken, Pool, calculate_tip
from moot.offchain.chain.receipts import Address, Log, Transaction
from moot.offchain.chain.tester import Tester, read_log
from moot.offchain.errors import ChainError, NodeError

MNEMONIC = "test test test test test test test test test test test junk"
"""Whence nodes for development have their accounts: everybody knows their keys."""


class DevelopmentVM(PragueVM):
    """Prague's rules, but a block may have a higher base fee than its parent leads to."""

    @classmethod
    def validate_gas(cls, header: BlockHeaderAPI, parent_header: BlockHeaderAPI) -> None:
        """Check the limit only."""
        validate_gas_limit(header.gas_limit, parent_header.gas_limit)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a transaction is: its block, its number there, and what its gas came to."""

    block: int
    block_hash: bytes
    index: int
    gas_used: int
    first_log: int
    contract: RawAddress | None
    transaction: SignedTransactionAPI
    receipt: ReceiptAPI


@dataclass(frozen=True, slots=True)
class Content:
    """A block's header, its hash, the hashes of its transactions, and their logs."""

    header: BlockHeaderAPI
    hash: bytes
    hashes: Sequence[bytes]
    logs: Sequence[Log]


class Blocks(Tester):
    """A chain in memory whose transactions come signed, and wait in a pool for their block.

    Attributes:
        pool: what waits.
        least_base_fee: wei below which the base fee does not fall; a test of dear gas sets it.
    """

    def __init__(self, accounts: int, mnemonic: str = MNEMONIC) -> None:
        self.pool = Pool()
        self.least_base_fee = 0
        self._places: dict[bytes, Place] = {}
        self._made: list[Place] = []
        super().__init__(
            accounts, vm=DevelopmentVM, mnemonic=mnemonic, genesis_time=int(time.time())
        )
        genesis = self._chain.get_canonical_head()
        self._line = [Content(genesis, genesis.hash, (), ())]

    def take_raw(self, raw: bytes) -> bytes:
        """Put a signed transaction into the pool, and return its hash; raise NodeError if not."""
        builder = self._chain.get_vm().get_transaction_builder()
        try:
            transaction = builder.decode(raw)
            self._check(transaction)
            self.pool.add(transaction, self.get_count(transaction.sender))
        except NotTaken as refusal:
            raise NodeError("eth_sendRawTransaction", str(refusal)) from refusal
        except (PyEVMError, ValidationError, RLPException, TypeError, ValueError) as error:
            problem = f"invalid transaction: {error}"
            raise NodeError("eth_sendRawTransaction", problem) from error
        return transaction.hash

    def sign(self, transaction: Transaction, nonce: int, fees: tuple[int, int]) -> bytes:
        """Sign with a key of this node: the fees are the maximum and the tip."""
        return self.sign_with(transaction, nonce, fees).encode()

    def make_block(self) -> None:
        """Make one block of what waits and pays enough, as builders do.

        Of the next transactions of all accounts it takes the one with the highest tip. One that the
        block has no room left for waits, with what comes after it of its account; others go on.
        """
        base_fee = self.next_base_fee()
        self._chain.header = self._chain.header.copy(base_fee_per_gas=base_fee)
        self._made = []
        self._fill(base_fee)
        self._mine_block()
        head = self._chain.get_canonical_head()
        for place in self._made:
            placed = replace(place, block=head.block_number, block_hash=head.hash)
            self._places[place.transaction.hash] = placed
        logs = [
            read_log(log, (head.block_number, place.first_log + index), place.transaction.hash)
            for place in self._made
            for index, log in enumerate(place.receipt.logs)
        ]
        hashes = [place.transaction.hash for place in self._made]
        self._line.append(Content(head, head.hash, hashes, logs))

    def find(self, transaction_hash: bytes) -> Place | None:
        """Return where a transaction is on the present chain."""
        place = self._places.get(transaction_hash)
        if place is None or self.get_block_hash(place.block) != place.block_hash:
            return None
        return place

    def get_header(self, number: int) -> BlockHeaderAPI | None:
        """Return a header of the present chain."""
        if not 0 <= number <= self.get_block_number():
            return None
        return self._line[number].header

    def list_hashes(self, number: int) -> Sequence[bytes]:
        """Return the hashes of a block's transactions."""
        return self._line[number].hashes

    def get_block_hash(self, number: int) -> bytes | None:
        """See Node."""
        return self._line[number].hash if 0 <= number < len(self._line) else None

    def get_logs(
        self, address: Address, first: int, last: int, keys: Sequence[bytes] = ()
    ) -> tuple[Log, ...]:
        """See Node."""
        chosen = set(keys)
        return tuple(
            log
            for block in self._line[max(0, first) : last + 1]
            for log in block.logs
            if log.address == address and (not keys or chosen.intersection(log.topics[1:2]))
        )

    def revert(self, mark: Any) -> None:
        """See Node."""
        super().revert(mark)
        del self._line[self.get_block_number() + 1 :]

    def get_count(self, sender: RawAddress) -> int:
        """Return how many transactions of a sender the chain has."""
        return self._chain.get_vm().state.get_nonce(sender)

    def next_base_fee(self) -> int:
        """Return the base fee of the block that is to come."""
        return max(self._chain.header.base_fee_per_gas or 0, self.least_base_fee)

    def reorganise(self, depth: int, *, is_kept: bool) -> None:
        """Put one block more in the place of the latest ones.

        What was in them waits for a block again if it is kept; otherwise it is gone.
        """
        last = self.get_block_number()
        parent = self.get_block_hash(last - depth)
        if not 0 < depth < last or parent is None:
            raise ChainError(f"of {last} blocks, 1 to {last - 1} can be replaced, not {depth}")
        numbers = map(BlockNumber, range(last - depth + 1, last + 1))
        undone = [
            transaction
            for number in numbers
            for transaction in self._chain.get_canonical_block_by_number(number).transactions
        ]
        self.revert(parent)
        for transaction in undone if is_kept else ():
            with suppress(NotTaken):
                self.pool.add(transaction, self.get_count(transaction.sender))
        self.mine(depth + 1)

    def mine(self, blocks: int) -> None:
        """See Node."""
        for _ in range(blocks):
            self.make_block()

    def send(self, transactions: Sequence[Transaction]) -> list[object]:  # type: ignore[override] # clients send what is signed
        """Refuse: this chain takes signed transactions only."""
        raise ChainError(f"{len(transactions)} transactions are not signed")

    def _check(self, transaction: SignedTransactionAPI) -> None:
        """Refuse what no block could ever hold."""
        transaction.validate()
        if transaction.chain_id != self.get_chain_id():
            raise NotTaken(f"invalid chain id for signer: have {transaction.chain_id}")
        if transaction.gas > self._chain.header.gas_limit:
            raise NotTaken("exceeds block gas limit")
        if transaction.gas < transaction.intrinsic_gas:
            raise NotTaken("intrinsic gas too low")
        need = transaction.value + transaction.gas * transaction.max_fee_per_gas
        have = self._chain.get_vm().state.get_balance(transaction.sender)
        if have < need:
            raise NotTaken(f"insufficient funds for gas * price + value: have {have} want {need}")

    def _fill(self, base_fee: int) -> None:
        """Put what waits into the block in the making, the highest tip first."""
        heads: list[tuple[int, int, SignedTransactionAPI]] = []

        def add(sender: RawAddress) -> None:
            found = self.pool.choose(sender, self.get_count(sender), base_fee)
            if found is not None:
                bid = -calculate_tip(found, base_fee), self.pool.get_place(found)
                heappush(heads, (*bid, found))

        for sender in list(self.pool.waiting):
            add(sender)
        while heads:
            transaction = heappop(heads)[-1]
            header = self._chain.header
            if header.gas_limit - header.gas_used >= transaction.gas:
                self._include(transaction)
                add(transaction.sender)

    def _include(self, transaction: SignedTransactionAPI) -> None:
        """Execute a transaction in the block in the making; forget it if that cannot be."""
        header = self._chain.header
        try:
            receipt, computation = self._apply(transaction)
        except (ValidationError, PyEVMError):
            self.pool.drop(transaction)
            return
        self.pool.take(transaction)
        created = None if transaction.to else computation.msg.storage_address
        logs = sum(len(place.receipt.logs) for place in self._made)
        gas_used = receipt.gas_used - header.gas_used
        where = (header.block_number, b"", len(self._made), gas_used, logs, created)
        self._made.append(Place(*where, transaction, receipt))

    def _set_time(self) -> None:
        parent = self._chain.get_canonical_head().timestamp
        self._chain.set_header_timestamp(max(parent + 1, int(time.time())))
