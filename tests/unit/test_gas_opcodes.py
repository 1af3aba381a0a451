"""Gas by class of opcode: the parts of a call add up to its gas, and each part is right."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from eth.vm.forks.prague.computation import PragueComputation

from moot.contracts.compiler import compile_contract
from moot.offchain.chain import Chain, Contract, Receipt, tester
from moot.offchain.chain.tracer import PRECOMPILE, TracedTester
from moot.offchain.errors import Reverted
from moot.sim.gas.opcodes import CLASSES, LINES, break_down

SOURCE = """
# pragma version 0.4.3

interface Probe:
    def fill(number: uint256): nonpayable

slot: public(uint256)

@external
def fill(number: uint256):
    self.slot = number

@external
def clear():
    self.slot = 0

@external
def hash(data: Bytes[4096]) -> bytes32:
    return keccak256(data)

@external
def ignore(data: Bytes[8192]):
    pass

@external
def announce(number: uint256):
    log Announced(number=number)

event Announced:
    number: uint256

@external
def forward(other: address, number: uint256):
    extcall Probe(other).fill(number)

@external
def digest(data: Bytes[64]) -> bytes32:
    return sha256(data)

@external
def fail_inside(other: address):
    success: bool = raw_call(other, b"\\x01\\x02\\x03\\x04", gas=50_000, revert_on_failure=False)
    assert not success

@external
def fail():
    self.slot = 5
    raise "probe: no"
"""


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    """A traced chain."""
    with Chain(TracedTester(2), None) as chain:
        yield chain


@pytest.fixture(scope="module")
def probe(chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """A contract that does one kind of thing at a time."""
    folder: Path = tmp_path_factory.mktemp("source")
    (folder / "probe.vy").write_text(SOURCE)
    return chain.deploy(compile_contract("probe", folder), sender=chain.accounts[0])


def trace(chain: Chain, receipt: Receipt) -> dict[str, int]:
    """Return the parts of a call, which must be its gas, execution and calldata apart."""
    assert isinstance(chain.node, TracedTester)
    parts = break_down(receipt, chain.node.traces[receipt.transaction_hash])
    assert tuple(parts) == LINES
    assert sum(parts.values()) == receipt.gas_used
    assert all(gas >= 0 for name, gas in parts.items() if name != "refund")
    if not parts["floor"]:
        execution = sum(parts[name] for name in (*CLASSES, "refund"))
        assert execution == receipt.gas_execution
        assert parts["calldata"] == receipt.gas_calldata
    return parts


def call(chain: Chain, probe: Contract, name: str, *args: object) -> dict[str, int]:
    """Return the parts of a call."""
    return trace(chain, probe.transact(name, *args, sender=chain.accounts[0]))


def test_every_opcode_is_in_one_class() -> None:
    """Classes do not overlap, and there is one for each opcode of the fork, and for no other."""
    known = [mnemonic for members in CLASSES.values() for mnemonic in members]
    opcodes = PragueComputation.opcodes.values()
    mnemonics = {getattr(opcode, "__wrapped__", opcode).mnemonic for opcode in opcodes}
    assert sorted(known) == sorted(mnemonics | {PRECOMPILE})


def test_storage_is_counted_as_storage(chain: Chain, probe: Contract) -> None:
    """A new word costs 22,100, and its clearing is paid back, up to a fifth of the gas."""
    assert call(chain, probe, "fill", 7)["storage"] == 22_100
    parts = call(chain, probe, "clear")
    assert parts["storage"] == 5_000
    assert parts["refund"] == -4_800
    assert call(chain, probe, "slot")["storage"] == 2_100


def test_a_refund_is_limited(chain: Chain, probe: Contract) -> None:
    """No more is paid back than a fifth of the gas, whatever the storage has earned."""
    call(chain, probe, "fill", 7)
    parts = call(chain, probe, "fill", 0)
    before = sum(gas for name, gas in parts.items() if name not in {"refund", "floor"})
    assert parts["refund"] == -min(4_800, before // 5)


def test_hashes_and_logs_are_counted_as_such(chain: Chain, probe: Contract) -> None:
    """A hash costs 30 and 6 a word, a log 375, 375 a topic and 8 a byte."""
    assert call(chain, probe, "hash", b"\x01" * 320)["keccak"] == 30 + 6 * 10
    assert call(chain, probe, "announce", 1)["log"] == 375 * 2 + 8 * 32


def test_what_another_contract_spends_is_counted_there(chain: Chain, probe: Contract) -> None:
    """A call has its own price only, and the storage behind it is storage."""
    call(chain, probe, "fill", 8)
    parts = call(chain, probe, "forward", probe.address, 9)
    assert parts["storage"] == 5_000
    assert parts["call"] == 100


def test_a_precompile_is_a_class_of_its_own(chain: Chain, probe: Contract) -> None:
    """SHA-256 costs 60 and 12 a word."""
    assert call(chain, probe, "digest", b"\x01" * 64)["precompile"] == 60 + 12 * 2
    assert {PRECOMPILE} == CLASSES["precompile"]


def test_the_least_price_of_calldata_is_a_line_of_its_own(chain: Chain, probe: Contract) -> None:
    """Where calldata alone decides the bill, the floor adds what is missing, and never else."""
    parts = call(chain, probe, "ignore", b"\x01" * 8_192)
    assert parts["floor"] > 0
    assert call(chain, probe, "announce", 2)["floor"] == 0


def test_a_call_that_fails_inside_is_counted(chain: Chain, probe: Contract) -> None:
    """What a failed inner call burns is part of the sum."""
    call(chain, probe, "fail_inside", probe.address)


def test_a_failed_transaction_leaves_the_meter_as_it_was(chain: Chain, probe: Contract) -> None:
    """The next transaction is counted from nothing."""
    before = call(chain, probe, "announce", 3)
    with pytest.raises(Reverted, match="probe: no"):
        probe.transact("fail", sender=chain.accounts[0])
    assert call(chain, probe, "announce", 3) == before


def test_tracing_changes_no_gas(probe: Contract, tmp_path: Path) -> None:
    """The same calls cost the same on a chain that is not traced."""
    del probe
    (tmp_path / "probe.vy").write_text(SOURCE)
    artifact = compile_contract("probe", tmp_path)
    receipts = []
    for node in (tester.Tester(2), TracedTester(2)):
        with Chain(node, None) as chain:
            contract = chain.deploy(artifact, sender=chain.accounts[0])
            calls = [("fill", 1), ("clear",), ("hash", b"abc"), ("digest", b"abc"), ("announce", 5)]
            receipts.append([contract.transact(*each, sender=chain.accounts[0]) for each in calls])
    assert receipts[0] == receipts[1]
