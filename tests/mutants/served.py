"""The calls that the tests of services make, of the contracts and of their models.

The tests are run in this process; what they call is recorded with the state before it.
"""

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from moot.contracts.model.bonds import Service
from moot.contracts.model.service_invariants import copy_service
from moot.contracts.model.types import Message
from moot.offchain.commitments.keccak import keccak256
from tests.machine import Machine, Result
from tests.mutants.played import Made, Notes, run_tests
from tests.referee.services import Services

TESTS = ("tests/referee/test_service.py", "tests/attacks/test_receipts.py")
VIEWS = ("get_bond(address,uint256)", "challenges_contract()", "leaf_contract()")
_SELECTORS = frozenset(keccak256(view.encode())[:4] for view in VIEWS)
"""Of views that are no mere getters: their calls are recorded, too."""


@dataclass(frozen=True, slots=True)
class Said:
    """A call of a model, of the service's or of its challenges', and a copy of both before it."""

    is_service: bool
    service: Service
    name: str
    message: Message
    args: tuple[Any, ...]


def play_tests() -> tuple[list[Made], list[Said]]:
    """Run the tests, and return the calls that they make."""
    found = _Recorder()
    places = [
        patch.object(Machine, "__init__", found.notes.wrap()),
        patch.object(Machine, "call", found.record_made()),
        patch.object(Services, "tell", found.record_said()),
    ]
    run_tests(places, "-m", "not slow", *TESTS)
    return found.made, found.said


class _Recorder:
    """Records calls."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.said: list[Said] = []
        self.notes = Notes()
        self._names: dict[int, dict[bytes, str]] = {}

    def record_said(self) -> Any:
        """Return what services do instead of a call."""
        usual = Services.tell

        def tell(
            both: Services, side: Any, name: str, message: Message, args: tuple[Any, ...]
        ) -> str | None:
            contract = both.contract
            if contract is not None:
                raw, service = contract.raw, contract.service
                self._names[id(contract.machine)] = {raw: "challenges", service.raw: "service"}
                for address in (raw, service.raw):
                    self.notes.add_balance(contract.machine, address)
            if name != "leaf":
                is_service = side is both.sides[0]
                self.said.append(Said(is_service, copy_service(both.model), name, message, args))
            return usual(both, side, name, message, args)

        return tell

    def record_made(self) -> Any:
        """Return what machines do instead of a call."""
        usual = Machine.call

        def call(machine: Machine, to: bytes, data: bytes, **where: Any) -> Result:
            name = self._names.get(id(machine), {}).get(to)
            if name and (where["block"] or data[:4] in _SELECTORS):
                places = {key: where[key] for key in ("sender", "value_wei", "block")}
                self.made.append(Made(name, data, before=self.notes.read(machine), **places))
            return usual(machine, to, data, **where)

        return call
