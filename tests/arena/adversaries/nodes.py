"""Nodes that lie: one of the provider's two says something odd for a while."""

from collections.abc import Sequence
from random import Random
from typing import Any

from moot.offchain.errors import ChainUnavailable
from tests.arena.adversary import Adversary
from tests.arena.names import NODES
from tests.arena.story import Params, Terms

KINDS = (
    "unknown topic",
    "logs twice",
    "negative number",
    "old head",
    "no hash",
    "silence",
    "logs of nobody",
    "null",
    "count",
)
Answers = list[Any]


class Nodes(Adversary):
    """One of the provider's two nodes lies from a block on."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {
            "kind": random.choice(KINDS),
            "from": random.randrange(60),
            "blocks": random.choice((1, 5, 200)),
            "node": random.randrange(2),
        }

    def prepare(self) -> None:
        """Have seen nothing yet."""
        self._old: dict[str, Any] = {}

    def twist(
        self, url: str, questions: Sequence[tuple[str, Sequence[Any]]], answers: Answers
    ) -> Answers:
        """See Adversary."""
        since = self.world.chain.head.number - self.params["from"]
        if url != NODES[self.params["node"]] or not 0 <= since < self.params["blocks"]:
            return answers
        if self.params["kind"] == "silence":
            raise ChainUnavailable(url, "no answer in 5 s")
        return [
            self._change(method, params, answer)
            for (method, params), answer in zip(questions, answers, strict=True)
        ]

    def _change(self, method: str, params: Sequence[Any], answer: dict[str, Any]) -> dict[str, Any]:
        """Return what is made of one answer."""
        result, kind = answer.get("result"), self.params["kind"]
        if kind == "old head":
            is_head = method == "eth_blockNumber" or "latest" in params
            key = f"{method}{params!r}"
            return self._old.setdefault(key, answer) if is_head else answer
        if kind == "null":
            return {"result": None}
        if isinstance(result, dict) and "number" in result:
            changes = {"negative number": {"number": "-0x5"}, "no hash": {"hash": None}}
            return {"result": result | changes.get(kind, {})}
        if method == "eth_getTransactionCount" and kind == "count":
            return {"result": "0x0"}
        if method == "eth_getLogs" and isinstance(result, list):
            return {"result": self._change_logs(result)}
        return answer

    def _change_logs(self, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kind = self.params["kind"]
        number = hex(self.world.chain.head.number)
        strange: dict[str, Any] = {
            "address": self.world.settings.referee,
            "blockNumber": number,
            "logIndex": "0x77",
            "topics": ["0x" + "ab" * 32],
            "data": "0x",
            "transactionHash": "0x" + "cd" * 32,
        }
        if kind == "unknown topic":
            return [*logs, strange]
        if kind == "logs of nobody":
            return [*logs, strange | {"topics": []}]
        return [*logs, *logs] if kind == "logs twice" else logs
