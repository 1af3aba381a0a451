"""Machines: bare EVMs that run real bytecode, without transactions or blocks.

A call is one message in a block whose number the caller says. It skips signing, fees and mining,
which cost more than the EVM, and what it leaves out is tested on whole chains elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from moot.contracts.compiler import Artifact
from moot.offchain.chain.codec import Codec
from moot.offchain.chain.gas import (
    STANDARD_GAS_PER_TOKEN,
    TRANSACTION_GAS,
    count_calldata_tokens,
)
from moot.offchain.chain.receipts import Address, Log

BALANCE_WEI = 10**30
"""More than any amount that a call may bring."""
BALANCE = -1
"""The slot under which `Words` have a balance."""
GAS = 1 << 24
"""What a call may take, unless it says otherwise."""
CHAIN_ID = 131277322940537
"""That of py-evm's."""
DEPLOYER = b"\xdd" * 20
HALTED = "halted"
"""Why a call is refused that no contract refuses, as one that runs out of gas."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: its logs as (topics, data), or the reason for which it was refused.

    `emitters` are the contracts of which the logs are; `fees` is what whom it has cost, in wei.
    """

    output: bytes
    logs: tuple[tuple[tuple[int, ...], bytes], ...]
    reason: str | None
    emitters: tuple[bytes, ...] = ()
    fees: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployed:
    """A contract: its address, in both spellings, and its codec."""

    address: str
    raw: bytes
    codec: Codec


Words = Mapping[tuple[bytes, int], int]
"""The storage of contracts: words by contract and slot, and under BALANCE an address's balance."""


class Machine(Protocol):
    """An EVM with funded accounts and one contract after another: the n-th has one address."""

    chain_id: int

    def deploy(self, artifact: Artifact, *args: Any, sender: str = "") -> Deployed:
        """Run a deployment, for whose code no limit holds; the sender does not matter."""

    def at(self, artifact: Artifact, address: str) -> Deployed:
        """Return the contract that stands at an address already."""
        return Deployed(address, read_address(address), Codec(artifact.abi))

    def call(
        self, to: bytes, data: bytes, *, sender: str, value_wei: int, block: int, gas: int = GAS
    ) -> Result:
        """Send one message with so much gas; a refused one changes nothing."""

    def answer(self, to: bytes, data: bytes, before: Words, **where: Any) -> tuple[Any, ...]:
        """Make a call on a storage, which stays as it is; accounts have BALANCE_WEI but for it.

        Returns:
            The reason for a refusal, or output, logs and all that is written.
        """

    def storage(self, address: bytes, slot: int) -> int:
        """Return a word of a contract's storage."""

    def balance(self, address: str) -> int:
        """Return a balance in wei."""

    def snapshot(self) -> Any:
        """Return a mark of the present state."""

    def revert(self, mark: Any) -> None:
        """Go back to a mark."""


class Kind(Protocol):
    """A kind of machine."""

    def __call__(self, accounts: Iterable[str]) -> Machine:
        """Make one, in which these lower-case addresses have BALANCE_WEI."""


def name_contract(number: int) -> bytes:
    """Return the address of the contract that is deployed after so many."""
    return bytes([0xC0 + number]) * 20


def calculate_sent_gas(data: bytes) -> int:
    """Return what a transaction with this data costs before its contract is called."""
    return TRANSACTION_GAS + STANDARD_GAS_PER_TOKEN * count_calldata_tokens(data)


def get_word(words: Words, place: tuple[bytes, int]) -> int:
    """Return a word: one that is not there is 0, and such a balance BALANCE_WEI."""
    return words.get(place, BALANCE_WEI if place[1] == BALANCE else 0)


def read_address(address: str) -> bytes:
    """Return an address's bytes."""
    return bytes.fromhex(address.removeprefix("0x"))


def make_log(address: bytes, block: int, topics: Sequence[int], data: bytes) -> Log:
    """Return a log as a chain would, to be decoded."""
    words = tuple(topic.to_bytes(32, "big") for topic in topics)
    return Log(Address("0x" + address.hex()), (block, 0), words, data)
