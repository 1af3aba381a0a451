"""The same accounts on another node: anvil."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.offchain.chain.accounts import FeePolicy, NodeAccount, open_chain
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.receipts import Address, Mined, Transaction
from tests.node.anvil import Anvil, run_anvil
from tests.node.fetch import NodeMissing, get_anvil
from tests.sending.payer import FUND_WEI, PAYER, PAYMENT_GAS, Seat, make_payment, open_payer


@pytest.fixture
def anvil(tmp_path: Path) -> Iterator[Anvil]:
    """A new chain on anvil; without it the test is skipped."""
    try:
        program = get_anvil()
    except NodeMissing as missing:
        pytest.skip(str(missing))
    with run_anvil(program, tmp_path) as anvil:
        yield anvil


def fund(anvil: Anvil, chain: OwnChain, folder: Path) -> None:
    """Let an unlocked account give the payer money."""
    rich = NodeAccount(Address(anvil.ask("eth_accounts")[0]), chain.node._transport)
    with open_chain(anvil.url, [rich], FeePolicy(), folder=folder) as funds:
        gift = Transaction(chain.chain_id, "fund", rich.address, PAYER, b"", FUND_WEI, PAYMENT_GAS)
        assert isinstance(funds.node.send([gift])[0], Mined)


def count(anvil: Anvil) -> int:
    """Return how many transactions of the payer the chain has."""
    return int(anvil.ask("eth_getTransactionCount", PAYER, "latest"), 16)


def test_payments_and_a_reorganisation(anvil: Anvil, tmp_path: Path) -> None:
    """An unlocked account funds ours, whose payments get in, and again after a reorganisation."""
    seat = Seat(anvil.url, (anvil.url,), tmp_path, 3, confirmations=3)
    with open_payer(seat) as chain:
        fund(anvil, chain, tmp_path)
        # Anvil may put all three payments into one block: then the reorganisation takes one more.
        anvil.ask("evm_mine")
        payments = [make_payment(chain.chain_id, it) for it in range(3)]
        before = chain.node.send(payments)
        assert all(isinstance(it, Mined) for it in before)
        anvil.replace_blocks(2, ())
        after = chain.node.send(payments[1:])
        assert all(isinstance(it, Mined) for it in after)
        for _ in range(3):
            anvil.ask("evm_mine")
        assert chain.settle(5.0)
        assert count(anvil) == 3


def test_a_reorganisation_deeper_than_the_confirmations(anvil: Anvil, tmp_path: Path) -> None:
    """What was final is sent again, in its order, before what waits for it."""
    with open_payer(Seat(anvil.url, (anvil.url,), tmp_path, 3, confirmations=2)) as chain:
        fund(anvil, chain, tmp_path)
        payments = [make_payment(chain.chain_id, it) for it in range(3)]
        (first,) = chain.node.send(payments[:1])
        anvil.ask("evm_mine")
        chain.tend()
        assert not chain.node.count_live()
        depth = anvil.get_height()
        chain.node.send(payments[1:])
        depth = anvil.get_height() - depth + 2
        anvil.replace_blocks(depth, ())
        assert count(anvil) == 0
        after = chain.node.send(payments[1:])
        assert all(isinstance(it, Mined) for it in after)
        assert count(anvil) == 3
        (again,) = chain.node.send(payments[:1])
        assert isinstance(again, Mined)
        assert isinstance(first, Mined)
        assert again.transaction_hash == first.transaction_hash
        for _ in range(3):
            anvil.ask("evm_mine")
        assert chain.settle(5.0)
        assert count(anvil) == 3
