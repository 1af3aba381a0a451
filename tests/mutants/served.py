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
from tests.mutants.played import Made, Recorder
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
    found, usual = Recorder(_SELECTORS), Services.tell

    def tell(
        both: Services, side: Any, name: str, message: Message, args: tuple[Any, ...]
    ) -> str | None:
        if both.contract is not None:
            names = {both.contract.raw: "challenges", both.contract.service.raw: "service"}
            found.watch(both.contract.machine, names)
        if name != "leaf":
            is_service = side is both.sides[0]
            found.said.append(Said(is_service, copy_service(both.model), name, message, args))
        return usual(both, side, name, message, args)

    found.run_tests(patch.object(Services, "tell", tell), "-m", "not slow", *TESTS)
    return found.made, found.said
