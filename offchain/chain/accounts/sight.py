"""What the chain shows of an account and its transactions, in one exchange with a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from offchain.chain.accounts.journal import Entry
from offchain.chain.receipts import Address
from offchain.chain.transports import Question
from offchain.errors import ChainUnavailable, NodeError

MOST_TOGETHER = 100
"""Questions in one batch, which public nodes allow."""


class Port(Protocol):
    """A node that can be asked many things at once."""

    @property
    def url(self) -> str:
        """Where it is."""

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """Return the results, a NodeError in the place of each refused one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A receipt: the block that has the transaction, that block's hash, and all of the receipt."""

    block: int
    block_hash: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen: the latest block, the account after it, and receipts by nonce.

    `count` is how many transactions of the account the chain has.
    """

    head: int
    base_fee_wei: int
    block_gas: int
    count: int
    balance_wei: int
    receipts: Mapping[int, Found]


def look(port: Port, address: Address, entries: Sequence[Entry]) -> Sight:
    """Look at an account and at the receipts of these entries, in all their versions.

    Raises:
        ChainUnavailable: the node does not answer, or not as a node does.
    """
    state: list[Question] = [
        ("eth_getBlockByNumber", ["latest", False]),
        ("eth_getTransactionCount", [address, "latest"]),
        ("eth_getBalance", [address, "latest"]),
    ]
    hashes = [(entry.nonce, version.hash) for entry in entries for version in entry.versions]
    wanted: list[Question] = [("eth_getTransactionReceipt", [it]) for _, it in hashes]
    # The account is looked at before the receipts: what got in between is merely not seen yet.
    answers = _ask(port, state + wanted)
    try:
        block, count, balance = answers[:3]
        receipts = {
            nonce: _read(receipt, transaction_hash)
            for (nonce, transaction_hash), receipt in zip(hashes, answers[3:], strict=True)
            if receipt is not None
        }
        return Sight(
            head=int(block["number"], 16),
            base_fee_wei=int(block.get("baseFeePerGas") or "0x0", 16),
            block_gas=int(block["gasLimit"], 16),
            count=int(count, 16),
            balance_wei=int(balance, 16),
            receipts=receipts,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ChainUnavailable(port.url, "its answers make no sense") from error


def _ask(port: Port, questions: Sequence[Question]) -> list[Any]:
    answers: list[Any] = []
    for first in range(0, len(questions), MOST_TOGETHER):
        answers += port.ask_many(questions[first : first + MOST_TOGETHER])
    for answer in answers:
        if isinstance(answer, NodeError):
            raise ChainUnavailable(port.url, str(answer)) from answer
    return answers


def _read(receipt: Any, transaction_hash: str) -> Found:
    if receipt["transactionHash"].lower() != transaction_hash:
        raise ValueError(receipt["transactionHash"])
    return Found(int(receipt["blockNumber"], 16), str(receipt["blockHash"]), receipt)
