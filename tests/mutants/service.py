"""The judge of mutants of the contracts of receipts, by the calls of their tests.

Each call that a test makes is made again alone, on the storage that it was made on. The tests
compare what it has said, logged, written and paid with the models; so what differs here fails them.
"""

from collections.abc import Mapping
from typing import ClassVar

from moot.contracts.compiler import Artifact, compile_contract
from moot.contracts.model.types import NOBODY
from tests.machines.base import Kind
from tests.mutants import promises
from tests.mutants.played import Made
from tests.mutants.served import play_tests
from tests.referee.services import ACCOUNTS


class Judge(promises.Judge):
    """A judge that knows the answers of the contracts of receipts, of which one calls the other."""

    CONTRACTS: ClassVar[tuple[str, ...]] = ("challenges", "service")
    EVERYWHERE: ClassVar[frozenset[str]] = frozenset({"", "__init__"})

    @staticmethod
    def deploy(artifacts: Mapping[str, Artifact], kind: Kind) -> promises.Stages:
        """Deploy both in one machine, as `deploy_service` does."""
        machine = kind((*ACCOUNTS, NOBODY))
        below = machine.deploy(compile_contract("transcendental"))
        leaf = machine.deploy(compile_contract("leaf"), below.address)
        challenges = machine.deploy(artifacts["challenges"], leaf.address)
        service = machine.deploy(artifacts["service"], challenges.address)
        return {"challenges": (machine, challenges), "service": (machine, service)}

    @staticmethod
    def play() -> list[Made]:
        """Return the calls that the tests make."""
        return play_tests()[0]
