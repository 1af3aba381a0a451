"""The records that cross the chain's port: transactions out; logs, events and receipts back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

GAS_LIMIT = 2**24
"""The most gas that a transaction may be offered: the cap of EIP-7825."""

Address = NewType("Address", str)
"""An account or contract: 0x and 40 lower-case hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction before it is sent, for the chain of this id only.

    `call` is its name in messages; `to` is None for a deployment. A block has room for it while
    `gas_limit` is left there, however little it then uses.
    """

    chain_id: int
    call: str
    sender: Address
    to: Address | None
    data: bytes
    value_wei: int
    gas_limit: int = GAS_LIMIT


@dataclass(frozen=True, slots=True)
class Log:
    """An event as the chain stores it: 32-byte topics and ABI-encoded data.

    `place` is its block and its number among the logs of that block; `transaction_hash` is that of
    the transaction that it is of.
    """

    address: Address
    place: tuple[int, int]
    topics: tuple[bytes, ...]
    data: bytes
    transaction_hash: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """Somebody's transaction that is in a block; `gas_price_wei` is what a unit of gas cost."""

    transaction_hash: str
    sender: Address
    to: Address | None
    data: bytes
    gas_used: int
    gas_price_wei: int


@dataclass(frozen=True, slots=True)
class Mined:
    """A node's record of a transaction that succeeded; `contract` is the one that it deployed."""

    transaction_hash: str
    block: int
    gas_used: int
    effective_gas_price: int
    contract: Address | None
    logs: tuple[Log, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded event: its name, and its arguments by name in the order of the ABI.

    An indexed argument of dynamic size is the keccak-256 of its value: the chain keeps no more.
    """

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A call that a contract accepted, and what it cost.

    Gas is in gas, `effective_gas_price` in wei per gas. 21,000 + `gas_calldata` +
    `gas_execution` is `gas_used`; `moot.offchain.chain.gas` says how the two parts are told apart.
    `call` is the function's name, `constructor` for a deployment. `events` holds those of the
    called contract only. `data` is the calldata itself: other chains charge for it by other rules.
    """

    call: str
    sender: Address
    transaction_hash: str
    block: int
    gas_used: int
    calldata_bytes: int
    gas_calldata: int
    gas_execution: int
    effective_gas_price: int
    events: tuple[Event, ...]
    data: bytes = field(default=b"", repr=False)
