"""The node for development answers whatever it is asked, in one line, and goes on."""

import copy
import json
from random import Random
from typing import Any

import pytest

from moot.offchain.chain.devnode.server import DevNode, Local
from tests.parties.lies import FORMS, encode, list_places
from tests.quick import share

ACCOUNT = "0x" + "ab" * 20
HASH = "0x" + "cd" * 32
REQUESTS: list[tuple[str, list[Any]]] = [
    *((name, []) for name in ("eth_chainId", "eth_accounts", "moot_traffic", "evm_snapshot")),
    ("eth_getBalance", [ACCOUNT, "latest"]),
    ("eth_getCode", [ACCOUNT, "latest"]),
    ("eth_getTransactionCount", [ACCOUNT, "pending"]),
    ("eth_getBlockByNumber", ["0x1", True]),
    ("eth_getTransactionByHash", [HASH]),
    ("eth_getTransactionReceipt", [HASH]),
    ("eth_getLogs", [{"address": ACCOUNT, "fromBlock": "0x0", "topics": [None, [HASH]]}]),
    ("eth_call", [{"to": ACCOUNT, "data": "0x12345678"}, "latest"]),
    ("eth_call", [{"from": HASH[:42], "to": ACCOUNT, "data": "0x", "value": "0x1"}, "latest"]),
    ("eth_sendRawTransaction", ["0x02f8"]),
    ("eth_sendTransaction", [{"from": ACCOUNT, "to": ACCOUNT, "value": "0x1", "gas": "0x5208"}]),
    ("eth_feeHistory", ["0x5", "latest", [1, 2]]),
    ("anvil_mine", ["0x1"]),
    ("evm_revert", ["0x1"]),
    ("moot_reorganise", ["0x1", True]),
    ("evm_setAutomine", [True]),
    ("moot_setLeastBaseFee", ["0x1"]),
]


@pytest.fixture(scope="module")
def node() -> DevNode:
    """A node with a block."""
    node = DevNode(2)
    node.methods.blocks.mine(2)
    return node


def _change(request: dict[str, Any], random: Random) -> Any:
    """Return a request with something else at one of its places."""
    outer = [copy.deepcopy(request)]
    place: list[Any] = [0, *random.choice([*list_places(request)])]
    at: Any = outer
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = FORMS[random.choice(sorted(FORMS))](at[place[-1]])
    return outer[0]


def test_requests_of_any_form_are_answered(node: DevNode) -> None:
    """Whatever stands in a request, or in a batch, the answer is JSON, with its number."""
    random = Random(42)
    for draw in range(share(4_000)):
        method, params = random.choice(REQUESTS)
        real = {"jsonrpc": "2.0", "id": draw, "method": method, "params": params}
        request = [_change(real, random), *([real] if random.random() < 0.5 else [])]
        answer = json.loads(node.answer(encode(request if len(request) > 1 else request[0])))
        asked = [it for it in request if isinstance(it, dict)]
        numbers = [None, draw, *(it.get("id") for it in asked)]
        for it in answer if isinstance(answer, list) else [answer]:
            assert it["id"] in numbers, request
            assert "result" in it or it["error"]["message"].isprintable(), request
    assert Local(node).ask("eth_blockNumber", [])["result"]


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"null", b"[7]", b'{"id": [1], "method": "x"}'])
def test_a_body_that_is_no_request_is_refused(node: DevNode, body: bytes) -> None:
    """What is no request gets an error without a number."""
    answer = json.loads(node.answer(body))
    (only,) = answer if isinstance(answer, list) else [answer]
    assert only["id"] is None
    assert only["error"]["code"] in {-32600, -32700}
