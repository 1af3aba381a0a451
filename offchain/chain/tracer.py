"""A tracer of transactions: the gas of every opcode, from py-evm's own execution.

A traced chain runs the opcodes and precompiles of its fork behind a meter. What a call hands to
another contract is counted where that contract spends it, so that nothing is counted twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eth.abc import (
    ComputationAPI,
    OpcodeAPI,
    ReceiptAPI,
    SignedTransactionAPI,
    VirtualMachineAPI,
)
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.state import PragueState

from moot.offchain.chain.tester import Tester

Operation = Callable[[ComputationAPI], Any]

PRECOMPILE = "PRECOMPILE"
MAX_REFUND_QUOTIENT = 5
"""EIP-3529: at most one part in five of a transaction's gas is refunded."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The gas of a transaction's opcodes, by their mnemonics.

    `refund` is what storage that was cleared has earned, before it is limited.
    """

    spent: Mapping[str, int]
    refund: int

    @property
    def total(self) -> int:
        """The gas of all opcodes together."""
        return sum(self.spent.values())


class Meter:
    """A counter of the gas of opcodes."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inside = 0

    def run(self, name: str, operation: Operation, computation: ComputationAPI) -> Any:
        """Run an opcode or a precompile, and count what it alone costs."""
        before, outside = computation.get_gas_remaining(), self._inside
        self._inside = 0
        try:
            return operation(computation)
        finally:
            cost = before - computation.get_gas_remaining()
            self.spent[name] += cost - self._inside
            self._inside = outside + cost


class TracedTester(Tester):
    """A chain in memory that keeps a trace of every transaction.

    Attributes:
        traces: by the transactions' hashes.
    """

    def __init__(self, accounts: int) -> None:
        self._meter = Meter()
        self.traces: dict[str, Trace] = {}
        super().__init__(accounts, vm=_make_vm(self._meter))

    def _apply(self, signed: SignedTransactionAPI) -> tuple[ReceiptAPI, ComputationAPI]:
        self._meter.spent.clear()
        receipt, computation = super()._apply(signed)
        trace = Trace(dict(self._meter.spent), computation.get_gas_refund())
        self.traces["0x" + signed.hash.hex()] = trace
        return receipt, computation


class _MeteredOpcode(OpcodeAPI):
    """An opcode behind the meter."""

    def __init__(self, meter: Meter, opcode: OpcodeAPI) -> None:
        # Some are functions around an opcode.
        self.mnemonic = getattr(opcode, "__wrapped__", opcode).mnemonic
        self._meter = meter
        self._operation: Operation = opcode

    def __call__(self, computation: ComputationAPI) -> Any:
        return self._meter.run(self.mnemonic, self._operation, computation)

    @classmethod
    def as_opcode(cls, logic_fn: Callable[..., Any], mnemonic: str, gas_cost: int) -> OpcodeAPI:
        """Refuse: opcodes are metered as they are."""
        raise NotImplementedError


def _make_vm(meter: Meter) -> type[VirtualMachineAPI]:
    """Return Prague with a meter in front of everything that costs gas."""

    def wrap(precompile: Operation) -> Operation:
        return lambda computation: meter.run(PRECOMPILE, precompile, computation)

    precompiles = PragueComputation.get_precompiles().items()

    class MeteredComputation(PragueComputation):
        opcodes = {  # noqa: RUF012 - as py-evm has it
            number: _MeteredOpcode(meter, opcode)
            for number, opcode in PragueComputation.opcodes.items()
        }
        _precompiles = {  # noqa: RUF012 - likewise
            address: wrap(precompile) for address, precompile in precompiles
        }

    class MeteredState(PragueState):
        computation_class = MeteredComputation

    class MeteredVM(PragueVM):
        _state_class = MeteredState

    return MeteredVM
