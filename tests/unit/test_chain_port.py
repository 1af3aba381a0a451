"""The chain's port behaves alike over py-evm in this process, over HTTP and over a WebSocket."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from web3 import Web3

from moot.contracts.compiler import Artifact
from moot.offchain.chain import Chain, Event, Receipt, connect
from moot.offchain.chain.tester import BALANCE_WEI, BLOCK_TIME_S, GAS_PRICE_WEI, GENESIS_TIME_S
from moot.offchain.errors import BadCall, Reverted, TransactionRefused, UsageError
from tests.chain_helpers import NOBODY, ROOT, compile_ledger, deploy_ledger, open_node
from tests.quick import every


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The ledger, compiled once."""
    return compile_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.fixture(params=["tester", "http", "ws"])
def chain(request: pytest.FixtureRequest) -> Iterator[Chain]:
    """A new chain, over each kind of node in turn."""
    if request.param == "tester":
        with connect() as chain:
            yield chain
    else:
        with open_node(request.param) as node, connect(node.url) as chain:
            yield chain


def is_tester(chain: Chain) -> bool:
    """Tell the chain in this process from those behind JSON-RPC."""
    return type(chain.node).__name__ == "Tester"


def test_transaction_has_receipt_events_and_effect(chain: Chain, artifact: Artifact) -> None:
    """A transaction's receipt, events and state change are those that the contract made."""
    ledger = deploy_ledger(chain, artifact)
    before = chain.block_number()
    receipt = ledger.transact("note", 7, ROOT, b"abc", sender=chain.accounts[1], value=3)
    who = chain.accounts[1]
    tag = Web3.keccak(b"tag")
    assert receipt.events == (
        Event("Noted", {"who": who, "tag": tag, "note": (7, ROOT), "data": b"abc"}),
    )
    assert (receipt.call, receipt.sender, receipt.block) == ("note", who, before + 1)
    assert receipt.calldata_bytes == 4 + 5 * 32
    assert 21_000 + receipt.gas_calldata + receipt.gas_execution == receipt.gas_used
    assert ledger.call("notes", who) == (7, ROOT)
    assert ledger.call("count") == 6
    assert chain.balance(ledger.address) == 3


def test_defaults_of_arguments_are_overloads(chain: Chain, artifact: Artifact) -> None:
    """A function with a default argument can be called with and without it."""
    ledger = deploy_ledger(chain, artifact)
    receipt = ledger.transact("note", 7, ROOT, sender=chain.accounts[0])
    assert receipt.events[0].args["data"] == b""


def test_sender_pays_gas_at_the_effective_price(chain: Chain, artifact: Artifact) -> None:
    """What a transaction takes from its sender is its value and its gas at the receipt's price."""
    ledger = deploy_ledger(chain, artifact)
    sender = chain.accounts[2]
    before = chain.balance(sender)
    receipt = ledger.transact("note", 7, ROOT, sender=sender, value=10)
    spent = 10 + receipt.gas_used * receipt.effective_gas_price
    assert chain.balance(sender) == before - spent


def test_deployment_has_receipt_and_can_be_found_again(chain: Chain, artifact: Artifact) -> None:
    """A deployment has a receipt, the artifact's size, and is the same contract by address."""
    ledger = deploy_ledger(chain, artifact)
    assert ledger.deployment is not None
    assert ledger.deployment.call == "constructor"
    assert ledger.deployment.block == ledger.call("born") == chain.block_number()
    assert len(chain.node.get_code(ledger.address)) == artifact.runtime_size
    again = chain.at(artifact, ledger.address)
    assert again.call("count") == 5
    assert again.deployment is None


def test_no_contract_at_an_address(chain: Chain, artifact: Artifact) -> None:
    """An address without code is refused instead of answering every call with success."""
    with pytest.raises(UsageError, match="no contract at 0x1212"):
        chain.at(artifact, NOBODY)


@pytest.mark.parametrize(
    ("call", "args", "reason"),
    every(
        6,
        [
            ("note", (13, ROOT), "ledger: thirteen"),
            ("note", (14, ROOT), "no reason given"),
            ("note", (15, ROOT), "invalid instruction"),
            ("fill", (2000,), "out of gas"),
        ],
    ),
)
def test_failed_transaction_tells_its_reason(
    chain: Chain, artifact: Artifact, call: str, args: tuple[Any, ...], reason: str
) -> None:
    """A failed transaction raises the contract's reason and the gas, and changes nothing else."""
    ledger = deploy_ledger(chain, artifact)
    before = chain.block_number()
    with pytest.raises(Reverted) as caught:
        ledger.transact(call, *args, sender=chain.accounts[0])
    if reason == "invalid instruction" and not is_tester(chain):
        reason = "out of gas"  # a receipt with all gas gone does not tell these two apart
    assert (caught.value.reason, caught.value.call) == (reason, call)
    assert caught.value.gas_used > 21_000
    assert chain.block_number() == before + 1
    assert ledger.call("count") == 5


def test_failed_view_tells_its_reason(chain: Chain, artifact: Artifact) -> None:
    """A view that fails raises the contract's reason, and costs nothing."""
    ledger = deploy_ledger(chain, artifact)
    with pytest.raises(Reverted, match="at_least reverted: ledger: too few") as caught:
        ledger.call("at_least", 6)
    assert caught.value.gas_used == 0


def test_views_see_the_latest_block(chain: Chain, artifact: Artifact) -> None:
    """A view runs at the number of the latest block, on every kind of node."""
    ledger = deploy_ledger(chain, artifact)
    assert ledger.call("at_least", 5) == chain.block_number()


def test_reason_that_depends_on_the_block(chain: Chain, artifact: Artifact) -> None:
    """A failure is explained as of its own block, not of the one before."""
    ledger = deploy_ledger(chain, artifact)
    with pytest.raises(Reverted, match="ledger: never"):
        ledger.transact("never", chain.block_number() + 1, sender=chain.accounts[0])
    with pytest.raises(Reverted, match="ledger: early"):
        ledger.transact("never", chain.block_number() + 2, sender=chain.accounts[0])


def test_receipt_leaves_out_events_of_others(chain: Chain, artifact: Artifact) -> None:
    """A receipt holds the events of the contract that was called, not of those that it called."""
    ledger, other = deploy_ledger(chain, artifact), deploy_ledger(chain, artifact)
    receipt = ledger.transact("forward", other.address, sender=chain.accounts[0])
    assert receipt.events == ()
    (((block, _), event),) = other.events(receipt.block, receipt.block)
    assert (block, event.args["who"]) == (receipt.block, ledger.address)


def test_mine_makes_so_many_blocks(chain: Chain) -> None:
    """Mining n blocks raises the block number by n, and n may be 0."""
    before = chain.block_number()
    chain.mine(0)
    assert chain.block_number() == before
    chain.mine(5)
    assert chain.block_number() == before + 5


def test_snapshots_put_the_chain_back(chain: Chain, artifact: Artifact) -> None:
    """After a revert the state, the block number and the next receipts are as at the mark."""
    ledger = deploy_ledger(chain, artifact)
    sender = chain.accounts[0]
    outcomes = []
    for _ in range(3):
        mark = chain.snapshot()
        receipt = ledger.transact("note", 7, ROOT, sender=sender)
        outcomes.append((receipt, chain.block_number(), ledger.call("count")))
        chain.revert(mark)
        assert ledger.call("count") == 5
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_events_are_found_by_block(chain: Chain, artifact: Artifact) -> None:
    """Events are listed for exactly the blocks asked for, and for this contract only."""
    ledger, other = deploy_ledger(chain, artifact), deploy_ledger(chain, artifact)
    blocks = []
    for number in (1, 2, 3):
        blocks.append(ledger.transact("note", number, ROOT, sender=chain.accounts[0]).block)
        other.transact("note", 99, ROOT, sender=chain.accounts[0])
    found = ledger.events(blocks[0] + 1, blocks[2])
    assert [(block, event.args["note"][0]) for (block, _), event in found] == [
        (blocks[1], 2),
        (blocks[2], 3),
    ]
    assert ledger.events(0, blocks[0] - 1) == []


def test_transaction_that_nobody_takes(chain: Chain, artifact: Artifact) -> None:
    """A sender we have no key of, or without the money, is refused, and no block is made."""
    ledger = deploy_ledger(chain, artifact)
    before = chain.block_number()
    for sender, value in ((NOBODY, 0), (chain.accounts[0], 10**40)):
        with pytest.raises(TransactionRefused, match="the chain did not take note"):
            ledger.transact("note", 1, ROOT, sender=sender, value=value)
    assert chain.block_number() == before


def test_bad_arguments_never_reach_the_chain(chain: Chain, artifact: Artifact) -> None:
    """Wrong names, counts, types, ranges and values are told before anything is sent."""
    ledger = deploy_ledger(chain, artifact)
    sender = chain.accounts[0]
    before = chain.block_number()
    with pytest.raises(UsageError, match="did you mean 'note'"):
        ledger.transact("notr", 1, ROOT, sender=sender)
    for args in ((1,), ("one", ROOT), (2**256, ROOT), (-1, ROOT), (1, ROOT + b"x")):
        with pytest.raises(BadCall, match="note does not fit the contract"):
            ledger.transact("note", *args, sender=sender)
    with pytest.raises(BadCall, match="-1 wei"):
        ledger.transact("note", 1, ROOT, sender=sender, value=-1)
    with pytest.raises(BadCall, match="constructor"):
        chain.deploy(artifact, sender=sender)
    assert chain.block_number() == before


def test_tester_is_deterministic(artifact: Artifact) -> None:
    """The same calls make the same accounts, hashes of blocks included, on every new tester."""

    def play() -> tuple[Any, ...]:
        chain = connect(accounts=3)
        ledger = deploy_ledger(chain, artifact)
        receipt = ledger.transact("note", 1, ROOT, sender=chain.accounts[1])
        chain.mine(2)
        return chain.accounts, ledger.deployment, receipt, chain.snapshot()

    assert play() == play()


def test_tester_keeps_its_own_time(artifact: Artifact) -> None:
    """The time of a block is a function of its number alone, also after a revert."""
    chain = connect()
    ledger = deploy_ledger(chain, artifact)
    mark = chain.snapshot()
    for _ in range(2):
        chain.mine(3)
        assert ledger.call("time") == GENESIS_TIME_S + BLOCK_TIME_S * chain.block_number()
    chain.revert(mark)
    chain.mine(1)
    assert ledger.call("time") == GENESIS_TIME_S + BLOCK_TIME_S * chain.block_number()


def test_tester_has_the_accounts_asked_for() -> None:
    """The tester has exactly as many accounts as asked for, all with the same large balance."""
    chain = connect(None, accounts=150)
    assert len(set(chain.accounts)) == 150
    assert {chain.balance(account) for account in chain.accounts} == {BALANCE_WEI}


def test_tester_price_is_constant(artifact: Artifact) -> None:
    """On the tester gas has one price, however the base fee moves."""
    chain = connect()
    ledger = deploy_ledger(chain, artifact)
    chain.mine(50)
    receipt = ledger.transact("note", 1, ROOT, sender=chain.accounts[0])
    assert ledger.deployment is not None
    assert receipt.effective_gas_price == ledger.deployment.effective_gas_price == GAS_PRICE_WEI


def test_tester_reverts_to_genesis(artifact: Artifact) -> None:
    """A snapshot of the empty chain is as good as any other."""
    chain = connect()
    mark = chain.snapshot()
    first = deploy_ledger(chain, artifact)
    chain.revert(mark)
    assert chain.block_number() == 0
    assert deploy_ledger(chain, artifact).deployment == first.deployment


def test_import_is_light() -> None:
    """Importing the port imports no chain library, so that the command line starts at once."""
    heavy = {"web3", "eth_tester", "eth", "eth_abi", "requests", "websockets", "vyper"}
    script = "import sys, moot.offchain.chain, moot.contracts.compiler; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - the script is the constant above
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())


def test_many_calls_are_sent_before_any_is_waited_for(chain: Chain, artifact: Artifact) -> None:
    """Calls of two senders get in, in order; one that fails or is not taken stops no other."""
    ledger = deploy_ledger(chain, artifact)
    senders = chain.accounts[:2]
    calls = [(number, senders[number % 2]) for number in (1, 2, 13, 3, 4)]
    sent = [ledger.prepare("note", number, ROOT, sender=sender) for number, sender in calls]
    sent.insert(2, ledger.prepare("note", 5, ROOT, sender=NOBODY))
    answers = ledger.send(sent)
    kinds = [type(answer) for answer in answers]
    assert kinds == [Receipt, Receipt, TransactionRefused, Reverted, Receipt, Receipt]
    assert ledger.call("count") == 9
    assert [ledger.call("notes", sender)[0] for sender in senders] == [4, 3]
    receipts = [answer for answer in answers if isinstance(answer, Receipt)]
    assert [it.events[0].args["note"][0] for it in receipts] == [1, 2, 3, 4]


def test_tester_puts_into_a_block_what_it_has_room_for(artifact: Artifact) -> None:
    """Transactions share a block while it has room for the gas that they are offered, and spill."""
    with connect() as chain:
        ledger = deploy_ledger(chain, artifact)
        sender, block = chain.accounts[0], chain.block_number() + 1
        notes = [ledger.prepare("note", 1, ROOT, sender=sender) for _ in range(12)]
        blocks = [it.block for it in ledger.send(notes) if isinstance(it, Receipt)]
        assert blocks == [block] * 12
        # The first uses 13 million; that leaves less than the next is offered, however cheap it is.
        filling = [ledger.prepare("fill", 600, sender=sender) for _ in range(3)]
        blocks = [it.block for it in ledger.send(filling) if isinstance(it, Receipt)]
        assert blocks == [block + 1, block + 2, block + 2]
