"""A contract that joins jobs as a member, and runs code of its own when it receives money."""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import CALLED_THROUGH, pack_call
from moot.contracts.model.types import Event, Message
from moot.offchain.chain import Contract
from tests.attacks.twin import Twin

SOURCE = """
# pragma version 0.4.3

KEEP: constant(uint256) = 0
REFUSE: constant(uint256) = 1
BURN_GAS: constant(uint256) = 2
SHOUT: constant(uint256) = 3
CALL: constant(uint256) = 4

REFEREE: immutable(address)
payday: uint256
calls: DynArray[Bytes[8192], 4]
successes: public(uint256)

@deploy
def __init__(referee: address):
    REFEREE = referee

@external
@payable
def __default__():
    if self.payday == REFUSE:
        raise "puppet: I do not want it"
    if self.payday == BURN_GAS:
        raise UNREACHABLE
    if self.payday == SHOUT:
        raw_revert(abi_encode(empty(uint256[2048])))
    if self.payday == CALL:
        for data: Bytes[8192] in self.calls:
            if raw_call(REFEREE, data, revert_on_failure=False):
                self.successes += 1

@external
def arm(payday: uint256, calls: DynArray[Bytes[8192], 4]):
    self.payday = payday
    self.calls = calls

@external
def squeeze(target: address, data: Bytes[8192], gas_limit: uint256):
    self.successes = 0
    if raw_call(target, data, gas=gas_limit, revert_on_failure=False):
        self.successes = 1

@external
@payable
def play(targets: DynArray[address, 4], calls: DynArray[Bytes[8192], 4]):
    for i: uint256 in range(len(calls), bound=4):
        raw_call(targets[i], calls[i], value=msg.value)
"""


class Payday(IntEnum):
    """The behaviour of a puppet when it is paid."""

    KEEP = 0
    REFUSE = 1
    BURN_GAS = 2
    SHOUT = 3
    CALL = 4


class Puppet:
    """A contract that anybody can let call the referee, once or several times in a transaction."""

    def __init__(self, referee: Twin, folder: Path) -> None:
        (folder / "puppet.vy").write_text(SOURCE)
        self.referee = referee
        self.hand = referee.chain.accounts[-1]
        artifact = compile_contract("puppet", folder)
        self.contract = referee.chain.deploy(artifact, referee.contract.address, sender=self.hand)
        self.address: str = self.contract.address
        referee.watch(self.address)

    def encode(self, name: str, *args: Any) -> bytes:
        """Return the calldata of a call of the referee, or of a contract that it trusts."""
        codec = cast("Any", self._get_target(name))._codec
        return bytes(codec.encode_call(name, pack_call(name, args, self.referee.address)))

    def _get_target(self, name: str) -> Contract:
        """Return the contract that has a call."""
        others = {"leaf": self.referee.leaf, "legality": self.referee.legality}
        return others.get(CALLED_THROUGH.get(name, ""), self.referee.contract)

    def send(self, *calls: tuple[Any, ...], value_wei: int = 0) -> None:
        """Make several calls in one transaction, on the contract only."""
        data = [self.encode(*call) for call in calls]
        targets = [self._get_target(name).address for name, *_ in calls]
        self.contract.transact("play", targets, data, sender=self.hand, value=value_wei)

    def arm(self, payday: Payday, *calls: bytes) -> None:
        """Choose what the puppet does when it is paid."""
        self.contract.transact("arm", payday, list(calls), sender=self.hand)

    def call(self, name: str, *args: Any, value_wei: int = 0) -> Sequence[Event]:
        """Let the puppet make one call, on the model and on the contract."""
        return self.play((name, *args), value_wei=value_wei)

    def play(self, *calls: tuple[Any, ...], value_wei: int = 0) -> Sequence[Event]:
        """Let the puppet make several calls in one transaction; return the last one's events."""
        referee, events = self.referee, tuple[Event, ...]()
        message = Message(self.address, value_wei, referee.both.block)
        for name, *args in calls:
            events = referee.play_model(name, message, *args)
        self.send(*calls, value_wei=value_wei)
        referee.compare()
        return events

    def squeeze(self, gas: int, name: str, *args: Any) -> bool:
        """Make a call with so much gas, on the contract only; return whether it was accepted."""
        target, data = self._get_target(name).address, self.encode(name, *args)
        self.contract.transact("squeeze", target, data, gas, sender=self.hand)
        return self.successes == 1

    @property
    def successes(self) -> int:
        """How many calls that it made when it was paid were accepted."""
        return int(self.contract.call("successes"))
