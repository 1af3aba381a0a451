"""Falsehoods: one of the provider's two nodes tells what could be, but is not, for a while."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from moot.contracts.model.checks import get_member
from moot.contracts.model.types import Store
from moot.contracts.reasons import Status
from tests.arena.adversary import Adversary
from tests.arena.codec import get_topic
from tests.arena.ledger import REFEREE
from tests.arena.names import HONEST, NODES
from tests.arena.records import GWEI, Block
from tests.arena.story import Params, Terms

KINDS = (
    "drops",
    "refuses",
    "refuses all",
    "little room",
    "low fee",
    "high fee",
    "count ahead",
    "another chain",
    "far ahead",
    "behind",
    "no member",
    "closed",
    "no matches",
)
"""What it does with transactions; what it says of blocks, of the account, of the referee."""
LAGS = (3, 8, 12)
Question = tuple[str, Sequence[Any]]
Answer = dict[str, Any]
_SMALL_GAS, _LOW_WEI, _HIGH_WEI, _FAR = 24_000, 1, 2_000 * GWEI, 500


class Falsehoods(Adversary):
    """One of the provider's two nodes tells falsehoods from a block on."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {
            "kind": random.choice(KINDS),
            "from": random.randrange(60),
            "blocks": random.choice((1, 5, 40, 600)),
            "node": random.choice((0, 0, 1)),
            "lag": random.choice(LAGS),
        }

    def withholds(self, url: str) -> bool:
        """See Adversary."""
        return self._is_lying(url) and self.params["kind"] in {"drops", "refuses", "refuses all"}

    def twist(self, url: str, questions: Sequence[Question], answers: list[Any]) -> list[Any]:
        """See Adversary."""
        if not self._is_lying(url):
            return answers
        change = _CHANGES.get(self.params["kind"])
        if change is None:
            return answers
        return [change(self, *each) for each in zip(questions, answers, strict=True)]

    def _is_lying(self, url: str) -> bool:
        since = self.world.chain.head.number - self.params["from"]
        return url == NODES[self.params["node"]] and 0 <= since < self.params["blocks"]

    def _refuse(self, question: Question, answer: Answer) -> Answer:
        if question[0] != "eth_sendRawTransaction":
            return answer
        return {"error": {"code": -32000, "message": "not today"}}

    def _refuse_all(self, question: Question, answer: Answer) -> Answer:
        del question, answer
        return {"error": {"code": -32000, "message": "header not found"}}

    def _change_block(self, question: Question, answer: Answer) -> Answer:
        """Tell of another fee, or of other room."""
        result, kind = answer.get("result"), self.params["kind"]
        if question[0] != "eth_getBlockByNumber" or not isinstance(result, dict):
            return answer
        fee = {"low fee": _LOW_WEI, "high fee": _HIGH_WEI}.get(kind)
        if fee is None:
            return {"result": result | {"gasLimit": hex(_SMALL_GAS)}}
        return {"result": result | {"baseFeePerGas": hex(fee)}}

    def _count_more(self, question: Question, answer: Answer) -> Answer:
        if question[0] != "eth_getTransactionCount":
            return answer
        return {"result": hex(int(answer["result"], 16) + 1)}

    def _name_another(self, question: Question, answer: Answer) -> Answer:
        return {"result": "0x2a"} if question[0] == "eth_chainId" else answer

    def _go_ahead(self, question: Question, answer: Answer) -> Answer:
        """Tell of a latest block that is far ahead."""
        method, params = question
        far = hex(self.world.chain.head.number + _FAR)
        if method == "eth_blockNumber":
            return {"result": far}
        if method == "eth_getBlockByNumber":
            if params[0] == "latest":
                return {"result": answer["result"] | {"number": far, "hash": "0x" + "fa" * 32}}
            if int(params[0], 16) > self.world.chain.head.number:
                made = {"number": params[0], "hash": "0x" + "fa" * 32}
                head = {"gasLimit": hex(30_000_000), "baseFeePerGas": hex(GWEI)}
                return {"result": made | head}
        return answer

    def _stay_behind(self, question: Question, answer: Answer) -> Answer:
        """Tell of the chain as it was some blocks ago."""
        method, params = question
        chain = self.world.chain
        number = max(0, chain.head.number - self.params["lag"])
        node, result = self.world.nodes[NODES[self.params["node"]]], answer.get("result")
        match method:
            case "eth_blockNumber":
                return {"result": hex(number)}
            case "eth_getBlockByNumber":
                wanted = number if params[0] == "latest" else int(params[0], 16)
                found = node._answer(method, [hex(wanted)]) if wanted <= number else None
                return found or {"result": None}
            case "eth_getTransactionReceipt":
                is_known = result is not None and int(result["blockNumber"], 16) <= number
                return answer if is_known else {"result": None}
            case "eth_getLogs":
                return {
                    "result": [it for it in result or () if int(it["blockNumber"], 16) <= number]
                }
            case "eth_call" | "eth_getTransactionCount" | "eth_getBalance":
                return self._answer_then(chain.blocks[number], question, answer)
        return answer

    def _answer_then(self, block: Block, question: Question, answer: Answer) -> Answer:
        """Return what is answered after a block."""
        ledger, node = self.world.chain.ledger, self.world.nodes[NODES[self.params["node"]]]
        if block.state is None:
            return answer
        now = ledger.save()
        ledger.load(block.state)
        try:
            return node._answer(*question)
        finally:
            ledger.load(now)

    def _change_call(self, question: Question, answer: Answer) -> Answer:
        """Tell that the provider has not joined, or that the job is closed."""
        method, params = question
        if method != "eth_call" or "data" not in params[0] or "from" in params[0]:
            return answer
        codec = self.world.codec
        name, args = codec.calls[bytes.fromhex(params[0]["data"].removeprefix("0x"))]
        if name == "members" and self.params["kind"] == "no member":
            empty = Store(0, REFEREE, arithmetic=self.world.chain.ledger.store.arithmetic)
            return {"result": "0x" + codec.keep(get_member(empty, *args)).hex()}
        jobs = self.world.chain.ledger.store.jobs
        if name == "jobs" and self.params["kind"] == "closed" and args[0] in jobs:
            closed = replace(jobs[args[0]], status=Status.VOID)
            return {"result": "0x" + codec.keep(closed).hex()}
        return answer

    def _hide(self, question: Question, answer: Answer) -> Answer:
        """Leave out that matches of the provider's have begun, and all of them."""
        if question[0] != "eth_getLogs":
            return answer
        shown = [it for it in answer.get("result") or () if not self._is_of_match(it)]
        return {"result": shown}

    def _is_of_match(self, log: dict[str, Any]) -> bool:
        event = self.world.codec.find(bytes.fromhex(log["data"].removeprefix("0x")))
        is_known = event is not None and "0x" + get_topic(event).hex() == log["topics"][0]
        return is_known and event.name in _OF_MATCHES and HONEST in event.args


_OF_MATCHES = frozenset({"MatchStarted", "Moved", "Found", "MatchEnded"})
_CHANGES: dict[str, Callable[[Falsehoods, Question, Answer], Answer]] = {
    "refuses": Falsehoods._refuse,
    "refuses all": Falsehoods._refuse_all,
    "little room": Falsehoods._change_block,
    "low fee": Falsehoods._change_block,
    "high fee": Falsehoods._change_block,
    "count ahead": Falsehoods._count_more,
    "another chain": Falsehoods._name_another,
    "far ahead": Falsehoods._go_ahead,
    "behind": Falsehoods._stay_behind,
    "no member": Falsehoods._change_call,
    "closed": Falsehoods._change_call,
    "no matches": Falsehoods._hide,
}
