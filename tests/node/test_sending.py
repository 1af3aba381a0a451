"""Many calls that are sent at once to a real node, whose pool may lose or neglect some of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.compiler import Artifact
from moot.offchain.chain import Chain, Contract, Receipt
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.receipts import Mined
from moot.offchain.errors import ChainError
from tests.chain_helpers import ROOT, compile_ledger, deploy_ledger
from tests.node.anvil import Anvil
from tests.quick import only

CALLS = 40


class PoolNode(JsonRpc):
    """A connection to an anvil that mines on request, after a test has changed its pool."""

    def __init__(self, url: str, disturb: Callable[["PoolNode", list[str]], None]) -> None:
        super().__init__(url, patience_seconds=4.0)
        self._disturb = disturb

    def _await_all(self, queues: Any) -> dict[int, Mined | ChainError]:
        self._disturb(self, [sent.hashes[0] for queue in queues for sent in queue])
        self._ask("evm_setIntervalMining", 1)
        return super()._await_all(queues)

    def drop(self, transaction_hash: str) -> None:
        """Let the node forget a transaction."""
        self._ask("anvil_dropTransaction", transaction_hash)


def leave(node: PoolNode, hashes: list[str]) -> None:
    """Do nothing."""
    del node, hashes


def drop_first(node: PoolNode, hashes: list[str]) -> None:
    """Lose the first transaction, behind which all others wait."""
    node.drop(hashes[0])


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    """The ledger, compiled."""
    return compile_ledger(tmp_path)


@pytest.mark.parametrize("disturb", only([drop_first], [leave, drop_first]))
def test_all_calls_of_one_sender_get_in(
    node: Anvil, artifact: Artifact, disturb: Callable[[PoolNode, list[str]], None]
) -> None:
    """They are in blocks in their order, each once, whatever the pool has lost meanwhile."""
    with Chain(PoolNode(node.url, leave), None) as chain:
        address = deploy_ledger(chain, artifact).address
    with Chain(PoolNode(node.url, disturb), None) as chain:
        node.ask("evm_setIntervalMining", 0)
        node.ask("evm_setAutomine", False)
        ledger: Contract = chain.at(artifact, address)
        sender = chain.accounts[0]
        sent = [ledger.prepare("note", 100 + n, ROOT, sender=sender) for n in range(CALLS)]
        answers = ledger.send(sent)
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        numbers = [receipt.events[0].args["note"][0] for receipt in receipts]
        assert numbers == list(range(100, 100 + CALLS))
        blocks = [receipt.block for receipt in receipts]
        assert blocks == sorted(blocks)
        assert len(set(blocks)) < CALLS // 4
        assert ledger.call("count") == 5 + CALLS
