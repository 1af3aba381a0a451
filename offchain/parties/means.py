"""The means of a party: what the gas of a dispute may cost, and whether there is money for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contracts.model.types import Terms
from offchain.chain.accounts import GasBudget
from offchain.chain.accounts.fees import GWEI
from offchain.disputes.crowds import SIDE_MOVES
from offchain.disputes.referee import Call
from offchain.parties.settings import Settings, to_wei

MOST_GAS = {
    "commit": 56_884,
    "reveal": 60_754,
    "join": 59_678,
    "start_match": 80_433,
    "descend": 65_906,
    "enter_claimed": 84_123,
    "enter_tensor": 126_684,
    "enter_state": 50_191,
    "reach_chunk": 57_270,
    "pick_element": 83_874,
    "pick_segment": 81_695,
    "prove_sink": 63_568,
    "leaf": 193_787,
    "timeout": 50_295,
    "rule": 53_151,
    "settle": 41_632,
    "collect": 46_181,
}
"""Call -> the most gas that it takes in any scenario of `gas-snapshot.txt`."""

_ONCE = ("enter_claimed", "enter_claimed", "enter_tensor", "enter_tensor", "pick_element", "leaf")
"""Moves that a side makes so often in a match; its others are at most as dear as `pick_segment`."""


def sum_gas(calls: Iterable[str]) -> int:
    """Return the most gas that calls take together."""
    return sum(MOST_GAS[call] for call in calls)


MATCH_GAS = sum_gas(("start_match", *_ONCE, *["pick_segment"] * (SIDE_MOVES - len(_ONCE))))
"""The most gas that one side of a match pays: it begins it, and makes every move that it can."""
DISPUTE_GAS = MATCH_GAS + sum_gas(("commit", "reveal", "settle", "collect"))
"""The most gas of a job with one match, from the commitment to the payment."""
PAID_LATER = frozenset({"collect"})
"""Calls that bring money, whatever was spent before."""


@dataclass
class Means:
    """The money of an account for gas, and what the jobs at hand may still take of it.

    Attributes:
        settings: the highest fee, and the budget of a job.
        spent_wei: by job what its gas has cost, and `bonds_wei` the bonds that are still to be
            paid; both of the jobs at hand.
    """

    settings: Settings
    spent_wei: dict[int, int] = field(default_factory=dict)
    bonds_wei: dict[int, int] = field(default_factory=dict)

    @property
    def dispute_wei(self) -> int:
        """What the gas of a whole dispute costs at the highest fee."""
        return DISPUTE_GAS * int(self.settings.max_fee_gwei * GWEI)

    def find_obstacle(self, balance_wei: int, terms: Terms) -> str | None:
        """Return why no further job may be begun beside those at hand; None if one may."""
        budget = GasBudget(to_wei(self.settings.gas_budget))
        later_wei = sum(max(0, self.dispute_wei - spent) for spent in self.spent_wei.values())
        free_wei = balance_wei - later_wei - sum(self.bonds_wei.values())
        return budget.find_obstacle(free_wei, terms.bond_wei, self.dispute_wei)

    def take(self, job_id: int, spent_wei: int, bond_wei: int) -> None:
        """Set money aside for a job, whose bond is still to be paid if it is not 0."""
        self.spent_wei[job_id] = spent_wei
        self.bonds_wei[job_id] = bond_wei

    def note(self, job_id: int, call: Call, fee_wei: int) -> None:
        """Note what a call of a job has cost."""
        self.spent_wei[job_id] = self.spent_wei.get(job_id, 0) + fee_wei
        if call.value_wei:
            self.bonds_wei[job_id] = 0

    def release(self, job_id: int) -> None:
        """Need nothing more for a job."""
        self.spent_wei.pop(job_id, None)
        self.bonds_wei.pop(job_id, None)

    def may_go_on(self, job_id: int, matches: int, price_wei: int, stake_wei: int) -> bool:
        """Whether to pay for what is still to do in a job.

        Args:
            job_id: the job.
            matches: those that the account plays now.
            price_wei: what a unit of gas costs now.
            stake_wei: the bond that is lost otherwise.
        """
        budget = GasBudget(to_wei(self.settings.gas_budget))
        further = matches * MATCH_GAS + sum_gas(("settle", "collect"))
        spent_wei = self.spent_wei.get(job_id, 0)
        return budget.may_go_on(spent_wei, further * price_wei, stake_wei)
