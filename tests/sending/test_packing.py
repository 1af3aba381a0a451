"""Blocks of the node for development are packed as builders do: by tip, skipping what can't fit."""

from pathlib import Path

import pytest

from moot.offchain.chain.accounts import FeePolicy, KeyAccount, open_chain
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.devnode.blocks import Blocks
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.receipts import GAS_LIMIT, Mined, Transaction
from moot.offchain.disputes.referee.gas import calculate_crowd_gas, offer_gas
from tests.sending.censorship import Censor, Packed
from tests.sending.payer import KEY, PAYER, find_payee

BASE_WEI = GWEI
MOVE = b"\x01" * 3_300
"""Calldata as long as those of the longest leaf that was recorded."""


@pytest.fixture
def blocks() -> Blocks:
    """A chain whose base fee does not fall."""
    blocks = Blocks(3)
    blocks.least_base_fee = BASE_WEI
    return blocks


def put(
    blocks: Blocks, account: int, nonce: int, tip_wei: int, gas: int = 21_000, most_wei: int = 0
) -> bytes:
    """Put a payment into the pool, and return its hash."""
    sender = blocks.get_accounts()[account]
    payment = Transaction(blocks.get_chain_id(), "pay", sender, find_payee(0), b"", 1, gas)
    return blocks.take_raw(blocks.sign(payment, nonce, (most_wei or 50 * GWEI, tip_wei)))


def test_the_highest_tip_comes_first_and_nonces_keep_their_order(blocks: Blocks) -> None:
    """Of the next transactions of all accounts the best comes first, whatever else is behind it."""
    last = put(blocks, 0, 1, 9 * GWEI), put(blocks, 1, 0, 5 * GWEI), put(blocks, 2, 0, 3 * GWEI)
    first = put(blocks, 0, 0, 4 * GWEI)
    blocks.make_block()
    assert blocks.list_hashes(1) == [last[1], first, last[0], last[2]]


def test_a_tip_counts_as_far_as_the_highest_fee_leaves_it(blocks: Blocks) -> None:
    """What an offer leaves above the base fee is what the maker of a block gets."""
    poor = put(blocks, 0, 0, 40 * GWEI, most_wei=40 * GWEI)
    rich = put(blocks, 1, 0, 2 * GWEI)
    blocks.least_base_fee = 39 * GWEI
    blocks.make_block()
    assert blocks.list_hashes(1) == [rich, poor]


def test_equal_tips_are_taken_as_they_came(blocks: Blocks) -> None:
    """Where nothing else tells them apart, who came first is first."""
    came = [put(blocks, account, 0, GWEI) for account in (2, 0, 1)]
    blocks.make_block()
    assert blocks.list_hashes(1) == came


def test_what_does_not_fit_keeps_only_its_account_waiting(blocks: Blocks) -> None:
    """A block goes on with others; what comes after in the same account waits with it."""
    censor, room = Censor(blocks, blocks.get_accounts()[0]), 100_000
    censor.fill(room, 9 * GWEI)
    large = put(blocks, 1, 0, 5 * GWEI, gas=room + 1)
    behind = put(blocks, 1, 1, 5 * GWEI)
    small = put(blocks, 2, 0, GWEI)
    blocks.make_block()
    number = blocks.get_block_number()
    assert blocks.list_hashes(number)[1:] == [small]
    blocks.make_block()
    assert blocks.list_hashes(number + 1) == [large, behind]


@pytest.mark.parametrize("share", [0.46, 0.95])
def test_a_leaf_gets_into_what_is_left_of_a_block(blocks: Blocks, share: float) -> None:
    """Blocks that are filled below or above their target at a higher tip do not keep a leaf out.

    A call that asked for as much as a transaction may be offered would stay outside.
    """
    censor = Censor(blocks, blocks.get_accounts()[0])
    leaf = Transaction(1, "leaf", PAYER, find_payee(0), MOVE, 0)
    for gas_limit, is_in in ((offer_gas(leaf).gas_limit, True), (GAS_LIMIT, False)):
        censor.fill(int(blocks.get_block_gas() * (1 - share)), 9 * GWEI)
        sent = put(blocks, 1, int(not is_in), GWEI, gas=gas_limit)
        blocks.make_block()
        assert (sent in blocks.list_hashes(blocks.get_block_number())) is is_in


def test_a_censor_pays_for_as_many_blocks_as_the_rule_says(blocks: Blocks) -> None:
    """What the rule says a purse buys is what it buys on a chain, to the block."""
    packed = Packed(blocks, offer_gas(Transaction(1, "leaf", PAYER, find_payee(0), MOVE, 0)))
    cost_wei = packed.keep_out(12)
    assert packed.count_predicted(cost_wei) == 12
    assert packed.count_predicted(cost_wei - 1) == 11


def test_a_leaf_can_be_sent_with_what_the_check_asks_for(tmp_path: Path) -> None:
    """Who holds the gas of one match at the highest fee has enough for its last move."""
    node = DevNode(accounts=1)
    blocks = node.methods.blocks
    blocks.least_base_fee = 20 * GWEI
    funds = calculate_crowd_gas(1) * 20 * GWEI
    chain_id, rich = blocks.get_chain_id(), blocks.get_accounts()[0]
    gift = Transaction(chain_id, "fund", rich, PAYER, b"", funds, 21_000)
    blocks.take_raw(blocks.sign(gift, 0, (50 * GWEI, GWEI)))
    blocks.make_block()
    policy = FeePolicy(max_fee_wei=41 * GWEI)
    with open_chain(Local(node), [KeyAccount(KEY)], policy, folder=tmp_path) as chain:
        leaf = offer_gas(Transaction(chain_id, "leaf", PAYER, find_payee(0), MOVE, 0))
        (answer,) = chain.node.send([leaf])
    assert isinstance(answer, Mined)
