"""Gas is split into calldata and execution exactly as Prague charges for them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.compiler import Artifact
from moot.offchain.chain import Contract, Receipt, connect
from moot.offchain.chain.gas import (
    TRANSACTION_GAS,
    GasSplit,
    calculate_floor_gas,
    count_calldata_tokens,
    split_gas,
)
from tests.chain_helpers import compile_ledger, deploy_ledger

calldatas = st.binary(max_size=300)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The ledger, compiled once."""
    return compile_ledger(tmp_path_factory.mktemp("ledger"))


def charge(calldata: bytes, execution: int, refund: int) -> int:
    """The gas of a transaction as EIP-7623 writes it, byte by byte."""
    standard = sum(4 if byte == 0 else 16 for byte in calldata)
    floor = sum(10 if byte == 0 else 40 for byte in calldata)
    return max(21_000 + standard + execution - refund, 21_000 + floor)


@given(calldatas, st.integers(0, 20_000), st.integers(0, 4_000))
def test_split_recovers_what_was_charged(calldata: bytes, execution: int, refund: int) -> None:
    """Above the floor both parts are recovered exactly; on it the calldata pays for everything."""
    refund = min(refund, execution)
    gas_used = charge(calldata, execution, refund)
    split = split_gas(gas_used, calldata)
    assert TRANSACTION_GAS + split.calldata + split.execution == gas_used
    if calldata and gas_used == charge(calldata, 0, 0):
        assert split == GasSplit(gas_used - TRANSACTION_GAS, 0)
    else:
        assert split == GasSplit(charge_standard(calldata), execution - refund)


def charge_standard(calldata: bytes) -> int:
    """The standard price of calldata, as EIP-2028 writes it."""
    return 4 * calldata.count(0) + 16 * (len(calldata) - calldata.count(0))


@given(calldatas, st.integers(21_000, 40_000))
def test_parts_always_sum_to_the_gas_used(calldata: bytes, gas_used: int) -> None:
    """The parts sum to the bill, even one below the floor, which a chain before Prague may show."""
    split = split_gas(gas_used, calldata)
    assert TRANSACTION_GAS + split.calldata + split.execution == gas_used


def test_tokens() -> None:
    """A zero byte is one token, any other is four, and a token costs ten at the floor."""
    assert count_calldata_tokens(b"") == 0
    assert count_calldata_tokens(b"\x00\x01\x00\xff") == 10
    assert calculate_floor_gas(b"\x00\x01\x00\xff") == 21_100


def play(artifact: Artifact, name: str, *args: Any) -> tuple[Receipt, bytes]:
    """Return the receipt of a call on the tester, and its calldata."""
    chain = connect()
    ledger: Contract = deploy_ledger(chain, artifact)
    receipt = ledger.transact(name, *args, sender=chain.accounts[0])
    return receipt, ledger._codec.encode_call(name, args)


def test_receipt_of_much_execution(artifact: Artifact) -> None:
    """Where execution decides the bill, calldata shows at its standard price."""
    receipt, calldata = play(artifact, "fill", 20)
    assert receipt.calldata_bytes == len(calldata) == 36
    assert receipt.gas_calldata == charge_standard(calldata)
    assert receipt.gas_execution > 20 * 20_000


@pytest.mark.parametrize("size", [0, 1, 3000])
def test_receipt_of_much_calldata(artifact: Artifact, size: int) -> None:
    """Where the floor of EIP-7623 decides the bill, calldata shows at the floor's price."""
    receipt, calldata = play(artifact, "ignore", b"\x00" * size + b"\x01" * 3000)
    assert receipt.gas_used == calculate_floor_gas(calldata)
    assert receipt.gas_calldata == receipt.gas_used - TRANSACTION_GAS
    assert receipt.gas_execution == 0


def test_one_more_word_of_calldata_costs_its_floor(artifact: Artifact) -> None:
    """On the floor, 32 more bytes that are not zero cost 1,280 gas."""
    short, _ = play(artifact, "ignore", b"\x01" * 3200)
    longer, _ = play(artifact, "ignore", b"\x01" * 3232)
    assert longer.gas_used - short.gas_used == 32 * 40


def test_receipt_of_a_deployment(artifact: Artifact) -> None:
    """A deployment's calldata is its code and arguments, and creation counts as execution."""
    ledger = deploy_ledger(connect(), artifact)
    receipt = ledger.deployment
    assert receipt is not None
    calldata = artifact.bytecode + (5).to_bytes(32, "big")
    assert receipt.calldata_bytes == len(calldata)
    assert receipt.gas_calldata == charge_standard(calldata)
    assert receipt.gas_execution > 32_000 + 200 * artifact.runtime_size
