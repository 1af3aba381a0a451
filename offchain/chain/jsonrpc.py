"""A node behind JSON-RPC, whose own unlocked accounts send: anvil, hardhat, geth --dev."""

import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from moot.offchain.chain.answers import (
    CheckedTransport,
    clean,
    parse_address,
    parse_data,
    parse_log,
)
from moot.offchain.chain.endpoints import Endpoints
from moot.offchain.chain.receipts import Address, Log, Mined, Past, Transaction
from moot.offchain.chain.reverts import (
    NO_REASON,
    OUT_OF_GAS,
    decode_revert,
    is_failure_of_contract,
    parse_failure,
)
from moot.offchain.chain.transports import Question, Transport, open_transport
from moot.offchain.errors import (
    ChainError,
    ChainUnavailable,
    NodeError,
    Reverted,
    TransactionLost,
    TransactionRefused,
)

FIRST_POLL_S = 0.01
LAST_POLL_S = 1.0
PAGE_BLOCKS = 2_000
"""Logs are asked for in ranges of so many blocks, which public nodes allow."""
MANY_LOGS = 10_000
"""An answer with so many logs may have been cut there."""

_HEX_DATA = re.compile(r"0x((?:[0-9a-fA-F]{2})+)")
_MINE_MANY = ("anvil_mine", "hardhat_mine")
_FEES = ("maxFeePerGas", "maxPriorityFeePerGas", "gasPrice")
_FEE_RAISE = (5, 4)
"""A transaction takes another's place in the pool for a tenth more; this is a quarter."""


@dataclass(slots=True)
class _Sent:
    """A transaction on its way: as it was asked for, and by what hashes it may get into a block."""

    place: int
    transaction: Transaction
    request: dict[str, str]
    hashes: list[str] = field(default_factory=list)


class JsonRpc:
    """A node at a URL, given `patience_seconds` for whatever takes a block."""

    def __init__(
        self, url: str, patience_seconds: float, transport: Transport | None = None
    ) -> None:
        self._url = url
        self._patience_s = patience_seconds
        if not isinstance(transport, Endpoints):  # which checks what each node says
            way = open_transport(url) if transport is None else transport
            transport = CheckedTransport(url, way)
        self._transport: CheckedTransport | Endpoints = transport
        self._block_gas = self.get_block_gas()
        self._page_blocks = PAGE_BLOCKS

    @property
    def url(self) -> str:
        """Where the node is."""
        return self._url

    def get_chain_id(self) -> int:
        """See Node."""
        return self._ask_quantity("eth_chainId")

    def get_accounts(self) -> tuple[Address, ...]:
        """See Node."""
        return tuple(map(Address, self._ask("eth_accounts")))

    def get_block_number(self) -> int:
        """See Node."""
        return self._ask_quantity("eth_blockNumber")

    def get_balance(self, address: Address) -> int:
        """See Node."""
        return self._ask_quantity("eth_getBalance", address, "latest")

    def get_code(self, address: Address) -> bytes:
        """See Node."""
        return self._ask_data("eth_getCode", address, "latest")

    def get_block_hash(self, number: int) -> bytes | None:
        """See Node."""
        block = self._ask("eth_getBlockByNumber", hex(number), False)
        return None if block is None else parse_data(block["hash"])

    def get_logs(
        self, address: Address, first: int, last: int, keys: Sequence[bytes] = ()
    ) -> tuple[Log, ...]:
        """See Node; asked for page by page, of fewer blocks where the node refuses a page."""
        logs: list[Log] = []
        # A chain that has become shorter may end before `first`, where nodes refuse to look.
        while first <= last:
            end = min(last, first + self._page_blocks - 1)
            try:
                page = self._ask_logs(address, first, end, keys)
            except NodeError as refusal:
                if end == first:
                    raise ChainUnavailable(self._url, str(refusal)) from refusal
                page = None
            if end > first and (page is None or len(page) >= MANY_LOGS):
                self._page_blocks = (end - first + 1) // 2
                continue
            # What a node has refused once it may take some blocks later.
            self._page_blocks = min(2 * self._page_blocks, PAGE_BLOCKS)
            logs += page or ()
            first = end + 1
        return tuple(logs)

    def _ask_logs(
        self, address: Address, first: int, last: int, keys: Sequence[bytes]
    ) -> tuple[Log, ...]:
        wanted: dict[str, Any] = {"address": address, "fromBlock": hex(first), "toBlock": hex(last)}
        if keys:
            wanted["topics"] = [None, [_show(key) for key in keys]]
        return tuple(map(parse_log, self._ask("eth_getLogs", wanted)))

    def get_past(self, transaction_hash: str, block: int) -> Past | None:
        """See Node."""
        sent = self._ask("eth_getTransactionByHash", transaction_hash)
        receipt = self._ask("eth_getTransactionReceipt", transaction_hash)
        if sent is None or receipt is None:
            return None
        if int(receipt["blockNumber"], 16) != block:
            return None
        return Past(
            transaction_hash=transaction_hash,
            sender=parse_address(sent["from"]),
            to=None if sent.get("to") is None else parse_address(sent["to"]),
            data=parse_data(sent["input"]),
            gas_used=int(receipt["gasUsed"], 16),
            gas_price_wei=int(receipt["effectiveGasPrice"], 16),
        )

    def view(self, call: str, to: Address, data: bytes) -> bytes:
        """See Node."""
        try:
            return self._ask_data("eth_call", {"to": to, "data": _show(data)}, "latest")
        except NodeError as error:
            if _is_revert(error):
                raise Reverted(_explain(error), call) from error
            raise

    def get_block_gas(self) -> int:
        """See Node."""
        return int(self._ask("eth_getBlockByNumber", "latest", False)["gasLimit"], 16)

    @property
    def in_use(self) -> str:
        """The address of the node that is asked now."""
        return self._transport.url

    def distrust(self, problem: str) -> ChainUnavailable:
        """See Node."""
        if isinstance(self._transport, Endpoints):
            self._transport.distrust(problem)
        return ChainUnavailable(self._url, problem)

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """See Node."""
        answers: dict[int, Mined | ChainError] = {}
        queues: dict[Address, deque[_Sent]] = {}
        nonces: dict[Address, int] = {}
        for place, transaction in enumerate(transactions):
            sender = transaction.sender
            if sender not in nonces:
                nonces[sender] = self._ask_quantity("eth_getTransactionCount", sender, "pending")
            sent = _Sent(place, transaction, self._make_request(transaction, nonces[sender]))
            try:
                sent.hashes.append(self._ask("eth_sendTransaction", sent.request))
            except NodeError as error:
                # Some nodes tell of a failure in a block here, and then the nonce has been used.
                del nonces[sender]
                answers[place] = _refuse(transaction, error)
                continue
            nonces[sender] += 1
            queues.setdefault(sender, deque()).append(sent)
        answers |= self._await_all(list(queues.values()))
        return [answers[place] for place in range(len(transactions))]

    def mine(self, blocks: int) -> None:
        """See Node."""
        for method in _MINE_MANY:
            if self._can(method, hex(blocks)):
                return
        start = self.get_block_number()
        for mined in range(blocks):
            if not self._can("evm_mine"):
                self._await_blocks(start + mined, start + blocks)
                return

    def snapshot(self) -> Any:
        """See Node."""
        return self._ask("evm_snapshot")

    def revert(self, mark: Any) -> None:
        """See Node."""
        if self._ask("evm_revert", mark) is False:
            raise ChainError("the node no longer has this snapshot; each can be used once")

    def close(self) -> None:
        """See Node."""
        self._transport.close()

    def _make_request(self, transaction: Transaction, nonce: int) -> dict[str, str]:
        request = {
            "from": transaction.sender,
            "data": _show(transaction.data),
            "value": hex(transaction.value_wei),
            "gas": hex(min(transaction.gas_limit, self._block_gas)),
            "chainId": hex(transaction.chain_id),
            "nonce": hex(nonce),
        }
        return request | ({"to": transaction.to} if transaction.to else {})

    def _await_all(self, queues: Sequence[deque[_Sent]]) -> dict[int, Mined | ChainError]:
        """Return what becomes of all transactions; a queue has those of one sender, in order."""
        answers: dict[int, Mined | ChainError] = {}
        for patience_s in (self._patience_s / 2, self._patience_s / 2):
            for _ in poll(patience_s):
                for queue in queues:
                    # Behind one that is in no block there is none that is in one.
                    while queue and (receipt := self._find_receipt(queue[0])) is not None:
                        sent = queue.popleft()
                        answers[sent.place] = self._read_receipt(sent, receipt)
                if not any(queues):
                    return answers
            for queue in filter(None, queues):
                for sent in queue:
                    self._send_again(sent, is_first=sent is queue[0])
        for sent in (sent for queue in queues for sent in queue):
            call, transaction_hash = sent.transaction.call, sent.hashes[-1]
            answers[sent.place] = TransactionLost(call, transaction_hash, self._patience_s)
        return answers

    def _find_receipt(self, sent: _Sent) -> Mapping[str, Any] | None:
        for transaction_hash in sent.hashes:
            receipt: Mapping[str, Any] | None = self._ask(
                "eth_getTransactionReceipt", transaction_hash
            )
            if receipt is not None:
                return receipt
        return None

    def _read_receipt(self, sent: _Sent, receipt: Mapping[str, Any]) -> Mined | ChainError:
        gas_used, block = int(receipt["gasUsed"], 16), int(receipt["blockNumber"], 16)
        if int(receipt["status"], 16) == 1:
            return _parse_receipt(receipt)
        price_wei = int(receipt["effectiveGasPrice"], 16)
        is_out_of_gas = gas_used == int(sent.request["gas"], 16)
        reason = OUT_OF_GAS if is_out_of_gas else self._find_reason(sent.request, block)
        call = sent.transaction.call
        return Reverted(reason, call, gas_used=gas_used, price_wei=price_wei)

    def read_receipt(
        self, transaction: Transaction, nonce: int, receipt: Mapping[str, Any]
    ) -> Mined | ChainError:
        """Return what a transaction came to whose receipt is here."""
        request = self._make_request(transaction, nonce)
        return self._read_receipt(_Sent(0, transaction, request), receipt)

    def _send_again(self, sent: _Sent, *, is_first: bool) -> None:
        """Send a transaction again that the node has dropped, or for a higher fee if it is first.

        All of the sender's that follow wait behind the first, which may be too cheap by now. The
        nonce stays the same, so that it never counts twice.
        """
        with suppress(NodeError):
            known = self._ask("eth_getTransactionByHash", sent.hashes[-1])
            if known and not is_first:
                return
            fees = {it: int(known[it], 16) for it in _FEES if known and known.get(it)}
            if "maxFeePerGas" in fees:
                fees.pop("gasPrice", None)
            more, than = _FEE_RAISE
            raised = {name: hex(fee * more // than + 1) for name, fee in fees.items()}
            sent.hashes.append(self._ask("eth_sendTransaction", sent.request | raised))

    def _find_reason(self, request: Mapping[str, str], block: int) -> str:
        """Play a failed transaction again for its reason, which receipts do not keep.

        After its block first: there the block number is the same, and the failure left the
        state as it was, unless a later transaction of the block changed it.
        """
        question = {name: value for name, value in request.items() if name != "nonce"}
        for state in (block, block - 1):
            try:
                self._ask("eth_call", question, hex(state))
            except NodeError as error:
                return _explain(error)
        return NO_REASON

    def _await_blocks(self, number: int, target: int) -> None:
        while number < target:
            for _ in poll(self._patience_s):
                latest = self.get_block_number()
                if latest > number:
                    number = latest
                    break
            else:
                problem = f"it has made no block for {self._patience_s:g} s"
                raise ChainUnavailable(self._url, problem)

    def _can(self, method: str, *params: Any) -> bool:
        try:
            self._ask(method, *params)
        except NodeError:
            return False
        return True

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """Return the results of several questions, a NodeError in the place of each refused one."""
        return _read_answers(questions, self._transport.ask_many(questions))

    def ask_others(self, questions: Sequence[Question]) -> list[list[Any]]:
        """Return what each other node says that can be asked now; nothing if there is one node."""
        if not isinstance(self._transport, Endpoints):
            return []
        answers = self._transport.ask_others(questions)
        return [_read_answers(questions, it) for it in answers]

    def _ask(self, method: str, *params: Any) -> Any:
        return _read_answer(method, self._transport.ask(method, params))

    def _ask_quantity(self, method: str, *params: Any) -> int:
        return int(self._ask(method, *params), 16)

    def _ask_data(self, method: str, *params: Any) -> bytes:
        return parse_data(self._ask(method, *params))


def _read_answer(method: str, answer: Mapping[str, Any]) -> Any:
    """Return the result in an answer that was checked, or raise NodeError."""
    if "error" in answer:
        raise NodeError(method, answer["error"]["message"], answer["error"]["data"])
    return answer["result"]


def _read_answers(questions: Sequence[Question], answers: Sequence[Any]) -> list[Any]:
    """Return the results in answers, a NodeError in the place of each refused one."""
    results: list[Any] = []
    for (method, _), answer in zip(questions, answers, strict=True):
        try:
            results.append(_read_answer(method, answer))
        except NodeError as refusal:
            results.append(refusal)
    return results


def poll(patience_s: float) -> Iterator[None]:
    """Yield at growing intervals until the patience is over, and once at the very least."""
    deadline = time.monotonic() + patience_s
    interval = FIRST_POLL_S
    while True:
        yield
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return
        time.sleep(min(interval, remaining))
        interval = min(2 * interval, LAST_POLL_S)


def _refuse(transaction: Transaction, error: NodeError) -> ChainError:
    """Return what it means that the node did not take a transaction."""
    if _is_revert(error):
        return Reverted(_explain(error), transaction.call)
    return TransactionRefused(transaction.call, error.problem)


def _is_revert(error: NodeError) -> bool:
    return bool(_find_revert_data(error)) or is_failure_of_contract(error.problem)


def _explain(error: NodeError) -> str:
    data = _find_revert_data(error)
    return clean(decode_revert(data) if data else parse_failure(error.problem))


def _find_revert_data(error: NodeError) -> bytes:
    """Return what REVERT returned, if the node tells: hardhat wraps it once more."""
    data = error.data.get("data") if isinstance(error.data, Mapping) else error.data
    found = _HEX_DATA.fullmatch(data) if isinstance(data, str) else None
    return bytes.fromhex(found[1]) if found else b""


def _parse_receipt(receipt: Mapping[str, Any]) -> Mined:
    deployed = receipt.get("contractAddress")
    return Mined(
        transaction_hash=receipt["transactionHash"],
        block=int(receipt["blockNumber"], 16),
        gas_used=int(receipt["gasUsed"], 16),
        effective_gas_price=int(receipt["effectiveGasPrice"], 16),
        contract=None if deployed is None else parse_address(deployed),
        logs=tuple(map(parse_log, receipt["logs"])),
    )


def _show(data: bytes) -> str:
    return "0x" + data.hex()
