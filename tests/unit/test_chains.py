"""Chains as data: each formula against another's program, or a transaction that was paid for."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from eth._utils.calculations import fake_exponential
from eth.vm.forks.berlin.transactions import calculate_txn_intrinsic_gas_berlin
from eth.vm.forks.prague.state import PragueTransactionExecutor
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.chains.calldata import Bound, Calldata, compress_brotli, sign
from moot.sim.chains.chain import Chain
from moot.sim.chains.clocks import measure_clocks
from moot.sim.chains.fastlz import count_compressed
from moot.sim.chains.files import find_chain, list_chains, parse_chain
from moot.sim.chains.kinds.arbitrum import Arbitrum
from moot.sim.chains.kinds.blobs import calculate_blob_fee_wei
from moot.sim.chains.kinds.op_stack import OpStack, estimate_size
from moot.sim.gas.on_chains import charge, make_object, read_calls
from moot.sim.gas.play import Stage
from moot.sim.gas.scenarios import SCENARIOS

calldatas = st.binary(max_size=400)
executions = st.integers(0, 60_000)

CALL = bytes.fromhex(
    "02f901550a758302df1483be21b88304743f94f80e51afb613d764fa61751affd3313c190a86bb870151bd62fd12ad"
    "b8e41ef24f3f000000000000000000000000000000000000000000000000000000000000006e000000000000000000"
    "000000af88d065e77c8cc2239327c5edb3a432268e58310000000000000000000000000000000000000000000000000"
    "00000000003c1e5000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000a0000000000000000000000000000000000000000000000000"
    "00000000000000148c89ed219d02f1a5be012c689b4f5b731827bebe000000000000000000000000c001a033fd89cb37"
    "c31b2cba46b6466e040c61fc9b2a3675a7f5f493ebd5ad77c497f8a07cdf65680e238392693019b4092f610222e71b7c"
    "ec06449cb922b93b6a12744e"
)
"""A contract call with which clients of the OP stack are tested; FastLZ makes 202 bytes of it."""


@given(calldatas, executions)
def test_prague_charges_as_py_evm_does(data: bytes, execution: int) -> None:
    """The gas of Prague's rule is what py-evm charges: intrinsic gas, execution, and the floor."""
    transaction: Any = SimpleNamespace(data=data, to=b"\x11" * 20, access_list=())
    used = calculate_txn_intrinsic_gas_berlin(transaction) + execution
    used += PragueTransactionExecutor.calc_data_floor_gas(transaction, used, 0)
    for name in ("l1-prague", "l1-osaka", "op-mainnet"):
        assert find_chain(name).calculate_gas(execution, Calldata(data)) == used


@given(calldatas, executions)
def test_a_draft_charges_64_gas_for_any_byte_at_least(data: bytes, execution: int) -> None:
    """EIP-7976's floor counts bytes, whether zero or not, and is the only thing it changes."""
    now, then = find_chain("l1-osaka"), find_chain("l1-eip7976")
    standard = 21_000 + 4 * data.count(0) + 16 * (len(data) - data.count(0)) + execution
    assert then.calculate_gas(execution, Calldata(data)) == max(standard, 21_000 + 64 * len(data))
    assert now.calculate_gas(execution, Calldata(data)) <= then.calculate_gas(
        execution, Calldata(data)
    )
    assert then.block == now.block
    assert then.fees == now.fees


@pytest.mark.parametrize(
    ("data", "length"),
    [(b"", 0), (bytes(1000), 21), (b"\x2a" * 1000, 21), (b"\xfa\xca\xde", 4), (CALL, 202)],
)
def test_fastlz_is_that_of_the_rollups(data: bytes, length: int) -> None:
    """The length after FastLZ is the one that clients of the OP stack are tested with."""
    assert count_compressed(data) == length


@pytest.mark.parametrize(
    ("fee", "fastlz", "base", "blob", "scalars"),
    [
        (3_203_000, 50, 10**9, 10**7, (2, 3)),
        (3_203_000, 170, 10**9, 10**7, (2, 3)),
        (3_217_602, 171, 10**9, 10**7, (2, 3)),
        (3_994_602, 200, 10**9, 10**7, (2, 3)),
        (2_883_950_646_753, 1044, 28_549_556_977, 1, (7600, 862_000)),
    ],
)
def test_the_op_stack_charges_what_it_has_charged(
    fee: int, fastlz: int, base: int, blob: int, scalars: tuple[int, int]
) -> None:
    """The data fee is that of published cases."""
    fees = OpStack(0, base / 10**9, blob / 10**9, False, 0, *scalars)
    assert fees.charge_data(fastlz) == fee


def test_the_op_stack_charges_for_a_whole_transaction() -> None:
    """A transaction that is compressed here is charged as the specification's example says."""
    fees = OpStack(0, 1e-6, 1e-6, False, 0, 1000, 1000)
    assert estimate_size(count_compressed(CALL)) == 126_387_400
    assert fees.charge_data(count_compressed(CALL)) == 2148
    assert fees.charge_data(count_compressed(b"\xfa\xca\xde")) == 1700


@given(calldatas)
def test_arbitrum_charges_sixteen_units_a_compressed_byte(data: bytes) -> None:
    """The data fee is 16 units for each byte of the transaction after Brotli, and no gas more."""
    fees = Arbitrum(0.02, 10, 0, True, 0, 1)
    cost = fees.charge(50_000, Calldata(data))
    assert fees.unit_wei == 10 * 10**9 // 16 // 16
    assert cost.data_wei == 16 * fees.unit_wei * compress_brotli(sign(data))
    assert cost.execution_wei == 50_000 * 20_000_000


@given(st.integers(0, 10**8), st.integers(10**6, 2 * 10**7))
def test_blobs_cost_what_py_evm_says(excess: int, fraction: int) -> None:
    """The base fee of blobs is the exponential of the excess, as py-evm approximates it."""
    assert calculate_blob_fee_wei(excess, fraction) == fake_exponential(1, excess, fraction)


@given(calldatas)
def test_a_bound_is_never_below_the_bytes(data: bytes) -> None:
    """What so many bytes can be charged at most is no less than what any such bytes are."""
    real, bound = Calldata(data), Bound(len(data))
    assert real.fastlz_bytes <= bound.fastlz_bytes
    assert real.brotli_bytes <= bound.brotli_bytes
    for name in list_chains():
        chain = find_chain(name)
        assert chain.charge(0, real).total_wei <= chain.charge(0, bound).total_wei


@given(st.sampled_from(list_chains()), executions, calldatas, st.floats(0.1, 500))
def test_prices_only_scale_what_they_price(
    name: str, execution: int, data: bytes, gwei: float
) -> None:
    """A higher base fee of L1 never makes a call cheaper, and leaves a rollup's own gas alone."""
    chain, calldata = find_chain(name), Calldata(data)
    dear = chain.replace_prices(base_fee_gwei=gwei + 1)
    cheap = chain.replace_prices(base_fee_gwei=gwei)
    costs = [it.charge(execution, calldata) for it in (cheap, dear)]
    assert costs[0].total_wei <= costs[1].total_wei
    if chain.kind != "l1":
        assert costs[0].execution_wei == costs[1].execution_wei
        assert costs[0].data_wei < costs[1].data_wei


def test_played_calls_cost_on_prague_what_they_have_cost() -> None:
    """On the chain whose rules it was played by, a dispute costs its receipts; on others not."""
    played = Stage().measure(SCENARIOS["small"]).played
    calls, used = read_calls(played), sum(it.receipt.gas_used for it in played if it.receipt)
    assert charge(calls, find_chain("l1-prague")).gas == used
    assert charge(calls, find_chain("l1-eip7976")).gas > used
    entry = make_object(played, find_chain("arbitrum-one"))
    assert entry["data_eth"] > 0
    assert entry["eth"] == pytest.approx(entry["execution_eth"] + entry["data_eth"])
    assert entry["fiat"] == pytest.approx(entry["eth"] * entry["eth_price"])
    assert sum(it["gas"] for it in entry["by_phase"].values()) == entry["gas"]


def test_clocks_of_rollups_do_not_outlast_a_sequencer() -> None:
    """The default clocks are long enough on L1, and on no rollup whose sequencer censors."""
    assert measure_clocks(find_chain("l1-prague")).least_blocks == 0
    assert measure_clocks(find_chain("l1-prague")).covers()
    for name, blocks in (("op-mainnet", 21_600), ("arbitrum-one", 7_200)):
        clocks = measure_clocks(find_chain(name))
        assert clocks.least_blocks == blocks
        assert not clocks.covers()


def show(chain: Chain) -> dict[str, Any]:
    """Return a chain as its file has it."""
    values: dict[str, Any] = msgspec.to_builtins(chain)
    values.pop("name")
    return values


@pytest.mark.parametrize("name", list_chains())
def test_chains_survive_their_file(name: str) -> None:
    """A chain that is written and read again is the same, and one without any key is refused."""
    chain = find_chain(name)
    values = show(chain)
    assert parse_chain(values, name, "it") == chain
    for key, table in values.items():
        for inner in table if isinstance(table, Mapping) else ():
            lacking = {**values, key: {k: v for k, v in table.items() if k != inner}}
            with pytest.raises(UsageError, match=rf"^it: {key}\.{inner} is missing"):
                parse_chain(lacking, name, "it")
        if key != "kind":
            with pytest.raises(UsageError, match=rf"^it: {key} is missing"):
                parse_chain({k: v for k, v in values.items() if k != key}, name, "it")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("kind", "l3", "it: kind is 'l3'; choose one of l1, op-stack, arbitrum"),
        ("date", "yesterday", "it: date: expected"),
        ("source", "", "it: source: expected"),
        ("block.seconds", 0, "it: block.seconds: expected"),
        ("block.gas_limit", -1, "it: block.gas_limit: expected"),
        ("fees.base_fee_gwei", -1.0, "it: fees.base_fee_gwei: expected"),
        ("fees.base_fee_gwei", float("nan"), "it: fees.base_fee_gwei: nan is not a number"),
        ("money.eth_price", float("inf"), "it: money.eth_price: inf is not a number"),
        ("block.transaction_gas_limit", 10**8, "it: block.transaction_gas_limit is above"),
        ("money.eth_price", 0.0, "it: money.eth_price: expected"),
        ("calldata", 4, r"it: calldata is no table; write \[calldata\]"),
        ("fees.base_fee_scalar", 1, "unknown key in it 'fees.base_fee_scalar'"),
        ("fees.base_fee", 1, "unknown key in it 'fees.base_fee'; did you mean"),
    ],
)
def test_a_file_that_is_no_chain_is_refused(key: str, value: object, words: str) -> None:
    """An impossible value and a key of another kind of chain are refused in one line."""
    values = show(find_chain("l1-prague"))
    first, _, inner = key.partition(".")
    values[first] = {**values[first], inner: value} if inner else value
    with pytest.raises(UsageError, match=f"^{words}") as refusal:
        parse_chain(values, "it", "it")
    assert "\n" not in str(refusal.value)


def test_a_rollups_own_price_is_no_price_of_the_first_layer() -> None:
    """The first layer has one base fee; a rollup has its own beside it."""
    layer, rollup = find_chain("l1-osaka"), find_chain("op-mainnet")
    assert layer.replace_prices(own_base_fee_gwei=7.0) == layer
    assert layer.replace_prices(base_fee_gwei=7.0, own_base_fee_gwei=3.0).fees.base_fee_gwei == 7.0
    assert rollup.replace_prices(own_base_fee_gwei=7.0).fees.base_fee_gwei == 7.0
    assert rollup.replace_prices(base_fee_gwei=7.0).fees.base_fee_gwei == rollup.fees.base_fee_gwei


def test_prices_that_nobody_asks_are_refused() -> None:
    """Negative prices and an ETH for nothing are refused, as is a chain that nobody knows."""
    chain = find_chain("op-mainnet")
    for prices in ({"base_fee_gwei": -1.0}, {"own_base_fee_gwei": -1.0}, {"eth_price": 0.0}):
        with pytest.raises(UsageError):
            chain.replace_prices(**prices)
    with pytest.raises(UsageError, match="did you mean 'op-mainnet'"):
        find_chain("op-mainet")
    with pytest.raises(UsageError, match=r"cannot read nowhere\.toml"):
        find_chain("nowhere.toml")
