"""A node of the simulated chain: it answers JSON-RPC, truly if nobody has it lie."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moot.contracts.model.answers import hash_subject
from moot.contracts.model.checks import get_member
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.types import NOBODY, ZERO, Address, Job, Terms
from moot.contracts.reasons import LeafMode, Status
from moot.offchain.chain.accounts.signers import hash_raw
from moot.offchain.disputes.referee.port import Call
from tests.arena.codec import Codec, get_event_key, get_topic, hash_place
from tests.arena.ledger import CHAIN_ID, PROMISES, REFEREE, TRUSTED
from tests.arena.records import BLOCK_GAS, Block, Receipt, Sent
from tests.arena.signing import read_order

if TYPE_CHECKING:
    from tests.arena.chain import Chain

Question = tuple[str, Sequence[Any]]
Twist = Callable[[str, Sequence[Question], list[Any]], list[Any]]
"""What a node makes of its answers: given its address, the questions and the true answers."""
Withhold = Callable[[str], bool]
"""Whether the node of an address keeps what it is sent to itself."""


class Refused(Exception):  # noqa: N818 - says what is the case
    """The node refuses a question."""


class Node:
    """A transport to a node of the chain; see Transport.

    Args:
        chain: the chain.
        codec: what stands for values.
        url: the node's address.
        twist: what it makes of its answers.
        withholds: whether it keeps what it is sent to itself.
    """

    def __init__(
        self, chain: "Chain", codec: Codec, url: str, twist: Twist, withholds: Withhold
    ) -> None:
        self.chain, self.codec, self.url = chain, codec, url
        self._twist, self._withholds = twist, withholds
        self.asked: dict[str, int] = {}

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        return self.ask_many([(method, params)])[0]

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport."""
        answers = [self._answer(method, params) for method, params in questions]
        return self._twist(self.url, questions, answers)

    def close(self) -> None:
        """See Transport."""

    def _answer(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        self.asked[method] = self.asked.get(method, 0) + 1
        handler = _METHODS.get(method)
        if handler is None:
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        try:
            return {"result": handler(self, *params)}
        except Refused as refusal:
            return {"error": {"code": 3, "message": str(refusal)}}

    def _get_block(self, name: str, _full: object = None) -> dict[str, Any] | None:
        blocks = self.chain.blocks
        number = len(blocks) - 1 if name == "latest" else int(name, 16)
        return _show_block(blocks[number]) if 0 <= number < len(blocks) else None

    def _get_receipt(self, digest: str) -> dict[str, Any] | None:
        place = self.chain.found.get(digest)
        if place is None:
            return None
        block, index = place
        all_logs = self._list_logs(block.number, block.number)
        logs = [it for it in all_logs if it["transactionHash"] == digest]
        return _show_receipt(block, block.receipts[index], logs)

    def _get_transaction(self, digest: str) -> dict[str, Any] | None:
        place = self.chain.found.get(digest)
        if place is None:
            return None
        sent = place[0].receipts[place[1]].sent
        data = self.codec.encode_call(sent.call.name, sent.call.args)
        return {"hash": digest, "from": sent.sender, "to": REFEREE, "input": "0x" + data.hex()}

    def _get_logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        last = wanted["toBlock"]
        end = self.chain.head.number if last == "latest" else int(last, 16)
        logs = self._list_logs(int(wanted["fromBlock"], 16), end, wanted["address"])
        keys = wanted.get("topics", (None, None))[1]
        return [it for it in logs if keys is None or it["topics"][1] in keys]

    def _list_logs(self, first: int, last: int, address: str = "") -> list[dict[str, Any]]:
        shown = []
        for block, place, receipt, event in self.chain.list_events(first, last):
            of = PROMISES if isinstance(event.args[0], bytes) else REFEREE
            if address in {"", of}:
                topics = ["0x" + it.hex() for it in (get_topic(event), get_event_key(event))]
                shown.append(
                    {
                        "address": of,
                        "blockNumber": hex(block.number),
                        "logIndex": hex(place),
                        "topics": topics,
                        "data": "0x" + self.codec.keep(event).hex(),
                        "transactionHash": receipt.sent.digest,
                    }
                )
        return shown

    def _call(self, request: dict[str, Any], block: str = "latest") -> str:
        data = bytes.fromhex(request["data"].removeprefix("0x"))
        if "from" in request:  # a refused call is made again, for its reason
            raise Refused(f"execution reverted: {self._find_reason(request['from'], data)}")
        name, args = self.codec.calls[data]
        del block
        return "0x" + self.codec.keep(self._view(name, args)).hex()

    def _find_reason(self, sender: Address, data: bytes) -> str:
        name, args = self.codec.calls[data]
        for block in reversed(self.chain.blocks):
            for receipt in block.receipts:
                call = receipt.sent.call
                if receipt.reason and (call.sender, call.name, call.args) == (sender, name, args):
                    return receipt.reason
        return "no reason given"

    def _view(self, name: str, args: Sequence[Any]) -> Any:
        store, vault = self.chain.ledger.store, self.chain.ledger.vault
        match name, args:
            case "jobs", (job_id,):
                return store.jobs.get(job_id, NO_JOB)
            case "members", (job_id, address):
                return get_member(store, job_id, address)
            case "get_debt", (job_id, address):
                job = store.jobs[job_id]
                is_open = job.status is Status.OPEN
                return 0 if is_open else calculate_debt(store, job_id, job, address)
            case "promises", (number,):
                promises = vault.promises.items()
                return next((it for about, it in promises if hash_subject(about) == number), None)
            case "demands", (number,):
                demands = vault.demands.items()
                return next((it for at, it in demands if hash_place(at[0], at[1:]) == number), None)
            case _ if name in TRUSTED:
                return TRUSTED[name]
        raise Refused(f"execution reverted: no view {name}")

    def _send_raw(self, raw: str) -> str:
        order = read_order(bytes.fromhex(raw.removeprefix("0x")))
        found = self.codec.calls.get(order.data)
        if found is None:
            raise Refused("invalid transaction")
        name, args = found
        if name in {"leaf", "prove_operator", "prove_operand"} and order.to == REFEREE:
            raise Refused("invalid receiver")
        call = Call(name, order.sender, args, order.value_wei)
        digest = hash_raw(bytes.fromhex(raw.removeprefix("0x")))
        if self._withholds(self.url):
            return digest
        problem = self.chain.add(
            Sent(call, order.nonce, order.max_fee_wei, order.tip_wei, order.gas_limit, digest)
        )
        if problem:
            raise Refused(problem)
        return digest


NO_JOB = Job(
    NOBODY,
    Terms(0, 0, 0, ZERO, ZERO, ZERO, ZERO, 0, 1, LeafMode.SCALAR, NOBODY, *[0] * 6),
    reward_wei=0,
    opened_block=0,
    window_end=0,
)
"""What the contract says of a job that there is not."""

_METHODS: dict[str, Callable[..., Any]] = {
    "eth_chainId": lambda _: hex(CHAIN_ID),
    "eth_accounts": lambda _: [],
    "eth_blockNumber": lambda node: hex(node.chain.head.number),
    "eth_getBalance": lambda node, who, _: hex(node.chain.ledger.balances[who]),
    "eth_getTransactionCount": lambda node, who, _: hex(node.chain.ledger.nonces[who]),
    "eth_getCode": lambda *_: "0x01",
    "eth_getBlockByNumber": Node._get_block,
    "eth_getTransactionReceipt": Node._get_receipt,
    "eth_getTransactionByHash": Node._get_transaction,
    "eth_getLogs": Node._get_logs,
    "eth_call": Node._call,
    "eth_sendRawTransaction": Node._send_raw,
}


def _show_block(block: Block) -> dict[str, Any]:
    return {
        "number": hex(block.number),
        "hash": block.digest,
        "gasLimit": hex(BLOCK_GAS),
        "baseFeePerGas": hex(block.base_fee_wei),
    }


def _show_receipt(block: Block, receipt: Receipt, logs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "transactionHash": receipt.sent.digest,
        "blockNumber": hex(block.number),
        "blockHash": block.digest,
        "status": hex(not receipt.reason),
        "gasUsed": hex(receipt.gas_used),
        "effectiveGasPrice": hex(receipt.price_wei),
        "contractAddress": None,
        "logs": logs,
    }
