"""The boundary to a node: what it answers is checked in form, order and content, or not believed.

`CheckedTransport` is the only place that looks at what a node has said before anything acts on it.
Numbers are canonical and bounded, hashes have their length, a block or a receipt is the one that
was asked for, logs are of the contract and the blocks that were asked for, each once and in order.
An answer that is anything else is `ChainUnavailable`: the node is of no use for a while.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn, cast

from moot.offchain.chain.receipts import Address, Log
from moot.offchain.chain.transports import Question, Transport
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.errors import ChainUnavailable

BLOCK_BITS = 40
"""Bits of a block's number, as the referee keeps it."""
MOST_AHEAD = 2**20
"""Blocks that a chain may have grown between two answers of a node, beside those of the time."""
MOST_BLOCKS_PER_S = 100
MOST_WORDS = 300
"""Characters of a node's words that are kept."""
_GAS_BITS, _COUNT_BITS, _WEI_BITS, _WORD_BITS = 63, 63, 128, 256
_MOST_TOPICS = 4
_HASH_BYTES, _ADDRESS_BYTES = 32, 20
_FEES = ("maxFeePerGas", "maxPriorityFeePerGas", "gasPrice")

_QUANTITY = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]*)")
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*")


class Wrong(ValueError):  # noqa: N818 - it is named for what is wrong
    """An answer is not one to its question; the text says why."""


def parse_quantity(value: Any, bits: int = _WORD_BITS) -> int:
    """Return a number as JSON-RPC writes it, of so many bits at most, or raise Wrong."""
    if not isinstance(value, str) or len(value) > 2 + bits // 4 + 1:
        raise Wrong("has something else in the place of a number")
    if not _QUANTITY.fullmatch(value) or int(value, 16).bit_length() > bits:
        raise Wrong(f"has no number in {clean(value)[:80]!r}")
    return int(value, 16)


def parse_data(value: Any, size: int | None = None) -> bytes:
    """Return bytes as JSON-RPC writes them, of a size if one is given, or raise Wrong."""
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise Wrong("has something else in the place of bytes")
    data = bytes.fromhex(value[2:])
    if size is not None and len(data) != size:
        raise Wrong(f"has {len(data)} bytes in the place of {size}")
    return data


def parse_address(value: Any) -> Address:
    """Return an address, or raise Wrong."""
    return Address("0x" + parse_data(value, _ADDRESS_BYTES).hex())


def parse_hash(value: Any) -> str:
    """Return a hash in the form in which hashes are compared, or raise Wrong."""
    return "0x" + parse_data(value, _HASH_BYTES).hex()


def parse_log(raw: Any) -> Log:
    """Return a log, or raise Wrong."""
    log = _read_object(raw, "a log")
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) > _MOST_TOPICS:
        raise Wrong("has a log without its topics")
    if log.get("removed", False) is not False:
        raise Wrong("has a log of a block that is gone")
    return Log(
        parse_address(log.get("address")),
        (_read_block_number(log), parse_quantity(log.get("logIndex"), _COUNT_BITS)),
        tuple(parse_data(topic, _HASH_BYTES) for topic in topics),
        parse_data(log.get("data")),
        parse_hash(log.get("transactionHash")),
    )


def clean(text: object) -> str:
    """Return words of a node on one line, short, and without what a terminal would obey."""
    line = " ".join(str(text)[: 4 * MOST_WORDS].split())[:MOST_WORDS]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


class CheckedTransport:
    """A transport whose answers are those of a node that makes sense; see Transport.

    An answer has either a `result`, which is one to its question, or an `error` with its `message`
    on a line.

    Args:
        url: where the node is, for errors.
        transport: the way to it.
    """

    def __init__(self, url: str, transport: Transport) -> None:
        self.url = url
        self._transport = transport
        self._height: int | None = None
        self._seen = 0.0

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        return self._check((method, params), self._transport.ask(method, params))

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport."""
        answers: Any = self._transport.ask_many(questions)
        if not isinstance(answers, list) or len(answers) != len(questions):
            raise ChainUnavailable(self.url, "it does not answer as many questions as were asked")
        return [self._check(*each) for each in zip(questions, answers, strict=True)]

    def close(self) -> None:
        """See Transport."""
        self._transport.close()

    def _check(self, question: Question, answer: Any) -> dict[str, Any]:
        method, params = question
        try:
            known = _read_object(answer, "an answer")
            if known.get("error") is not None:
                return {"error": _check_error(known["error"])}
            result = known["result"] if "result" in known else _miss()
            checked = _CHECKS.get(method, _take)(params, result)
            self._check_height(_read_height(question, checked))
        except Wrong as problem:
            name = method if method.isidentifier() else "a question"
            raise ChainUnavailable(self.url, f"its answer to {name} {problem}") from problem
        return {"result": checked}

    def _check_height(self, height: int | None) -> None:
        """Refuse a height that no chain can have by now."""
        if height is None:
            return
        now = time.monotonic()
        if self._height is not None:
            grown = MOST_AHEAD + MOST_BLOCKS_PER_S * int(now - self._seen)
            if height > self._height + grown:
                raise Wrong(f"has block {height}, and a moment ago it had {self._height}")
        self._height, self._seen = height, now


def _miss() -> NoReturn:
    raise Wrong("has no result")


def _read_height(question: Question, result: Any) -> int | None:
    """Return the number of the latest block, where an answer tells it."""
    method, params = question
    if method == "eth_blockNumber":
        return int(result, 16)
    if method == "eth_getBlockByNumber" and params[0] == "latest":
        return int(result["number"], 16)
    return None


def _check_error(raw: Any) -> dict[str, Any]:
    error = _read_object(raw, "an error")
    code, message = error.get("code"), error.get("message")
    if not isinstance(message, str) or isinstance(code, bool) or not isinstance(code, int):
        raise Wrong("has an error without its code or its words")
    return {"code": code, "message": clean(message), "data": error.get("data")}


def _read_object(raw: Any, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Wrong(f"has something else in the place of {what}")
    return cast("dict[str, Any]", raw)


def _read_block_number(raw: Mapping[str, Any]) -> int:
    return parse_quantity(raw.get("blockNumber"), BLOCK_BITS)


def _take(params: Sequence[Any], result: Any) -> Any:
    """Take whatever a method gives of which we know nothing."""
    del params
    return result


def _make_quantity_check(bits: int) -> Callable[[Sequence[Any], Any], str]:
    def check(params: Sequence[Any], result: Any) -> str:
        del params
        return hex(parse_quantity(result, bits))

    return check


def _check_data(params: Sequence[Any], result: Any) -> str:
    del params
    parse_data(result)
    return str(result)


def _check_hash(params: Sequence[Any], result: Any) -> str:
    del params
    return parse_hash(result)


def _check_sent(params: Sequence[Any], result: Any) -> str:
    """Check what a node says of a signed transaction: its hash, which follows from its bytes."""
    sent = parse_hash(result)
    if parse_data(sent) != keccak256(parse_data(params[0])):
        raise Wrong("has the hash of another transaction")
    return sent


def _check_accounts(params: Sequence[Any], result: Any) -> list[str]:
    del params
    if not isinstance(result, list):
        raise Wrong("has something else in the place of a list")
    return [parse_address(account) for account in result]


def _check_block(params: Sequence[Any], result: Any) -> Any:
    tag = params[0]
    if result is None and tag != "latest":
        return None
    block = _read_object(result, "a block")
    number = parse_quantity(block.get("number"), BLOCK_BITS)
    if tag.startswith("0x") and number != int(tag, 16):
        raise Wrong(f"has block {number}, which was not asked for")
    if not parse_quantity(block.get("gasLimit"), _GAS_BITS):
        raise Wrong("has a block without room for gas")
    fee = block.get("baseFeePerGas")
    return block | {
        "hash": parse_hash(block.get("hash")),
        "baseFeePerGas": "0x0" if fee is None else hex(parse_quantity(fee, _WEI_BITS)),
    }


def _check_logs(params: Sequence[Any], result: Any) -> list[Any]:
    wanted = params[0]
    if not isinstance(result, list):
        raise Wrong("has something else in the place of a list")
    last = wanted["toBlock"]
    blocks = int(wanted["fromBlock"], 16), 2**BLOCK_BITS if last == "latest" else int(last, 16)
    keys = wanted.get("topics", (None, None))[1]
    found = [parse_log(raw) for raw in result]
    _check_order(found, result)
    for log in found:
        if log.address != wanted["address"].lower():
            raise Wrong("has a log of another contract")
        if not blocks[0] <= log.place[0] <= blocks[1]:
            raise Wrong(f"has a log of block {log.place[0]}, which was not asked for")
        if keys is not None and (len(log.topics) < 2 or "0x" + log.topics[1].hex() not in keys):
            raise Wrong("has a log of another subject than was asked for")
    return result


def _check_order(logs: Sequence[Log], raw: Sequence[Any]) -> None:
    """Refuse logs that are there twice or in another order, and blocks of two hashes."""
    places = [log.place for log in logs]
    if any(one >= other for one, other in pairwise(places)):
        raise Wrong("has logs twice, or not in order")
    hashes: dict[int, str] = {}
    for log, it in zip(logs, raw, strict=True):
        if it.get("blockHash") is not None:
            digest = parse_hash(it["blockHash"])
            if hashes.setdefault(log.place[0], digest) != digest:
                raise Wrong(f"has two hashes of block {log.place[0]}")


def _check_receipt(params: Sequence[Any], result: Any) -> Any:
    if result is None:
        return None
    receipt = _read_object(result, "a receipt")
    digest, block = _check_which(receipt, "transactionHash", params), _read_block_number(receipt)
    parse_quantity(receipt.get("gasUsed"), _GAS_BITS)
    parse_quantity(receipt.get("effectiveGasPrice"), _WEI_BITS)
    if parse_quantity(receipt.get("status")) > 1:
        raise Wrong("has a receipt that says neither yes nor no")
    deployed, logs = receipt.get("contractAddress"), receipt.get("logs")
    if deployed is not None:
        parse_address(deployed)
    if not isinstance(logs, list):
        raise Wrong("has a receipt without its logs")
    found = [parse_log(raw) for raw in logs]
    _check_order(found, logs)
    if any((log.place[0], log.transaction_hash) != (block, digest) for log in found):
        raise Wrong("has a log of another transaction")
    return receipt | {
        "transactionHash": digest,
        "blockHash": parse_hash(receipt.get("blockHash")),
    }


def _check_transaction(params: Sequence[Any], result: Any) -> Any:
    if result is None:
        return None
    sent = _read_object(result, "a transaction")
    digest = _check_which(sent, "hash", params)
    if sent.get("to") is not None:
        parse_address(sent["to"])
    for name in _FEES:
        if sent.get(name) is not None:
            parse_quantity(sent[name], _WORD_BITS)
    if sent.get("blockNumber") is not None:
        _read_block_number(sent)
    parse_address(sent.get("from"))
    parse_data(sent.get("input"))
    return sent | {"hash": digest}


def _check_which(raw: Mapping[str, Any], name: str, params: Sequence[Any]) -> str:
    """Return the hash of a transaction, which has to be the one that was asked for."""
    digest = parse_hash(raw.get(name))
    if digest != str(params[0]).lower():
        raise Wrong("is about another transaction")
    return digest


_CHECKS: dict[str, Callable[[Sequence[Any], Any], Any]] = {
    "eth_accounts": _check_accounts,
    "eth_blockNumber": _make_quantity_check(BLOCK_BITS),
    "eth_call": _check_data,
    "eth_chainId": _make_quantity_check(_WORD_BITS),
    "eth_getBalance": _make_quantity_check(_WORD_BITS),
    "eth_getBlockByNumber": _check_block,
    "eth_getCode": _check_data,
    "eth_getLogs": _check_logs,
    "eth_getTransactionByHash": _check_transaction,
    "eth_getTransactionCount": _make_quantity_check(_COUNT_BITS),
    "eth_getTransactionReceipt": _check_receipt,
    "eth_sendRawTransaction": _check_sent,
    "eth_sendTransaction": _check_hash,
}
"""The check of each method's result, given the parameters; it returns the result, hashes in small
letters. Methods of nodes for development are not among them."""
CHECKED_METHODS = frozenset(_CHECKS)
