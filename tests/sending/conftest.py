"""Nodes on which the payer has money."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext

import pytest

from moot.offchain.chain import connect
from moot.offchain.chain.accounts import FeePolicy, NodeAccount, open_chain
from moot.offchain.chain.devnode.server import DevNode, Local, serve
from moot.offchain.chain.receipts import Mined, Transaction
from tests.sending.payer import FUND_WEI, PAYER, PAYMENT_GAS


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> DevNode:
    """A node that makes a block for every transaction, where the payer has money."""
    node = DevNode(accounts=2)
    transport = Local(node)
    rich = NodeAccount(node.methods.blocks.get_accounts()[0], transport)
    folder = tmp_path_factory.mktemp("rich")
    with open_chain(transport, [rich], FeePolicy(), folder=folder) as chain:
        gift = Transaction(chain.chain_id, "fund", rich.address, PAYER, b"", FUND_WEI, PAYMENT_GAS)
        (answer,) = chain.node.send([gift])
        assert isinstance(answer, Mined)
    return node


@pytest.fixture
def url(node: DevNode) -> Iterator[str]:
    """Where that node listens."""
    with serve(node) as url:
        yield url


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Makes processes that know nothing but the code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.sending.payer", "pytest"])
    return context


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """Import what is slow before any time counts."""
    assert connect
