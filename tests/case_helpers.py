"""A runner of cases of the tiny program, whose cases are played on the model, where gas is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from moot.contracts.model.types import Address
from moot.offchain.disputes.referee.port import Referee
from moot.offchain.providers.task import Task
from moot.sim.checked_referee import CheckedReferee
from moot.sim.economy.case_runner import CaseRunner, count_accounts
from moot.sim.economy.cases import AccountReceipt, Case, Lineup, Receipts
from moot.sim.economy.config import Program
from moot.sim.economy.congested import Closed
from moot.sim.economy.played_case import PlayedCase
from moot.sim.economy.receipts import read_receipts
from tests.sim_helpers import make_task, open_referee


class TinyRunner(CaseRunner):
    """A runner whose cases are about the tiny program of `sim_helpers`."""

    @cached_property
    def task(self) -> Task:
        """What is agreed in case 0."""
        return make_task()


RUNNER = TinyRunner(Program())


@dataclass(frozen=True, slots=True)
class CheckedCase:
    """A case that was played, judged, and checked to the wei."""

    referee: CheckedReferee
    played: PlayedCase
    case: Case
    receipts: Receipts

    def list_accounts(self, conduct: str) -> Sequence[AccountReceipt]:
        """Return what became of the accounts of a conduct."""
        seats = {k for k, it in enumerate(self.played.parties) if it.conduct == conduct}
        return [row for row in self.receipts.accounts if row.seat in seats]


def list_addresses(lineup: Lineup) -> list[Address]:
    """Return as many addresses as a lineup needs."""
    return [Address(f"0x{number:040x}") for number in range(1, count_accounts(lineup) + 1)]


def run_case(
    *lineup: str, number: int = 0, referee: Referee | None = None, closed: Closed = ()
) -> CheckedCase:
    """Play a case of a lineup on a new model, or on another referee; some blocks may be closed."""
    addresses = list_addresses(lineup)
    checked = CheckedReferee(referee or open_referee(addresses), "")
    played = RUNNER.run_case(checked, addresses, lineup, number, closed=closed)
    case = played.judge(played.read_gas())
    return CheckedCase(checked, played, case, read_receipts(played, case))
