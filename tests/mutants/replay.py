"""Replays recorded calls on the model or on the contract, and says where it first differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contracts.compiler import Artifact
from contracts.model.abi import pack_args
from contracts.model.referee import call
from contracts.model.types import Message, Store
from contracts.reasons import Revert
from tests.machine import Machine, Result

REFEREE = "0x" + "c2" * 20
"""Where `Machine` puts its third contract."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was made, whether it was accepted or not."""

    block: int
    sender: str
    name: str
    args: tuple[Any, ...]
    value_wei: int = 0


Trace = Sequence[Call]
"""Calls of one story, from an empty referee on."""


def replay_model(trace: Trace, chain_id: int) -> list[str]:
    """Return what the model says to each call, and at last how it stands."""
    store = Store(chain_id, REFEREE)
    said = []
    for made in trace:
        message = Message(made.sender, made.value_wei, made.block)
        try:
            said.append(repr(call(store, made.name, message, *made.args)))
        except Revert as refusal:
            said.append(str(refusal))
        except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
            said.append(type(error).__name__)
    tables = (store.jobs, store.members, store.claims, store.matches)
    return [*said, repr((*tables, store.balance_wei, store.burned_wei))]


class Contract:
    """Deployed artifacts, ready to replay traces from an empty referee."""

    def __init__(
        self, accounts: Sequence[str], functions: Artifact, leaf: Artifact, referee: Artifact
    ) -> None:
        self._machine = Machine(accounts)
        address = self._machine.deploy(functions).address
        deployed = self._machine.deploy(referee, self._machine.deploy(leaf, address).address)
        self._address, self._codec = deployed.raw, deployed.codec
        assert deployed.address == REFEREE
        self._empty = self._machine.snapshot()

    def replay(self, trace: Trace, expected: Sequence[Any] | None = None) -> list[Any]:
        """Return what came of each call; stops where that is not what was expected."""
        machine, mark = self._machine, self._machine.snapshot()
        said: list[Any] = []
        for made in trace:
            data = self._codec.encode_call(made.name, pack_args(made.args))
            result = machine.call(
                self._address,
                data,
                sender=made.sender,
                value_wei=made.value_wei,
                block=made.block,
            )
            said.append(_strip(result))
            if expected is not None and said[-1] != expected[len(said) - 1]:
                break
        else:
            said.append(machine.balance(REFEREE))
        machine.revert(mark)
        return said


def _strip(result: Result) -> tuple[Any, ...]:
    return (result.reason, result.logs)
