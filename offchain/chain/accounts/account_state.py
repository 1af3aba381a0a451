"""The state of an account and of its transactions, as the chain shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from moot.offchain.chain.accounts.journal import Entry
from moot.offchain.chain.receipts import Address
from moot.offchain.chain.transports import Question
from moot.offchain.errors import ChainUnavailable, NodeError

MOST_TOGETHER = 100
"""Questions in one batch, which public nodes allow."""


class Port(Protocol):
    """A node that can be asked many things at once."""

    @property
    def url(self) -> str:
        """Where it is."""

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """Return the results, a NodeError in the place of each refused one."""

    def ask_others(self, questions: Sequence[Question]) -> list[list[Any]]:
        """Return the same of each other node that can be asked now."""

    def distrust(self, problem: str) -> ChainUnavailable:
        """Leave the node for another one, if there is one; return the error that says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A receipt: the block that has the transaction, that block's hash, and all of the receipt."""

    block: int
    block_hash: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account as it was seen: the latest block, the account after it, and receipts by nonce.

    `count` is how many transactions of the account the chain has.
    """

    head: int
    head_hash: str
    base_fee_wei: int
    block_gas: int
    count: int
    balance_wei: int
    receipts: Mapping[int, Found]


def look(
    port: Port, address: Address, entries: Sequence[Entry] = (), last: AccountState | None = None
) -> AccountState:
    """Look at an account and at the receipts of these entries, in all their versions.

    Receipts are asked for only of what the chain counts, and of what is known to be in a block only
    if that block has another hash by now; nothing of either, if there was no block since the last
    look.

    Args:
        port: the node.
        address: the account.
        entries: what may be in blocks.
        last: the last look, if its entries were those of these that had been sent by then.

    Raises:
        ChainUnavailable: the node does not answer, or not as a node does (`answers.py`), or counts
            fewer transactions than its own blocks have.
    """
    state: list[Question] = [
        ("eth_getBlockByNumber", ["latest", False]),
        ("eth_getTransactionCount", [address, "latest"]),
        ("eth_getBalance", [address, "latest"]),
    ]
    # The account is looked at before the receipts: what got in between is merely not seen yet.
    block, count, balance = _ask(port, state)
    sight = AccountState(
        head=int(block["number"], 16),
        head_hash=block["hash"],
        base_fee_wei=int(block["baseFeePerGas"], 16),
        block_gas=int(block["gasLimit"], 16),
        count=int(count, 16),
        balance_wei=int(balance, 16),
        receipts={},
    )
    if last is not None and (last.head_hash, last.count) == (sight.head_hash, sight.count):
        return replace(sight, receipts=last.receipts)
    counted = [entry for entry in entries if entry.nonce < sight.count]
    standing = _find_standing(port, entries)
    if any(nonce >= sight.count for nonce in standing) or _is_behind(port, address, entries, sight):
        raise port.distrust("it counts fewer transactions of an account than its blocks have")
    open_ = [entry for entry in counted if entry.nonce not in standing]
    return replace(sight, receipts=standing | _find_receipts(port, open_))


def _is_behind(port: Port, address: Address, entries: Sequence[Entry], sight: AccountState) -> bool:
    """Whether a block has the next transaction that a node counts on, and it counts no more.

    It may be counted by now: it is asked for once more.
    """
    following = [entry for entry in entries if entry.nonce == sight.count]
    if not _find_receipts(port, following):
        return False
    (count,) = _ask(port, [("eth_getTransactionCount", [address, "latest"])])
    return int(count, 16) <= sight.count


def _find_standing(port: Port, entries: Sequence[Entry]) -> dict[int, Found]:
    """Return the receipts that are known, by nonce, as far as the chain still has their blocks."""
    known = [
        (entry.nonce, Found(entry.block, entry.block_hash, entry.receipt))
        for entry in entries
        if entry.block is not None and entry.receipt is not None
    ]
    blocks = sorted({found.block for _, found in known})
    wanted: list[Question] = [("eth_getBlockByNumber", [hex(it), False]) for it in blocks]
    answers = zip(blocks, _ask(port, wanted), strict=True)
    hashes = {it: raw["hash"] for it, raw in answers if raw is not None}
    return {nonce: it for nonce, it in known if hashes.get(it.block) == it.block_hash}


def _find_receipts(port: Port, entries: Sequence[Entry]) -> dict[int, Found]:
    """Return the receipts of entries by nonce, of those that are in a block."""
    hashes = [(entry.nonce, version.hash) for entry in entries for version in entry.versions]
    wanted: list[Question] = [("eth_getTransactionReceipt", [it]) for _, it in hashes]
    return {
        nonce: Found(int(receipt["blockNumber"], 16), receipt["blockHash"], receipt)
        for (nonce, _), receipt in zip(hashes, _ask(port, wanted), strict=True)
        if receipt is not None
    }


def _ask(port: Port, questions: Sequence[Question]) -> list[Any]:
    answers: list[Any] = []
    for first in range(0, len(questions), MOST_TOGETHER):
        answers += port.ask_many(questions[first : first + MOST_TOGETHER])
    for answer in answers:
        if isinstance(answer, NodeError):
            raise ChainUnavailable(port.url, str(answer)) from answer
    return answers
