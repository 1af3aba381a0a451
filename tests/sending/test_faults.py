"""Ways to a node that err: payments get in once, and one of several nodes is used that is fit."""

import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from moot.offchain.chain import connect, endpoints
from moot.offchain.chain.devnode.server import DevNode, serve
from moot.offchain.chain.endpoints import Endpoints
from moot.offchain.chain.head import Head
from moot.offchain.chain.receipts import Mined
from moot.offchain.errors import ChainIdChanged, ChainUnavailable
from tests.http_helpers import Reply, serving_http
from tests.quick import every
from tests.sending.payer import PAYER, Seat, find_payee, find_unpaid, make_payment, open_payer, pay
from tests.sending.proxy import FAULTS, open_proxy

PAYMENTS = 8


@pytest.fixture
def lines() -> list[str]:
    """What was said."""
    return []


def hang(*_: object) -> None:
    """Take a request, and answer nothing."""
    time.sleep(0.3)


@pytest.mark.parametrize("seed", every(6, range(3)))
def test_proxy_that_errs(node: DevNode, url: str, tmp_path: Path, seed: int) -> None:
    """Whatever a proxy does to a third of the requests, each payment is made once."""
    with open_proxy(node, Random(seed), 0.3) as proxy:
        pay(Seat(url, (proxy.url,), tmp_path, PAYMENTS, confirmations=1))
    with connect(url) as chain:
        assert not find_unpaid(chain.balance, PAYMENTS)
        assert {chain.balance(find_payee(it)) for it in range(PAYMENTS)} == {1}
    assert node.methods.blocks.get_count(bytes.fromhex(PAYER[2:])) == PAYMENTS  # type: ignore[arg-type]
    assert len(proxy.faults) > len(FAULTS) // 2


def test_node_that_breaks_off_is_left(node: DevNode, url: str, lines: list[str]) -> None:
    """When the node in use answers no more, the next is used, and a line says so."""
    with open_proxy(node, Random(1), 0.0) as proxy:
        transport = Endpoints([proxy.url, url], say=lines.append)
        assert transport.ask("eth_blockNumber", [])["result"] == "0x1"
        proxy.answer = lambda _: Reply(502)  # type: ignore[method-assign] # from now on it fails
        assert transport.ask("eth_blockNumber", [])["result"] == "0x1"
        transport.close()
    assert lines == [
        f"using {proxy.url} at block 1",
        f"using {url} at block 1; left {proxy.url}: it answers with HTTP status 502",
    ]


def test_unfit_nodes_are_not_used(
    node: DevNode, url: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that hangs, none at all, and one of another chain are passed over."""
    monkeypatch.setattr(endpoints, "ENDPOINT_TIMEOUT_S", 0.1)
    chain_id = node.methods.blocks.get_chain_id()
    other = DevNode(1)
    other.methods._methods["eth_chainId"] = lambda: "0x7"
    with ExitStack() as stack:
        foreign, hung = stack.enter_context(serve(other)), stack.enter_context(serving_http(hang))
        nobody = "http://127.0.0.1:1"
        transport = Endpoints([hung, nobody, foreign, url], chain_id, lines.append)
        assert transport.url == url
        assert [line.split(": ")[0] for line in lines[:3]] == [
            f"not using {it}" for it in (hung, nobody, foreign)
        ]
        transport.close()
        with pytest.raises(ChainIdChanged):
            Endpoints([foreign], chain_id)
        with pytest.raises(ChainUnavailable, match="nothing answers there"):
            Endpoints([nobody, nobody], chain_id)


def test_node_that_falls_behind_is_left(node: DevNode, url: str, lines: list[str]) -> None:
    """A node whose blocks stand still is compared with the others, and left for one ahead."""
    behind = DevNode(1)
    with serve(behind) as slow:
        transport = Endpoints([slow, url], None, lines.append, stalled_s=0.0)
        node.methods.blocks.mine(9)
        assert transport.ask("eth_blockNumber", [])["result"] == "0xa"
        assert transport.url == url
        transport.close()
        again = Endpoints([url, slow], None, lines.append)
        again.ask("eth_blockNumber", [])
        with pytest.raises(ChainUnavailable, match="it is at block 0, behind 10"):
            again._check(slow)
        again.close()


def test_error_of_the_node_is_asked_of_the_next(url: str) -> None:
    """An internal error of one node is another's answer; a refusal of the question is an answer."""
    faulty = DevNode(1)

    def fail(*_: object) -> object:
        return {"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "internal"}}

    with serve(faulty) as first:
        transport = Endpoints([first, url])
        real = faulty.methods.answer
        faulty.methods.answer = lambda it: fail() | {"id": it["id"]} if it else real(it)  # type: ignore[method-assign,operator] # always fails
        assert transport.ask("eth_getBalance", [PAYER, "latest"])["result"] != "0x0"
        assert transport.url == url
        assert transport.ask("eth_call", [])["error"]["code"] == -32602
        transport.close()


def test_sender_goes_on_with_the_next_node(node: DevNode, url: str, tmp_path: Path) -> None:
    """A payment whose node breaks off after it was sent is found through the next."""
    with (
        open_proxy(node, Random(1), 0.0) as proxy,
        open_payer(Seat(url, (proxy.url, url), tmp_path, 1)) as chain,
    ):
        real = proxy.answer

        def break_off(body: bytes) -> tuple[int, bytes, int]:
            if b"eth_sendRawTransaction" not in body:
                return real(body)
            real(body)
            proxy.answer = lambda _: Reply(502)  # type: ignore[method-assign] # gone for good
            raise ConnectionError

        proxy.answer = break_off  # type: ignore[method-assign] # once
        (answer,) = chain.node.send([make_payment(chain.chain_id, 0)])
    assert isinstance(answer, Mined)
    assert node.methods.blocks.get_count(bytes.fromhex(PAYER[2:])) == 1  # type: ignore[arg-type]


class Clock:
    """A chain whose blocks come at an interval of a clock that a test moves on."""

    def __init__(self, block_s: float) -> None:
        self.block_s = block_s
        self.now = 0.0
        self.asked = 0

    def block_number(self) -> int:
        """Return the number of the latest block."""
        self.asked += 1
        return int(self.now / self.block_s)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.mark.parametrize("block_s", [1.0, 2.0, 12.0])
def test_head_asks_once_a_block(block_s: float) -> None:
    """An idle follower asks at most once a block, once it knows the time between blocks."""
    clock = Clock(block_s)
    head = Head(clock, clock.sleep, lambda: clock.now)
    for _ in range(3):
        head.follow(100 * block_s)
    asked, number = clock.asked, head.number
    seen = [head.follow(100 * block_s) for _ in range(200)]
    assert clock.asked - asked <= head.number - number
    assert seen == sorted({it for it in seen if it is not None})
    assert head.number - number <= 215


def test_head_has_patience_only() -> None:
    """A chain that stands still is reported when the patience is over."""
    clock = Clock(1e9)
    assert Head(clock, clock.sleep).follow(0.0) is None


def test_traffic_is_counted_by_path(node: DevNode, url: str) -> None:
    """The node for development says how much it was asked under each path of its URL."""
    with connect(f"{url}/alice") as chain:
        before = node.methods._traffic["/alice"]
        chain.block_number()
        after = node.methods._traffic["/alice"]
    requests, questions, came, went = (new - old for new, old in zip(after, before, strict=True))
    assert (requests, questions) == (1, 1)
    assert 20 < came < 200
    assert 20 < went < 200
