"""A node behind JSON-RPC may be absent, change, break off or talk nonsense: Moot reports each."""

from collections.abc import Iterator
from typing import Any

import pytest
from eth_tester.exceptions import TransactionFailed

from moot.contracts.compiler import Artifact
from moot.offchain.bounded_http import BoundedHandler
from moot.offchain.chain import Chain, connect
from moot.offchain.errors import (
    ChainError,
    ChainIdChanged,
    ChainUnavailable,
    MootError,
    NodeError,
    TransactionLost,
    UsageError,
)
from tests.chain_helpers import (
    NOBODY,
    ROOT,
    LoopbackNode,
    compile_ledger,
    deploy_ledger,
    open_node,
)
from tests.http_helpers import Reply, serving_http
from tests.quick import every


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The ledger, compiled once."""
    return compile_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.fixture(params=["http", "ws"])
def node(request: pytest.FixtureRequest) -> Iterator[LoopbackNode]:
    """A new node, over each transport in turn."""
    with open_node(request.param) as node:
        yield node


@pytest.fixture
def remote(node: LoopbackNode) -> Iterator[Chain]:
    """The chain of the node, with little patience."""
    with connect(node.url, patience_seconds=0.2) as chain:
        yield chain


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_no_node_at_the_address(scheme: str) -> None:
    """An address where nothing listens is ChainUnavailable, in one line that names it."""
    with serving_http(lambda *_: None) as free:
        url = free.replace("http", scheme)
    with pytest.raises(ChainUnavailable, match="nothing answers there") as caught:
        connect(url)
    assert caught.value.url == url
    assert "\n" not in str(caught.value)


def test_something_else_at_the_address() -> None:
    """An address where something answers, but not as a node does, is ChainUnavailable at once."""
    asked = []

    def answer(request: BoundedHandler, _: bytes) -> Reply:
        asked.append(request.path)
        return Reply(200, {}, b"<html>") if request.path == "/html" else Reply(404)

    with serving_http(answer) as url:
        with pytest.raises(ChainUnavailable, match="HTTP status 404"):
            connect(f"{url}/")
        with pytest.raises(ChainUnavailable, match="does not speak JSON-RPC"):
            connect(f"{url}/html")
        with pytest.raises(ChainUnavailable, match="nothing answers there"):
            connect(url.replace("http", "ws"))
    assert asked == ["/", "/html", "/"]


@pytest.mark.parametrize("url", ["testr", "ftp://127.0.0.1", "127.0.0.1:8545", ""])
def test_unknown_kind_of_address(url: str) -> None:
    """An address of no kind that we know is a usage error that names the kinds."""
    with pytest.raises(UsageError, match="unknown chain"):
        connect(url)


def test_chain_id_is_checked_at_connect(node: LoopbackNode, remote: Chain) -> None:
    """A chain of another id than the job's is refused before anything else happens."""
    with pytest.raises(ChainIdChanged) as caught:
        connect(node.url, chain_id=remote.chain_id + 1)
    assert (caught.value.expected, caught.value.found) == (remote.chain_id + 1, remote.chain_id)


def test_chain_id_is_checked_at_every_transaction(
    node: LoopbackNode, remote: Chain, artifact: Artifact
) -> None:
    """When the node comes to serve another chain, nothing more is sent to it."""
    ledger = deploy_ledger(remote, artifact)
    node.replies["eth_chainId"] = lambda _: 1
    node.asked.clear()
    with pytest.raises(ChainIdChanged, match="the chain id is 1, not 131277322940537"):
        ledger.transact("note", 1, ROOT, sender=remote.accounts[0])
    assert node.asked == ["eth_chainId"]
    del node.replies["eth_chainId"]
    ledger.transact("note", 1, ROOT, sender=remote.accounts[0])


def test_transaction_names_its_chain(node: LoopbackNode, remote: Chain, artifact: Artifact) -> None:
    """The node is told the chain id, so that it can refuse one that changed since we looked."""
    ledger = deploy_ledger(remote, artifact)
    sent = []
    node.replies["eth_sendTransaction"] = lambda params: sent.append(params[0])
    with pytest.raises(ChainError):
        ledger.transact("note", 1, ROOT, sender=remote.accounts[0])
    assert int(sent[0]["chainId"], 16) == remote.chain_id


def test_connection_lost_in_the_middle(
    node: LoopbackNode, remote: Chain, artifact: Artifact
) -> None:
    """A connection that breaks is ChainUnavailable, nothing is sent twice, and later calls work."""
    ledger = deploy_ledger(remote, artifact)

    def break_off(_: list[Any]) -> None:
        raise ConnectionError

    node.replies["eth_sendTransaction"] = break_off
    node.asked.clear()
    with pytest.raises(ChainUnavailable) as caught:
        ledger.transact("note", 1, ROOT, sender=remote.accounts[0])
    assert caught.value.url == node.url
    assert node.asked == ["eth_chainId", "eth_getTransactionCount", "eth_sendTransaction"]
    del node.replies["eth_sendTransaction"]
    ledger.transact("note", 1, ROOT, sender=remote.accounts[0])
    assert ledger.call("count") == 6


def test_transaction_without_a_block(node: LoopbackNode, remote: Chain, artifact: Artifact) -> None:
    """A transaction that no block has in time is lost, and the error names it."""
    ledger = deploy_ledger(remote, artifact)
    node.replies["eth_getTransactionReceipt"] = lambda _: None
    with pytest.raises(TransactionLost, match=r"in no block after 0\.2 s") as caught:
        ledger.transact("note", 1, ROOT, sender=remote.accounts[0])
    assert len(caught.value.transaction_hash) == 66
    assert node.asked.count("eth_getTransactionReceipt") > 2


def test_waiting_where_nobody_may_mine(node: LoopbackNode, remote: Chain) -> None:
    """Without a method to mine, mining waits for blocks, as long as they keep coming."""

    def refuse(_: list[Any]) -> None:
        raise TransactionFailed("the method does not exist")

    heights = iter([10, 10, 11, 11, 13])
    node.replies |= {"evm_mine": refuse, "eth_blockNumber": lambda _: next(heights)}
    remote.mine(3)
    assert next(heights, None) is None
    node.replies["eth_blockNumber"] = lambda _: 13
    with pytest.raises(ChainUnavailable, match="no block for"):
        remote.mine(1)


def test_node_that_mines_many_at_once(node: LoopbackNode, remote: Chain) -> None:
    """A node that can mine many blocks in one request gets one request."""
    mined: list[Any] = []
    node.replies["anvil_mine"] = mined.append
    remote.mine(1000)
    assert mined == [["0x3e8"]]
    assert "evm_mine" not in node.asked


def test_snapshot_that_is_gone(node: LoopbackNode, remote: Chain) -> None:
    """A node that no longer has a snapshot is an error, not a silent no."""
    node.replies["evm_revert"] = lambda _: False
    with pytest.raises(ChainError, match="no longer has this snapshot"):
        remote.revert("0x1")


@pytest.mark.parametrize(
    ("method", "reply"),
    every(
        6,
        [
            ("eth_blockNumber", None),
            ("eth_blockNumber", "many"),
            ("eth_getBalance", ["0x1"]),
            ("eth_sendTransaction", {}),
            ("eth_getTransactionReceipt", {"status": "0x1"}),
            ("eth_getTransactionReceipt", "0x1"),
            ("eth_call", "0x123"),
            ("eth_getLogs", {"logs": "none"}),
        ],
    ),
)
def test_nonsense_from_the_node(
    node: LoopbackNode, remote: Chain, artifact: Artifact, method: str, reply: object
) -> None:
    """Whatever a node answers, only our own errors come out."""
    ledger = deploy_ledger(remote, artifact)
    node.replies[method] = lambda _: reply
    with pytest.raises(MootError):  # noqa: PT012 - one of them raises, according to the method
        remote.block_number()
        remote.balance(NOBODY)
        ledger.call("count")
        ledger.events(0, 9)
        ledger.transact("note", 1, ROOT, sender=remote.accounts[0])


def test_refusal_of_the_node_itself(node: LoopbackNode, remote: Chain, artifact: Artifact) -> None:
    """A node that refuses a question is told apart from a contract that rejects a call."""

    def refuse(_: list[Any]) -> None:
        raise TransactionFailed("rate limit exceeded")

    ledger = deploy_ledger(remote, artifact)
    node.replies["eth_call"] = refuse
    with pytest.raises(NodeError, match="the node refused eth_call: rate limit exceeded"):
        ledger.call("count")
