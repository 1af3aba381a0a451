"""Limits of the sender: to the wei of a balance, and to the block of what it waits for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moot.offchain.chain.accounts import FeePolicy, KeyAccount, NodeAccount, open_chain, sender
from moot.offchain.chain.accounts.fees import GWEI, Fees, calculate_fees, raise_fees
from moot.offchain.chain.accounts.journal import Entry
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.accounts.sender import Sender
from moot.offchain.chain.devnode import pool
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.receipts import Transaction
from moot.offchain.chain.transports import Question
from moot.offchain.errors import ChainUnavailable, NonceTaken, TransactionRefused
from tests.sending.payer import KEY, PAYER, PAYMENT_GAS, make_payment

STUCK, CONFIRMED = 3, 4
CHAIN_ID = DevNode(accounts=1).methods.blocks.get_chain_id()
POLICY = FeePolicy(stuck_blocks=STUCK, confirmations=CONFIRMED)
ETHER = 10**18
Open = Callable[..., Sender]


@pytest.fixture
def lines() -> list[str]:
    """What was said."""
    return []


@pytest.fixture
def open_it(node: DevNode, tmp_path: Path, lines: list[str]) -> Iterator[Open]:
    """Opens the payer's sender, whose node makes blocks only when it is told to."""
    opened: list[OwnChain] = []

    def open_it(policy: FeePolicy = POLICY) -> Sender:
        for chain in opened:
            chain.close()
        kept = {"folder": tmp_path, "patience_seconds": 0.0, "say": lines.append}
        chain = open_chain(Local(node), [KeyAccount(KEY)], policy, **kept)  # type: ignore[arg-type] # by name
        opened.append(chain)
        return chain.node._senders[PAYER]

    node.methods.is_automatic = False
    node.methods.blocks.least_base_fee = GWEI
    node.methods.blocks.mine(20)
    yield open_it
    for chain in opened:
        chain.close()


def pay(number: int, value_wei: int = 1) -> Transaction:
    """Return a payment of so much."""
    return replace(make_payment(CHAIN_ID, number), value_wei=value_wei)


def sign(own: Sender, *calls: Transaction) -> list[Entry]:
    """Submit calls that are all signed."""
    found = own.submit(calls)
    assert all(isinstance(it, Entry) for it in found), found
    return [it for it in found if isinstance(it, Entry)]


def test_a_balance_is_enough_to_the_wei(open_it: Open, node: DevNode) -> None:
    """It is there for what waits and for the new call at once; what is mined needs no more."""
    own, blocks = open_it(), node.methods.blocks
    held_wei = blocks.get_balance(PAYER)
    (first,) = sign(own, pay(1, held_wei // 2))
    gas_wei = PAYMENT_GAS * first.latest.fees.max_fee_wei
    rest_wei = held_wei - held_wei // 2 - 2 * gas_wei
    (refused,) = own.submit([pay(2, rest_wei + 1)])
    assert isinstance(refused, TransactionRefused)
    assert f"holds {held_wei:,} wei, and {held_wei + 1:,} may be needed" in str(refused)
    sign(own, pay(2, rest_wei))
    blocks.mine(1)
    own.tend()
    gift = replace(pay(0), sender=blocks.get_accounts()[0], to=PAYER, value_wei=ETHER)
    blocks.take_raw(blocks.sign(gift, 1, (50 * GWEI, GWEI)))
    blocks.mine(1)
    own.tend()
    left_wei = blocks.get_balance(PAYER)
    gas_wei = PAYMENT_GAS * calculate_fees(GWEI, POLICY).max_fee_wei
    assert left_wei > ETHER
    assert isinstance(own.submit([pay(3, left_wei - gas_wei + 1)])[0], TransactionRefused)
    sign(own, pay(3, left_wei - gas_wei))


def test_only_the_first_is_replaced_in_the_block_in_which_it_is_stuck(
    open_it: Open, node: DevNode
) -> None:
    """Not a block sooner; what waits behind it pays enough, and is sent as it is."""
    own, blocks = open_it(), node.methods.blocks
    first, second = sign(own, pay(1), pay(2))
    fees = first.latest.fees
    for age in range(1, 3 * STUCK + 1):
        blocks.pool.waiting.clear()
        blocks.mine(1)
        own.tend()
        assert sorted(blocks.pool.waiting[bytes.fromhex(PAYER[2:])]) == [0, 1]  # type: ignore[index] # bytes
        assert len(first.versions) == 1 + age // STUCK
        assert len(second.versions) == 1
    raised = raise_fees(fees, GWEI, POLICY)
    assert first.versions[1].fees == raised


def test_all_are_replaced_whose_fees_no_block_takes(
    open_it: Open, node: DevNode, lines: list[str]
) -> None:
    """What pays too little is replaced though others are before it, and told of once at the end."""
    own, blocks = open_it(FeePolicy(max_fee_wei=5 * GWEI, stuck_blocks=STUCK)), node.methods.blocks
    both = sign(own, pay(1), pay(2))
    blocks.least_base_fee = 4 * GWEI
    blocks.mine(STUCK)
    blocks.pool.waiting.clear()
    blocks.mine(1)
    own.tend()
    assert [it.latest.fees.max_fee_wei for it in both] == [5 * GWEI] * 2
    assert len([it for it in lines if "was stuck at 3 gwei: replaced at 5 gwei" in it]) == 2
    blocks.least_base_fee = 6 * GWEI
    for _ in range(2 * STUCK):
        blocks.mine(1)
        own.tend()
    assert len([it for it in lines if "waits: the base fee is 6 gwei" in it]) == 2
    assert [len(it.versions) for it in both] == [2, 2]
    sign(own, pay(3))
    assert len([it for it in lines if "pay-3 (nonce 2) waits: the base fee is 6 gwei" in it]) == 1


def test_a_call_is_final_in_the_block_of_its_last_confirmation(
    open_it: Open, node: DevNode
) -> None:
    """Its own block is the first; who was told of it by then has no more to ask."""
    own, blocks = open_it(), node.methods.blocks
    told, untold = sign(own, pay(1), pay(2))
    blocks.mine(1)
    own.tend()
    own.tell(told)
    for depth in range(1, CONFIRMED + 1):
        assert told.is_final is untold.is_final is (depth == CONFIRMED)
        assert (told.nonce in own.journal.live) is (depth < CONFIRMED)
        blocks.mine(1)
        own.tend()
    assert sign(own, pay(2)) == [untold]
    own.tell(untold)
    assert not own.journal.live
    assert own.tend() is None


def test_what_is_final_answers_for_its_call_for_so_many_blocks(
    open_it: Open, node: DevNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After them the same call is another one."""
    assert sender.UNCLAIMED_BLOCKS == 1_000
    monkeypatch.setattr(sender, "UNCLAIMED_BLOCKS", 9)
    own, blocks = open_it(), node.methods.blocks
    (entry,) = sign(own, pay(1))
    blocks.mine(9)
    own.tend()
    sign(own, pay(2))
    blocks.mine(1)
    own.tend()
    assert sign(own, pay(1)) == [entry]
    blocks.mine(1)
    sign(own, pay(3))
    assert entry.nonce not in own.journal.live
    assert sign(own, pay(1)) != [entry]


def test_no_more_gas_is_asked_for_than_a_block_has(open_it: Open, node: DevNode) -> None:
    """What is kept is what was signed."""
    room = node.methods.blocks.get_block_gas()
    (large,) = sign(open_it(), replace(pay(1), gas_limit=room + 1))
    assert large.transaction.gas_limit == room


def test_a_nonce_that_was_given_up_is_used_at_fees_that_replace(open_it: Open) -> None:
    """The last that the node refuses are given up; what it refuses before others is kept."""
    own = open_it()
    bad = replace(pay(9), gas_limit=20_000)
    good, kept, gone, also = own.submit([pay(1), pay(2), bad, replace(bad, value_wei=2)])
    assert isinstance(good, Entry)
    assert isinstance(kept, Entry)
    assert isinstance(gone, TransactionRefused)
    assert isinstance(also, TransactionRefused)
    assert sorted(own.journal.live) == [good.nonce, kept.nonce]
    (again,) = sign(own, pay(3))
    assert again.nonce == kept.nonce + 1
    assert again.latest.fees == raise_fees(kept.latest.fees, GWEI, POLICY)
    before, _ = sign(own, *[replace(bad, value_wei=5), pay(4)])
    assert before.nonce in own.journal.live


def test_what_a_full_pool_refuses_is_sent_again(
    open_it: Open, node: DevNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not refused for good: it keeps its nonce, and gets in once there is room."""
    monkeypatch.setattr(pool, "MOST_OF_A_SENDER", 2)
    own, blocks = open_it(), node.methods.blocks
    found = sign(own, pay(1), pay(2), pay(3))
    first = blocks.get_block_number() + 1
    for _ in range(2):
        blocks.mine(1)
        own.tend()
    assert [it.block for it in found] == [first, first, first + 1]


def test_a_nonce_that_was_given_up_at_the_ceiling_is_taken_at_the_ceiling(open_it: Open) -> None:
    """A node that refuses everything for a while keeps nobody out for good."""
    own = open_it(FeePolicy(max_fee_wei=3 * GWEI))
    for number in range(3):
        (answer,) = own.submit([replace(pay(9 + number), gas_limit=20_000)])
        assert isinstance(answer, TransactionRefused)
    (entry,) = sign(own, pay(1))
    assert entry.latest.fees.max_fee_wei == 3 * GWEI


def test_nothing_is_signed_that_would_run_out_of_its_gas(open_it: Open, node: DevNode) -> None:
    """A node that knows no room for a call is not believed, and is left."""
    own = open_it()
    call = replace(pay(1), gas_limit=node.methods.blocks.get_block_gas())
    known = node.methods._methods["eth_getBlockByNumber"]
    small = {"gasLimit": hex(24_000)}
    node.methods._methods["eth_getBlockByNumber"] = lambda *args: known(*args) | small
    own.submit([pay(1)])
    with pytest.raises(ChainUnavailable, match="no room for a call of"):
        own.submit([replace(call, gas_limit=24_001)])
    assert [it.transaction.gas_limit for it in own.journal.live.values()] == [21_000]
    node.methods._methods["eth_getBlockByNumber"] = known


def test_a_base_fee_falls_by_an_eighth_at_most(open_it: Open, node: DevNode) -> None:
    """Whoever believed a lower one would wait in vain for a block."""
    own = open_it()
    node.methods.blocks.least_base_fee = 40 * GWEI
    node.methods.blocks.mine(1)
    (before,) = sign(own, pay(1))
    known = node.methods._methods["eth_getBlockByNumber"]
    cheap = {"baseFeePerGas": "0x1"}
    node.methods._methods["eth_getBlockByNumber"] = lambda *args: known(*args) | cheap
    node.methods.blocks.mine(1)
    (after,) = sign(own, pay(2))
    assert after.latest.fees.max_fee_wei * 8 >= before.latest.fees.max_fee_wei * 7 - 8 * GWEI
    node.methods._methods["eth_getBlockByNumber"] = known


def test_what_one_node_keeps_to_itself_gets_to_the_others(
    open_it: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node is sent what is signed; one that takes it is enough."""
    own = open_it()
    sent: list[str] = []

    def take(questions: Sequence[Question]) -> list[list[Any]]:
        sent.extend(method for method, _ in questions)
        return [["0x" + "ab" * 32 for _ in questions]]

    monkeypatch.setattr(own._port, "ask_others", take)
    (entry,) = own.submit([replace(pay(9), gas_limit=20_000)])  # this node refuses it
    assert isinstance(entry, Entry)
    assert sent[-1] == "eth_sendRawTransaction"


def test_a_nonce_is_taken_once_another_call_has_its_confirmations(
    open_it: Open, node: DevNode, tmp_path: Path, lines: list[str]
) -> None:
    """Not a block sooner; and what a node shows no more is waited for anew."""
    own, blocks = open_it(), node.methods.blocks
    (entry,) = sign(own, pay(1))
    blocks.pool.waiting.clear()
    other = {"folder": tmp_path / "b", "patience_seconds": 0.0}
    with open_chain(Local(node), [KeyAccount(KEY)], POLICY, **other) as chain:  # type: ignore[arg-type] # by name
        sign(chain.node._senders[PAYER], pay(2))
    blocks.mine(1)
    for _ in range(CONFIRMED):
        own.tend()
        assert entry.failure is None
        blocks.mine(1)
    own.tend()
    assert isinstance(entry.failure, NonceTaken)
    assert str(entry.failure) in lines
    assert not own.journal.live


def test_a_nonce_that_is_free_again_is_waited_for_anew(
    open_it: Open, node: DevNode, tmp_path: Path
) -> None:
    """Reorganisations give it to another call, to ours, to nobody, and to the other again.

    Each time that the other has it, all its confirmations count from there.
    """
    own, blocks = open_it(), node.methods.blocks
    blocks.least_base_fee = 0
    blocks.mine(1)
    (entry,) = sign(own, pay(1))
    ours = entry.latest.raw
    blocks.pool.waiting.clear()
    kept = {"folder": tmp_path / "b", "patience_seconds": 0.0}
    with open_chain(Local(node), [KeyAccount(KEY)], POLICY, **kept) as chain:  # type: ignore[arg-type] # by name
        theirs = sign(chain.node._senders[PAYER], pay(2))[0].latest.raw
    known = blocks.get_block_hash(blocks.get_block_number())
    for later, raw in enumerate((theirs, ours, theirs, b"", theirs)):
        blocks.pool.waiting.clear()
        blocks.revert(known)
        blocks.mine(1 + later * CONFIRMED)
        if raw:
            blocks.take_raw(raw)
        for _ in range(CONFIRMED - 1):
            blocks.mine(1)
            own.tend()
            blocks.pool.waiting.clear()
            assert (entry.missing is None) == (raw != theirs)
            assert entry.failure is None
    for failure in (type(None), NonceTaken):
        blocks.mine(1)
        own.tend()
        assert isinstance(entry.failure, failure)


def test_what_waits_is_sent_once_in_each_block(open_it: Open, node: DevNode) -> None:
    """However often it is looked after, by the process that signed it or by the next one."""
    known = node.methods._methods["eth_sendRawTransaction"]
    sent: list[str] = []

    def take(raw: str) -> object:
        sent.append(raw)
        return known(raw)

    node.methods._methods["eth_sendRawTransaction"] = take
    own = open_it()
    (entry,) = sign(own, pay(1))
    bytes_of_it = "0x" + entry.latest.raw.hex()
    for _ in range(2):
        own.tend()
        assert sent == [bytes_of_it]
        own.tend()
        assert sent == [bytes_of_it]
        node.methods.blocks.pool.waiting.clear()
        node.methods.blocks.mine(1)
        sent.clear()
        own = open_it()


def test_a_process_that_begins_anew_waits_for_what_another_has_signed(
    open_it: Open, node: DevNode
) -> None:
    """Its own first look is where it begins to count: nothing is replaced a block sooner."""
    blocks = node.methods.blocks
    (entry,) = sign(open_it(), pay(1))
    for _ in range(2):
        blocks.pool.waiting.clear()
        blocks.mine(STUCK)
        own = open_it()
        for age in range(STUCK):
            own.tend()
            (found,) = own.journal.live.values()
            assert [it.raw for it in found.versions] == [entry.latest.raw], age
            blocks.pool.waiting.clear()
            blocks.mine(1)
    own.tend()
    assert [it.fees for it in found.versions] == [
        entry.latest.fees,
        raise_fees(entry.latest.fees, GWEI, POLICY),
    ]


def test_what_is_signed_before_the_first_block_is_stuck_in_its_block(tmp_path: Path) -> None:
    """A chain that has nothing but its beginning is one on which calls wait like on any other."""
    node = DevNode(accounts=1)
    node.methods.is_automatic = False
    transport, blocks = Local(node), node.methods.blocks
    rich = NodeAccount(blocks.get_accounts()[0], transport)
    kept = {"folder": tmp_path, "patience_seconds": 0.0}
    with open_chain(transport, [rich], POLICY, **kept) as chain:  # type: ignore[arg-type] # by name
        own = chain.node._senders[rich.address]
        (entry,) = sign(own, replace(pay(1), sender=rich.address))
        for age in range(1, STUCK + 1):
            blocks.pool.waiting.clear()
            blocks.mine(1)
            own.tend()
            assert len(entry.versions) == 1 + age // STUCK


def test_a_node_that_takes_back_a_count_is_not_believed(open_it: Open, node: DevNode) -> None:
    """Two numbers for the transactions of an account sign nothing; one is asked for twice."""
    own, known = open_it(), node.methods._methods["eth_getTransactionCount"]
    counts = iter(["0x5", "0x4"])
    node.methods._methods["eth_getTransactionCount"] = lambda *_: next(counts)
    with pytest.raises(ChainUnavailable, match="gives two numbers"):
        own.submit([pay(1)])
    assert not own.journal.live
    counts = iter(["0x5", "0x6", "0x0"])
    (entry,) = sign(own, pay(1))
    assert entry.nonce == 6
    node.methods._methods["eth_getTransactionCount"] = known


def test_a_count_is_asked_for_twice_where_the_journal_expects_another(
    open_it: Open, node: DevNode
) -> None:
    """One question is enough where it expects as many, or more."""
    own, known = open_it(), node.methods._methods["eth_getTransactionCount"]
    asked: list[int] = []
    counts = iter([1, 1, 5, 4])

    def count(*_: object) -> str:
        asked.append(next(counts))
        return hex(asked[-1])

    sign(own, pay(1))
    node.methods.blocks.mine(1)
    node.methods._methods["eth_getTransactionCount"] = count
    sign(own, pay(2))
    assert asked == [1]
    node.methods.blocks.pool.waiting.clear()
    sign(own, pay(3))
    assert asked == [1, 1]
    with pytest.raises(ChainUnavailable, match="gives two numbers"):
        own.submit([pay(4)])
    node.methods._methods["eth_getTransactionCount"] = known


def test_what_is_in_no_journal_is_told_of_once(
    open_it: Open, node: DevNode, lines: list[str]
) -> None:
    """A gap before what waits is named by its nonces."""
    own, known = open_it(), node.methods._methods["eth_getTransactionCount"]
    node.methods._methods["eth_getTransactionCount"] = lambda *_: "0x3"
    sign(own, pay(1))
    node.methods._methods["eth_getTransactionCount"] = known
    for _ in range(2):
        node.methods.blocks.mine(1)
        own.tend()
    (line,) = [it for it in lines if "is in no block and no journal" in it]
    assert f"what {PAYER} sent under the nonces 0 to 2 " in line


def test_fees_are_shown_in_gwei() -> None:
    """Nine digits, and no more."""
    assert sender._show(1_234_567_891) == "1.23456789 gwei"
    assert Fees(1, 1).tip_wei
