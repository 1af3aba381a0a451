"""Reorganisations that are deeper than the confirmations: each payment is made once, none waits."""

from pathlib import Path
from random import Random

import pytest

from moot.offchain.chain.accounts import FeePolicy, KeyAccount, journal, open_chain
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.receipts import Address, Mined, Transaction
from moot.offchain.errors import Reverted
from tests.sending.payer import KEY, PAYER, find_payee, find_unpaid, make_payment

PAYMENTS = 10


def count(node: DevNode) -> int:
    """Return how many transactions of the payer the chain has."""
    return node.methods.blocks.get_count(bytes.fromhex(PAYER[2:]))  # type: ignore[arg-type] # bytes


def open_payer(node: DevNode, folder: Path, confirmations: int, lines: list[str]) -> OwnChain:
    """Open the chain for the payer, in this process."""
    policy = FeePolicy(confirmations=confirmations, stuck_blocks=2)
    kept = {"folder": folder, "patience_seconds": 0.02, "say": lines.append}
    return open_chain(Local(node), [KeyAccount(KEY)], policy, **kept)  # type: ignore[arg-type] # by name


def send(chain: OwnChain, *payments: int) -> list[Mined]:
    """Make payments, and return what their blocks are."""
    answers = chain.node.send([make_payment(chain.chain_id, it) for it in payments])
    assert all(isinstance(it, Mined) for it in answers), answers
    return [it for it in answers if isinstance(it, Mined)]


def finish(node: DevNode, chain: OwnChain) -> None:
    """Let the payer pay what the chain does not show, and check that each payment is made once.

    It asks for one payment until that is made, the last first: what waits for others shows.
    """
    for _ in range(4 * PAYMENTS):
        if not (left := find_unpaid(chain.balance, PAYMENTS)):
            break
        chain.node.send([make_payment(chain.chain_id, left[-1])])
        node.methods.blocks.mine(1)
    node.methods.blocks.mine(12)
    chain.tend()
    assert {chain.balance(find_payee(it)) for it in range(PAYMENTS)} == {1}
    assert count(node) == PAYMENTS
    assert chain.node.count_live() == 0


def test_what_was_final_is_sent_again_before_what_lives(node: DevNode, tmp_path: Path) -> None:
    """A gap that a final transaction has left before live ones is closed with its own bytes."""
    lines: list[str] = []
    with open_payer(node, tmp_path, 2, lines) as chain:
        (first,) = send(chain, 0)
        node.methods.blocks.mine(1)
        chain.tend()
        assert not chain.node._senders[PAYER].journal.live
        send(chain, 1, 2)
        node.methods.blocks.reorganise(4, is_kept=False)
        assert count(node) == 0
        chain.tend()
        node.methods.blocks.mine(3)
        assert count(node) == 3
        chain.tend()
        (again,) = send(chain, 0)
        assert again.transaction_hash == first.transaction_hash
        assert len([line for line in lines if "is gone: sent again" in line]) == 3
        finish(node, chain)


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_nonce_that_was_used_is_not_given_to_another_call(
    node: DevNode, tmp_path: Path, *, is_opened_again: bool
) -> None:
    """With nothing live, a new call goes after the final ones that are gone, which come back."""
    with open_payer(node, tmp_path, 1, []) as chain:
        before = send(chain, 0, 1, 2)
        chain.tend()
        if is_opened_again:
            chain.close()
            chain = open_payer(node, tmp_path, 1, [])  # noqa: PLW2901 - the same, later
        node.methods.blocks.reorganise(2, is_kept=False)
        assert count(node) == 1
        send(chain, 3)
        assert count(node) == 4
        assert [it.transaction_hash for it in send(chain, 1, 2)] == [
            it.transaction_hash for it in before[1:]
        ]
        assert count(node) == 4
        finish(node, chain)
        chain.close()


def test_a_node_that_is_behind_makes_no_call_again(node: DevNode, tmp_path: Path) -> None:
    """What seemed gone and is in the block that its caller knows of stays told."""
    with open_payer(node, tmp_path, 1, []) as chain:
        send(chain, 0)
        chain.tend()
        known = node.methods._methods["eth_getTransactionCount"]
        node.methods._methods["eth_getTransactionCount"] = lambda *_: "0x0"
        chain.node._senders[PAYER].submit([])
        node.methods._methods["eth_getTransactionCount"] = known
        chain.tend()
        send(chain, 0)
    assert count(node) == 2


def test_what_is_long_final_is_forgotten(
    node: DevNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept for reorganisations is bounded in blocks, in memory and on the disk."""
    monkeypatch.setattr(journal, "KEPT_BLOCKS", 4)
    with open_payer(node, tmp_path, 1, []) as chain:
        for number in range(PAYMENTS):
            send(chain, number)
        kept = chain.node._senders[PAYER].journal
        assert len(kept.past) <= 5
        before = kept.path.stat().st_size
    monkeypatch.setattr(journal, "COMPACTED_BYTES", 100)
    with open_payer(node, tmp_path, 1, []) as chain:
        kept = chain.node._senders[PAYER].journal
        assert len(kept.past) <= 5
        assert kept.path.stat().st_size < before / 2 + 1
        node.methods.blocks.reorganise(3, is_kept=False)
        finish(node, chain)


def make_call(chain: OwnChain, to: Address | None, data: str) -> Transaction:
    """Return a call of a contract, or the making of one."""
    return Transaction(chain.chain_id, "call", PAYER, to, bytes.fromhex(data), 0, 200_000)


def test_what_fails_when_it_is_sent_again_is_no_answer(node: DevNode, tmp_path: Path) -> None:
    """A call that had succeeded, and fails in another block, is made anew for who asks again."""
    with open_payer(node, tmp_path, 8, []) as chain:
        last = node.methods.blocks.get_block_number() + 2
        code = f"4361{last:04x}10600957005b5f5ffd"  # fails in blocks after this one
        (made,) = chain.node.send([make_call(chain, None, f"600d8060095f395ff3{code}")])
        assert isinstance(made, Mined)
        call = make_call(chain, made.contract, "")
        (before,) = chain.node.send([call])
        assert isinstance(before, Mined)
        node.methods.blocks.reorganise(1, is_kept=False)
        chain.tend()
        chain.tend()
        (after,) = chain.node.send([call])
        assert isinstance(after, Reverted)
        assert count(node) == 3
        chain.node.send([make_payment(chain.chain_id, 1)])
        assert count(node) == 4


def play(node: DevNode, folder: Path, random: Random) -> None:
    """Pay, while blocks come and go at random and the payer begins anew at times."""
    confirmations, lines = random.randint(1, 4), list[str]()
    chain = open_payer(node, folder, confirmations, lines)
    start = node.methods.blocks.get_block_number()
    for _ in range(random.randint(4, 14)):
        node.methods.is_automatic = random.random() < 0.7
        what = random.choice(("pay", "pay", "mine", "undo", "undo", "tend", "begin anew"))
        left = find_unpaid(chain.balance, PAYMENTS)
        depth = node.methods.blocks.get_block_number() - start
        if what == "pay":
            some = random.sample(left, min(len(left), random.randint(1, 3)))
            chain.node.send([make_payment(chain.chain_id, it) for it in some])
        elif what == "mine":
            node.methods.blocks.mine(random.randint(1, 3))
        elif what == "undo" and depth:
            node.methods.blocks.reorganise(random.randint(1, depth), is_kept=random.random() < 0.3)
        elif what == "tend":
            chain.tend()
        elif what == "begin anew":
            chain.close()
            chain = open_payer(node, folder, confirmations, lines)
    node.methods.is_automatic = True
    node.methods.blocks.mine(1)
    finish(node, chain)
    chain.close()


@pytest.mark.parametrize("seed", range(4))
def test_drawn(node: DevNode, tmp_path: Path, seed: int) -> None:
    """At any depth, whatever the payer was doing, each payment is made once, and none waits."""
    play(node, tmp_path, Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_drawn(node: DevNode, tmp_path: Path, seed: int) -> None:
    """The same many times."""
    play(node, tmp_path, Random(seed))
