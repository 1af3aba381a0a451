"""Records of the simulated chain: transactions, blocks, and what fills blocks besides."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from moot.contracts.model.types import Address, Event
from moot.offchain.disputes.referee.port import Call

BLOCK_S = 12.0
BLOCK_GAS = 30_000_000
TARGET_GAS = BLOCK_GAS // 2
GWEI = 10**9


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction of a call.

    Attributes:
        call: what it does.
        nonce: the number among its sender's.
        max_fee_wei: the most that a unit of gas may cost, the tip included.
        tip_wei: what the builder is offered for a unit of gas.
        gas_limit: the room that it takes.
        digest: the hash under which the chain knows it.
    """

    call: Call
    nonce: int
    max_fee_wei: int
    tip_wei: int
    gas_limit: int
    digest: str

    @property
    def sender(self) -> Address:
        """Whose it is."""
        return self.call.sender

    def tip_at(self, base_fee_wei: int) -> int:
        """Return what a unit of gas pays the builder in a block of this base fee."""
        return min(self.tip_wei, self.max_fee_wei - base_fee_wei)


@dataclass(frozen=True, slots=True)
class Fill:
    """Gas that somebody fills a block with, for a tip: what pays less has to find other room."""

    gas: int
    tip_wei: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a transaction: `reason` says why it was refused, empty if it was not."""

    sent: Sent
    gas_used: int
    price_wei: int
    reason: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The chain's state after a block: copies of all that a reorganisation puts back."""

    tables: tuple[dict[Any, Any], ...]
    numbers: tuple[int, ...]
    balances: dict[Address, int]
    nonces: dict[Address, int]


@dataclass(slots=True)
class Block:
    """A block.

    Attributes:
        number: its number.
        digest: its hash.
        base_fee_wei: the fee that each unit of gas burned.
        receipts: its transactions, in order.
        gas_used: the gas of all of them.
        filled: the gas that others filled it with.
        state: the state after it.
    """

    number: int
    digest: str
    base_fee_wei: int
    receipts: list[Receipt] = field(default_factory=list)
    gas_used: int = 0
    filled: int = 0
    state: State | None = None


def hash_words(*words: object) -> str:
    """Return a hash that nothing else has."""
    return "0x" + sha256("|".join(map(str, words)).encode()).hexdigest()


def name_account(name: str) -> Address:
    """Return the address of somebody with a name."""
    return "0x" + sha256(name.encode()).hexdigest()[:40]
