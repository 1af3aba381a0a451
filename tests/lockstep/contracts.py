"""Deployed contracts in a bare EVM, which are asked as their models are."""

from collections.abc import Sequence
from typing import Any, Protocol

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.abi import CALLED_THROUGH, EventReader, pack_args, pack_call
from moot.contracts.model.types import NOBODY, Address, Event, Message
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Event as ChainEvent
from moot.offchain.disputes.referee.gas import calculate_gas_limit
from tests.machines.base import Deployed, Kind, Machine, Result, calculate_sent_gas, make_log
from tests.machines.pyevm import PyEvm


class Evm(Protocol):
    """Where contracts are, and everybody's money: a bare machine, or a chain."""

    chain_id: int

    def balance(self, address: str) -> int:
        """Return a balance in wei."""


class Port(Protocol):
    """A contract as a twin asks it."""

    address: str

    @property
    def machine(self) -> Evm:
        """Where it is."""

    def call(self, name: str, message: Message, args: Sequence[Any]) -> Result:
        """Make a call."""

    def view(self, name: str, *args: Any) -> Any:
        """Return what a getter says."""

    def has_announced(self, result: Result, block: int, events: Sequence[Event]) -> bool:
        """Whether the contract's own events of a call are those of its model."""


class RefereePort(Port, Protocol):
    """A referee as a twin asks it."""

    arithmetic: Arithmetic


class Contract:
    """A deployed contract in a machine.

    Args:
        machine: where it is.
        deployed: the contract.

    Attributes:
        address: where it is, in the one spelling.
        raw: likewise, in the other.
        codec: how it is spoken to.
    """

    def __init__(self, machine: Machine, deployed: Deployed) -> None:
        self.machine = machine
        self.address, self.raw, self.codec = deployed.address, deployed.raw, deployed.codec

    def call(self, name: str, message: Message, args: Sequence[Any]) -> Result:
        """Make a call."""
        data = self.codec.encode_call(name, pack_args(args))
        place = {"value_wei": message.value_wei, "block": message.block}
        return self.machine.call(self.raw, data, sender=message.sender, **place)

    def view(self, name: str, *args: Any) -> Any:
        """Return what a getter says."""
        data = self.codec.encode_call(name, args)
        result = self.machine.call(self.raw, data, sender=NOBODY, value_wei=0, block=0)
        assert result.reason is None
        return self.codec.decode_result(name, args, result.output)

    def has_announced(self, result: Result, block: int, events: Sequence[Event]) -> bool:
        """Whether the contract's own events of a call are those of its model."""
        found = [(it.name, tuple(it.args.values())) for it in self._decode(result, block)]
        return found == [(event.name, pack_args(event.args)) for event in events]

    def _decode(self, result: Result, block: int) -> list[ChainEvent]:
        logs = zip(result.emitters, result.logs, strict=True)
        own = [make_log(self.raw, block, *log) for emitter, log in logs if emitter == self.raw]
        return [self.codec.decode_log(log) for log in own]


class RefereeContract(Contract):
    """The deployed referee, with the contracts through which calls of it are made.

    Args:
        accounts: those that make calls.
        arithmetic: that of the referee.
        kind: that of the machine which they are put into.
    """

    asked = frozenset(CALLED_THROUGH.values())
    """The contracts through which calls are made."""

    def __init__(
        self, accounts: Sequence[Address], arithmetic: Arithmetic = ORDERED, kind: Kind = PyEvm
    ) -> None:
        self.arithmetic = arithmetic
        machine = kind((*accounts, NOBODY))
        super().__init__(machine, self.deploy(machine))
        self._reader = EventReader()
        self._others = {
            name: machine.at(
                compile_contract(name, arithmetic=arithmetic.contracts),
                self.view(f"{name}_contract"),
            )
            for name in self.asked
        }

    def deploy(self, machine: Machine) -> Deployed:
        """Put the referee into the machine."""
        return deploy_referee(machine, NOBODY, self.arithmetic)

    def call(self, name: str, message: Message, args: Sequence[Any]) -> Result:
        """Make a call with the gas that our parties offer, less what its data cost."""
        to, codec = self.raw, self.codec
        if name in CALLED_THROUGH:
            other = self._others[CALLED_THROUGH[name]]
            to, codec = other.raw, other.codec
        data = codec.encode_call(name, pack_call(name, args, self.address))
        paid = calculate_sent_gas(data)
        return self.machine.call(
            to,
            data,
            sender=message.sender,
            value_wei=message.value_wei,
            block=message.block,
            gas=calculate_gas_limit(name, data) - paid,
        )

    def has_announced(self, result: Result, block: int, events: Sequence[Event]) -> bool:
        """Whether the referee's own events of a call are those of its model, as that says them."""
        found = self._decode(result, block)
        return [self._reader.read(e.name, tuple(e.args.values())) for e in found] == [*events]
