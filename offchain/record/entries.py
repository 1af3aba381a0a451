"""The entries of a referee's log: accepted calls, as a chain or a referee in memory has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moot.contracts.model.types import Address, Event, Job
from moot.offchain.record.numbers import LeafCall

_ENCODING_AT = {"enter_tensor": 3, "leaf": 4}
"""The calls that show an operator, and the place of its encoding among their arguments."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One accepted call.

    Attributes:
        block: the block that it is in.
        events: what it has announced; at least one event.
        call: its name; empty where nobody knows it.
        sender: who sent it.
        job: the job that it has opened, if it has.
        encoding: the operator that it has shown, if it has.
        leaf: what it has proven, if it is the last call of a match.
        transaction: its hash on a chain.
        gas: what it used there.
        calldata_bytes: the length of its calldata.
        gas_price_wei: what a unit of gas cost.
    """

    block: int
    events: tuple[Event, ...]
    call: str
    sender: Address
    job: Job | None = None
    encoding: bytes | None = None
    leaf: LeafCall | None = None
    transaction: str = ""
    gas: int = 0
    calldata_bytes: int = 0
    gas_price_wei: int = 0


def read_encoding(call: str, args: Sequence[Any]) -> bytes | None:
    """Return the operator that a call shows, if it is one that does."""
    return bytes(args[_ENCODING_AT[call]]) if call in _ENCODING_AT else None


def read_leaf(call: str, args: Sequence[Any]) -> LeafCall | None:
    """Return what a match's last call proves, if it is that call."""
    if call != "leaf":
        return None
    return LeafCall(int(args[3]), bytes(args[4]), bytes(args[5]), bytes(args[7]))
