"""What an account sends gets in once: replaced, sent again if its block is gone, or refused."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moot.offchain.chain.accounts import FeePolicy, KeyAccount, NodeAccount, open_chain
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.receipts import Mined
from moot.offchain.chain.transports import Question
from moot.offchain.errors import (
    AccountBusy,
    ChainIdChanged,
    NonceTaken,
    StoreError,
    TransactionLost,
    TransactionRefused,
)
from tests.sending.payer import KEY, PAYER, find_payee, make_payment

Open = Callable[..., OwnChain]


@pytest.fixture
def lines() -> list[str]:
    """What was said."""
    return []


@pytest.fixture
def open_it(node: DevNode, tmp_path: Path, lines: list[str]) -> Iterator[Open]:
    """Opens the chain for the payer, in this process."""
    opened: list[OwnChain] = []

    def open_it(patience_s: float = 0.05, **fees: int) -> OwnChain:
        policy = FeePolicy(**{"confirmations": 4, "stuck_blocks": 2, **fees})
        kept = {"folder": tmp_path, "patience_seconds": patience_s, "say": lines.append}
        opened.append(open_chain(Local(node), [KeyAccount(KEY)], policy, **kept))
        return opened[-1]

    yield open_it
    for chain in opened:
        chain.close()


def ask(node: DevNode, method: str, *params: Any) -> Any:
    """Ask the node itself."""
    return node.methods.answer({"id": 1, "method": method, "params": list(params)})["result"]


def count(node: DevNode) -> int:
    """Return how many transactions of the payer the chain has."""
    return int(ask(node, "eth_getTransactionCount", PAYER), 16)


def lose(chain: OwnChain, number: int) -> TransactionLost:
    """Send a payment that gets no block."""
    (answer,) = chain.node.send([make_payment(chain.chain_id, number)])
    assert isinstance(answer, TransactionLost)
    return answer


def test_many_get_in_in_their_order(open_it: Open, node: DevNode) -> None:
    """Payments that are sent together have consecutive nonces and are final after a while."""
    chain = open_it()
    answers = chain.node.send([make_payment(chain.chain_id, it) for it in range(20)])
    assert [it.block for it in answers if isinstance(it, Mined)] == list(range(2, 22))
    node.methods.blocks.mine(4)
    assert chain.settle(1.0)
    assert chain.node.count_live() == 0


def test_same_call_again_is_the_same_transaction(open_it: Open, node: DevNode) -> None:
    """Whoever sends a lost call again waits for the same transaction; a told one is made anew."""
    chain = open_it()
    node.methods.is_automatic = False
    first, second = lose(chain, 1), lose(chain, 1)
    assert first.transaction_hash == second.transaction_hash
    node.methods.blocks.mine(1)
    (mined,) = chain.node.send([make_payment(chain.chain_id, 1)])
    assert isinstance(mined, Mined)
    assert mined.transaction_hash == first.transaction_hash
    assert count(node) == 1
    node.methods.is_automatic = True
    chain.node.send([make_payment(chain.chain_id, 1)])
    assert count(node) == 2


def test_a_receipt_is_asked_for_once(node: DevNode, tmp_path: Path) -> None:
    """Nothing but the account is asked without a block; after one, what it counts and no more."""
    asked: list[str] = []

    class Counted(Local):
        def ask_many(self, questions: Sequence[Question]) -> list[Any]:
            asked.extend(method for method, _ in questions)
            return super().ask_many(questions)

    def tend() -> Counter[str]:
        asked.clear()
        chain.tend()
        return Counter(asked)

    policy = FeePolicy(confirmations=4)
    kept: dict[str, Any] = {"folder": tmp_path, "patience_seconds": 0.05}
    account = ["eth_getBlockByNumber", "eth_getTransactionCount", "eth_getBalance"]
    receipt, block = "eth_getTransactionReceipt", "eth_getBlockByNumber"
    with open_chain(Counted(node), [KeyAccount(KEY)], policy, **kept) as chain:
        node.methods.is_automatic = False
        chain.node.send([make_payment(chain.chain_id, it) for it in range(3)])
        assert tend() == Counter(account)
        node.methods.blocks.mine(1)
        assert tend() == Counter([*account, *[receipt] * 3])
        assert tend() == Counter(account)
        node.methods.blocks.mine(1)
        assert tend() == Counter([*account, block])
        node.methods.blocks.least_base_fee = 2 * node.methods.blocks.next_base_fee()
        node.methods.blocks.reorganise(2, is_kept=True)
        assert tend() == Counter([*account, block, *[receipt] * 3])


def test_equal_calls_together_are_two(open_it: Open, node: DevNode) -> None:
    """Two equal calls that are sent together are two transactions."""
    chain = open_it()
    chain.node.send([make_payment(chain.chain_id, 1)] * 2)
    assert count(node) == 2


def test_reorganisation_is_noticed(open_it: Open, node: DevNode, lines: list[str]) -> None:
    """A transaction whose block is gone is sent again, the same bytes, and nothing else is."""
    chain = open_it()
    mark = ask(node, "evm_snapshot")
    (before,) = chain.node.send([make_payment(chain.chain_id, 1)])
    assert isinstance(before, Mined)
    node.methods.blocks.mine(2)
    ask(node, "evm_revert", mark)
    assert count(node) == 0
    node.methods.is_automatic = False
    (after,) = chain.node.send([make_payment(chain.chain_id, 1)])  # as one who looks would
    assert isinstance(after, TransactionLost)
    assert after.transaction_hash == before.transaction_hash
    node.methods.blocks.mine(4)
    assert chain.settle(1.0)
    assert count(node) == 1
    assert any("is gone: sent again" in line for line in lines)


def test_final_is_not_looked_after(open_it: Open, node: DevNode) -> None:
    """After its confirmations a transaction costs no question any more."""
    chain = open_it(confirmations=1)
    chain.node.send([make_payment(chain.chain_id, 1)])
    chain.tend()
    asked: list[Any] = []
    node.methods.answer = asked.append  # type: ignore[method-assign] # counts, answers nothing
    chain.tend()
    assert not asked


def test_stuck_is_replaced(open_it: Open, node: DevNode, lines: list[str]) -> None:
    """A transaction that waits is replaced at fees an eighth higher, under its nonce, once."""
    chain = open_it(tip_wei=GWEI)
    ask(node, "evm_mine")
    node.methods.is_automatic = False
    lose(chain, 1)
    ask(node, "moot_setLeastBaseFee", hex(30 * GWEI))
    for _ in range(3):
        node.methods.blocks.mine(1)
        chain.tend()
    node.methods.blocks.mine(1)
    (mined,) = chain.node.send([make_payment(chain.chain_id, 1)])
    assert isinstance(mined, Mined)
    assert count(node) == 1
    assert chain.balance(find_payee(1)) == 1
    assert any("was stuck at" in line and "replaced at" in line for line in lines)


def test_tripled_base_fee(open_it: Open, node: DevNode, lines: list[str]) -> None:
    """The sender follows a base fee that triples up to the ceiling, and says that it ends."""
    chain = open_it(max_fee_wei=10 * GWEI)
    for dear in (1, 3, 9):
        ask(node, "moot_setLeastBaseFee", hex(dear * GWEI))
        node.methods.blocks.mine(1)
        (mined,) = chain.node.send([make_payment(chain.chain_id, dear)])
        assert isinstance(mined, Mined)
        assert mined.effective_gas_price <= 10 * GWEI
    assert not [line for line in lines if "ceiling" in line]
    ask(node, "moot_setLeastBaseFee", hex(27 * GWEI))
    node.methods.blocks.mine(1)
    lose(chain, 27)
    for _ in range(4):
        node.methods.blocks.mine(1)
        chain.tend()
    (line,) = [line for line in lines if "ceiling" in line]
    assert line.endswith(
        "waits: the base fee is 27 gwei, and fees end at the ceiling of 10 gwei (max_fee_wei)"
    )
    ask(node, "moot_setLeastBaseFee", "0x1")
    node.methods.blocks.mine(12)
    (mined,) = chain.node.send([make_payment(chain.chain_id, 27)])
    assert isinstance(mined, Mined)
    assert count(node) == 4


def test_empty_account_is_refused(open_it: Open, node: DevNode) -> None:
    """What the account can't pay is refused in a line, and nothing is signed."""
    chain = open_it(max_fee_wei=10**18, tip_wei=10**18)
    (answer,) = chain.node.send([make_payment(chain.chain_id, 1)])
    assert isinstance(answer, TransactionRefused)
    assert str(answer).count("\n") == 0
    assert "may be needed; fund it" in str(answer)
    assert chain.node.count_live() == 0
    assert count(node) == 0


def test_refusal_of_the_node_leaves_no_gap(open_it: Open, node: DevNode) -> None:
    """A call that the node never takes is refused, and the next has its nonce."""
    chain = open_it()
    base = make_payment(chain.chain_id, 1)
    bad = type(base)(base.chain_id, "bad", PAYER, base.to, b"", 1, 20_000)
    (answer,) = chain.node.send([bad])
    assert isinstance(answer, TransactionRefused)
    assert "intrinsic gas too low" in str(answer)
    (mined,) = chain.node.send([base])
    assert isinstance(mined, Mined)
    assert count(node) == 1


def test_unknown_sender_is_refused(open_it: Open) -> None:
    """An account whose key is not here is refused."""
    chain = open_it()
    base = make_payment(chain.chain_id, 1)
    other = type(base)(base.chain_id, "pay", find_payee(9), base.to, b"", 1, 21_000)
    (answer,) = chain.node.send([other])
    assert isinstance(answer, TransactionRefused)
    assert "there is no key of" in str(answer)


def test_second_copy_is_refused(open_it: Open) -> None:
    """Two programs with the same key can't send on a chain; the second is told in one line."""
    chain = open_it()
    with pytest.raises(AccountBusy, match="stop it, or give this one an account") as caught:
        open_it()
    assert "\n" not in str(caught.value)
    chain.close()
    open_it().close()


def test_other_chain_is_refused(node: DevNode, tmp_path: Path) -> None:
    """A chain of another id is refused before anything is signed."""
    found = node.methods.blocks.get_chain_id()
    chain = open_chain(Local(node), [KeyAccount(KEY)], FeePolicy(), chain_id=found, folder=tmp_path)
    with pytest.raises(ChainIdChanged):
        open_chain(Local(node), [], FeePolicy(), chain_id=found + 1, folder=tmp_path)
    chain.close()


def test_nonce_used_elsewhere(open_it: Open, node: DevNode, tmp_path: Path) -> None:
    """A nonce that the same key has used elsewhere is found out, and the call is made once."""
    chain = open_it()
    node.methods.is_automatic = False
    lose(chain, 1)
    node.methods.blocks.pool.waiting.clear()
    other = open_chain(
        Local(node), [KeyAccount(KEY)], FeePolicy(), folder=tmp_path / "b", patience_seconds=0.01
    )
    other.node.send([make_payment(chain.chain_id, 2)])
    node.methods.blocks.mine(1)
    chain.tend()
    node.methods.blocks.mine(4)
    (answer,) = chain.node.send([make_payment(chain.chain_id, 1)])
    other.close()
    assert isinstance(answer, NonceTaken | TransactionLost)
    node.methods.blocks.mine(1)
    chain.node.send([make_payment(chain.chain_id, 1)])
    node.methods.blocks.mine(1)
    assert chain.balance(find_payee(1)) == 1


def test_full_disk_sends_nothing(
    open_it: Open, node: DevNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be written to the journal is not sent, and the journal stays whole."""
    chain = open_it()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(StoreError, match="No space left on device"):
            chain.node.send([make_payment(chain.chain_id, 1)])
    assert count(node) == 0
    chain.close()
    assert open_it().node.count_live() == 0


def test_unlocked_account_sends_alike(node: DevNode, tmp_path: Path) -> None:
    """An account of the node itself is a signer like any other."""
    transport = Local(node)
    rich = NodeAccount(node.methods.blocks.get_accounts()[1], transport)
    with open_chain(transport, [rich], FeePolicy(), folder=tmp_path) as chain:
        base = make_payment(chain.chain_id, 1)
        payment = type(base)(base.chain_id, "pay", rich.address, base.to, b"", 1, 21_000)
        (answer,) = chain.node.send([payment])
    assert isinstance(answer, Mined)
