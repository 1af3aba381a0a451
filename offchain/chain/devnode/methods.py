"""The methods of JSON-RPC that the node for development answers."""

from collections.abc import Callable
from typing import Any

from eth.abc import BlockHeaderAPI
from eth_typing import Address as RawAddress

from moot.offchain.chain.answers import clean
from moot.offchain.chain.devnode.blocks import Blocks, Place
from moot.offchain.chain.receipts import GAS_LIMIT, Address, Transaction
from moot.offchain.errors import MootError, NodeError, Reverted

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS, REFUSED, REVERTED = (
    *(-32700, -32600, -32601, -32602, -32000),
    3,
)
MOST_LOG_BLOCKS = 10_000
MOST_MINED = 10_000
MOST_BASE_FEE_WEI = 10**18
TIP_WEI = 10**9
MOST_HISTORY = 1_024
MOST_PATHS = 1_024
"""Paths whose traffic is counted apart."""

Params = list[Any]


class Methods:
    """The methods by name, each on the chain; `answer` takes one decoded request.

    `is_automatic` is whether a transaction gets a block of its own at once.
    """

    def __init__(self, blocks: Blocks, *, is_automatic: bool) -> None:
        self.blocks = blocks
        self.is_automatic = is_automatic
        self._marks: list[Any] = []
        self._traffic: dict[str, list[int]] = {}
        self._methods: dict[str, Callable[..., Any]] = {
            "web3_clientVersion": lambda: "moot/development",
            "net_version": lambda: str(blocks.get_chain_id()),
            "eth_chainId": lambda: hex(blocks.get_chain_id()),
            "eth_accounts": lambda: list(blocks.get_accounts()),
            "eth_blockNumber": lambda: hex(blocks.get_block_number()),
            "eth_gasPrice": lambda: hex(blocks.next_base_fee() + TIP_WEI),
            "eth_maxPriorityFeePerGas": lambda: hex(TIP_WEI),
            "eth_feeHistory": self._get_fee_history,
            "eth_getBalance": self._get_balance,
            "eth_getCode": lambda address, _="latest": _show(blocks.get_code(Address(address))),
            "eth_getTransactionCount": self._count,
            "eth_getBlockByNumber": self._get_block,
            "eth_getTransactionByHash": self._get_transaction,
            "eth_getTransactionReceipt": self._get_receipt,
            "eth_getLogs": self._get_logs,
            "eth_call": self._call,
            "eth_sendRawTransaction": self._send_raw,
            "eth_signTransaction": lambda request: {"raw": _show(self._sign(request))},
            "eth_sendTransaction": lambda request: self._take(self._sign(request)),
            "evm_mine": lambda *_: self._mine("0x1"),
            "anvil_mine": self._mine,
            "evm_setAutomine": self._set_automatic,
            "moot_setLeastBaseFee": self._set_least_base_fee,
            "moot_traffic": lambda: self._traffic,
            "moot_reorganise": self._reorganise,
            "evm_snapshot": self._take_snapshot,
            "evm_revert": self._revert,
        }

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the answer to one request, an error of JSON-RPC where it cannot be given."""
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _refuse(None, INVALID_REQUEST, "a request names its method")
        number, name = request.get("id"), request["method"]
        if not isinstance(number, int | str | None):
            return _refuse(None, INVALID_REQUEST, "the number of a request is a number or a text")
        method, params = self._methods.get(name), request.get("params", [])
        if method is None or not isinstance(params, list):
            return _refuse(number, NO_METHOD, f"the method {name[:40]} does not exist")
        try:
            return {"jsonrpc": "2.0", "id": number, "result": method(*params)}
        except Reverted as failure:
            code, words = REVERTED, f"execution reverted: {failure.reason}"
        except MootError as refusal:
            code, words = (
                REFUSED,
                refusal.problem if isinstance(refusal, NodeError) else str(refusal),
            )
        except Exception:  # noqa: BLE001 - py-evm has errors of its own for each kind of nonsense
            code, words = BAD_PARAMS, f"invalid parameters of {name}"
        return _refuse(number, code, words)

    def note_traffic(self, path: str, questions: int, received: int, sent: int) -> None:
        """Count a request under its path: requests, questions, bytes that came and that went."""
        kept = path if path in self._traffic or len(self._traffic) < MOST_PATHS else "/"
        counts = self._traffic.get(kept, [0, 0, 0, 0])
        more = (1, questions, received, sent)
        self._traffic[kept] = [old + new for old, new in zip(counts, more, strict=True)]

    def _find_number(self, tag: str) -> int:
        latest = self.blocks.get_block_number()
        if tag == "earliest":
            return 0
        number = latest if tag in {"latest", "pending", "safe", "finalized"} else int(tag, 16)
        if not 0 <= number <= latest:
            raise NodeError("block", "header not found")
        return number

    def _get_balance(self, address: str, _: str = "latest") -> str:
        return hex(self.blocks.get_balance(Address(address)))

    def _count(self, address: str, tag: str = "latest") -> str:
        sender = RawAddress(_parse(address))
        count = self.blocks.get_count(sender)
        return hex(self.blocks.pool.count_next(sender, count) if tag == "pending" else count)

    def _get_block(self, tag: str, full: bool = False) -> Any:  # noqa: FBT001, FBT002 - of the method
        if tag not in {"latest", "pending", "earliest"} and int(tag, 16) > _height(self.blocks):
            return None
        header = self.blocks.get_header(self._find_number(tag))
        assert header is not None
        hashes = self.blocks.list_hashes(header.block_number)
        shown = [self._get_transaction(_show(it)) for it in hashes] if full else map(_show, hashes)
        return _show_header(header) | {"transactions": list(shown)}

    def _get_transaction(self, transaction_hash: str) -> Any:
        place = self.blocks.find(_parse(transaction_hash))
        found = place.transaction if place else self.blocks.pool.find(_parse(transaction_hash))
        if found is None:
            return None
        return {
            "hash": _show(found.hash),
            "nonce": hex(found.nonce),
            "from": _show(found.sender),
            "to": _show(found.to) if found.to else None,
            "value": hex(found.value),
            "gas": hex(found.gas),
            "input": _show(found.data),
            "maxFeePerGas": hex(found.max_fee_per_gas),
            "maxPriorityFeePerGas": hex(found.max_priority_fee_per_gas),
            "blockNumber": hex(place.block) if place else None,
            "blockHash": _show(place.block_hash) if place else None,
        }

    def _get_receipt(self, transaction_hash: str) -> Any:
        place = self.blocks.find(_parse(transaction_hash))
        return None if place is None else self._show_receipt(place)

    def _show_receipt(self, place: Place) -> dict[str, Any]:
        header = self.blocks.get_header(place.block)
        assert header is not None
        it = place.transaction
        tip = min(it.max_priority_fee_per_gas, it.max_fee_per_gas - _read_base_fee(header))
        first = place.first_log
        where = {"blockNumber": hex(place.block), "blockHash": _show(place.block_hash)}
        logs = [
            where
            | {
                "address": _show(log.address),
                "topics": [_show(topic.to_bytes(32, "big")) for topic in log.topics],
                "data": _show(log.data),
                "logIndex": hex(first + number),
                "transactionHash": _show(it.hash),
            }
            for number, log in enumerate(place.receipt.logs)
        ]
        return where | {
            "transactionHash": _show(it.hash),
            "transactionIndex": hex(place.index),
            "from": _show(it.sender),
            "to": _show(it.to) if it.to else None,
            "status": hex(place.receipt.state_root == b"\1"),
            "gasUsed": hex(place.gas_used),
            "effectiveGasPrice": hex(_read_base_fee(header) + tip),
            "contractAddress": _show(place.contract) if place.contract else None,
            "logs": logs,
        }

    def _get_logs(self, wanted: dict[str, Any]) -> list[Any]:
        first = self._find_number(wanted.get("fromBlock", "latest"))
        height, until = _height(self.blocks), wanted.get("toBlock", "latest")
        last = height if until == "latest" else min(int(until, 16), height)
        if last - first >= MOST_LOG_BLOCKS:
            raise NodeError("eth_getLogs", f"at most {MOST_LOG_BLOCKS} blocks at a time")
        topics = wanted.get("topics", [])
        keys = [_parse(key) for key in topics[1]] if len(topics) > 1 else []
        found = self.blocks.get_logs(Address(wanted["address"].lower()), first, last, keys)
        return [
            {
                "address": log.address,
                "blockNumber": hex(log.place[0]),
                "logIndex": hex(log.place[1]),
                "topics": list(map(_show, log.topics)),
                "data": _show(log.data),
                "transactionHash": log.transaction_hash,
            }
            for log in found
        ]

    def _call(self, question: dict[str, str], tag: str = "latest") -> str:
        to, data = Address(question["to"].lower()), _parse(question.get("data", "0x"))
        sender = Address(question["from"].lower()) if question.get("from") else None
        value_wei = int(question.get("value", "0x0"), 16)
        number = self._find_number(tag)
        return _show(self.blocks.view("eth_call", to, data, number, sender, value_wei))

    def _send_raw(self, raw: str) -> str:
        return self._take(_parse(raw))

    def _take(self, raw: bytes) -> str:
        transaction_hash = self.blocks.take_raw(raw)
        if self.is_automatic:
            self.blocks.make_block()
        return _show(transaction_hash)

    def _sign(self, request: dict[str, str]) -> bytes:
        """Sign for an account of this node what a request asks for."""
        sender = Address(request["from"].lower())
        to = request.get("to")
        price = 2 * self.blocks.next_base_fee() + TIP_WEI
        tip = int(request.get("maxPriorityFeePerGas", hex(TIP_WEI)), 16)
        transaction = Transaction(
            chain_id=int(request.get("chainId", hex(self.blocks.get_chain_id())), 16),
            call="transaction",
            sender=sender,
            to=None if to is None else Address(to),
            data=_parse(request.get("data", "0x")),
            value_wei=int(request.get("value", "0x0"), 16),
            gas_limit=int(request.get("gas", hex(GAS_LIMIT)), 16),
        )
        nonce = int(request.get("nonce") or self._count(sender, "pending"), 16)
        highest = int(request.get("maxFeePerGas", hex(price)), 16)
        return self.blocks.sign(transaction, nonce, (highest, min(tip, highest)))

    def _get_fee_history(self, count: str, tag: str, percentiles: Params | None = None) -> Any:
        last = self._find_number(tag)
        wanted = int(count, 16) if isinstance(count, str) else int(count)
        first = max(0, last + 1 - min(wanted, MOST_HISTORY))
        headers = [self.blocks.get_header(number) for number in range(first, last + 1)]
        fees = [hex(_read_base_fee(it)) for it in headers if it is not None]
        ratios = [it.gas_used / it.gas_limit for it in headers if it is not None]
        rewards = [[hex(TIP_WEI)] * len(percentiles or [])] * len(ratios)
        fees.append(hex(self.blocks.next_base_fee()))
        answer = {"oldestBlock": hex(first), "baseFeePerGas": fees, "gasUsedRatio": ratios}
        return answer | ({"reward": rewards} if percentiles else {})

    def _mine(self, count: str = "0x1", *_: Any) -> None:
        if int(count, 16) > MOST_MINED:
            raise NodeError("mine", f"at most {MOST_MINED} blocks at a time")
        self.blocks.mine(int(count, 16))

    def _set_automatic(self, wanted: bool) -> None:  # noqa: FBT001 - of the method
        self.is_automatic = bool(wanted)

    def _set_least_base_fee(self, wei: str) -> None:
        if not 0 <= int(wei, 16) <= MOST_BASE_FEE_WEI:
            raise NodeError("fee", f"0 to {MOST_BASE_FEE_WEI} wei a unit of gas")
        self.blocks.least_base_fee = int(wei, 16)

    def _reorganise(self, depth: str, is_kept: bool) -> None:  # noqa: FBT001 - of the method
        self.blocks.reorganise(int(depth, 16), is_kept=is_kept)

    def _take_snapshot(self) -> str:
        self._marks.append(self.blocks.snapshot())
        return hex(len(self._marks))

    def _revert(self, mark: str) -> bool:
        number = int(mark, 16)
        if not 1 <= number <= len(self._marks):
            return False
        self.blocks.revert(self._marks[number - 1])
        del self._marks[number - 1 :]
        return True


def _read_base_fee(header: BlockHeaderAPI) -> int:
    """Return a block's base fee in wei, which every block here has."""
    return header.base_fee_per_gas or 0


def _height(blocks: Blocks) -> int:
    return blocks.get_block_number()


def _show_header(header: BlockHeaderAPI) -> dict[str, Any]:
    return {
        "number": hex(header.block_number),
        "hash": _show(header.hash),
        "parentHash": _show(header.parent_hash),
        "timestamp": hex(header.timestamp),
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "baseFeePerGas": hex(_read_base_fee(header)),
    }


def _refuse(number: Any, code: int, words: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": clean(words)}}


def _show(data: bytes) -> str:
    return "0x" + data.hex()


def _parse(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
