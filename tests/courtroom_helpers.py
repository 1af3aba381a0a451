"""A courtroom of the tiny program, whose cases are heard on the model, where gas is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from moot.contracts.model.types import Address
from moot.offchain.disputes.referee.port import Referee
from moot.offchain.providers.task import Task
from moot.sim.economy.cases import AccountReceipt, Case, Lineup, Receipts
from moot.sim.economy.config import Program
from moot.sim.economy.courtroom import Courtroom, count_accounts
from moot.sim.economy.hearing import Hearing
from moot.sim.economy.receipts import read_receipts
from moot.sim.witness import Witness
from tests.sim_helpers import make_task, open_referee


class TinyCourtroom(Courtroom):
    """A courtroom whose cases are about the tiny program of `sim_helpers`."""

    @cached_property
    def task(self) -> Task:
        """What is agreed in case 0."""
        return make_task()


ROOM = TinyCourtroom(Program())


@dataclass(frozen=True, slots=True)
class Heard:
    """A case that was heard, judged, and checked to the wei."""

    witness: Witness
    hearing: Hearing
    case: Case
    receipts: Receipts

    def list_accounts(self, conduct: str) -> Sequence[AccountReceipt]:
        """Return what became of the accounts of a conduct."""
        seats = {k for k, it in enumerate(self.hearing.parties) if it.conduct == conduct}
        return [row for row in self.receipts.accounts if row.seat in seats]


def list_addresses(lineup: Lineup) -> list[Address]:
    """Return as many addresses as a lineup needs."""
    return [Address(f"0x{number:040x}") for number in range(1, count_accounts(lineup) + 1)]


def hear(*lineup: str, number: int = 0, referee: Referee | None = None) -> Heard:
    """Hear a case of a lineup on a new model, or on another referee."""
    addresses = list_addresses(lineup)
    witness = Witness(referee or open_referee(addresses), "")
    hearing = ROOM.hear(witness, addresses, lineup, number)
    case = hearing.judge(hearing.read_gas())
    return Heard(witness, hearing, case, read_receipts(hearing, case))
