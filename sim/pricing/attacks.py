"""The attacks on a job that are known, and the least bond at which none of them pays.

All amounts are in one unit. A job pays R for work that costs W; who lies saves W and gains G where
its answer is accepted. A share a of all jobs is audited, and an audited lie is disputed and lost:

    liar - honest = W + (1 - a) G - a (R + B + F)

where B is the bond and F what the liar pays for the dispute above a plain job. So a lie does not
pay from B = (W + (1 - a) G) / a - R - F on, which without G and F is the audit rate W / (R + B) of
the fraud game (`sim/theory/fraud.py`). A griefer lies to cost others money: whoever plays it is
paid half of its bond, and loses nothing from B = 2 H on, where H is the longest match's cost to one
side at the highest price that it may have.
"""

from dataclasses import dataclass
from math import sqrt

from moot.contracts.model.types import PRIZE_DIVISOR
from moot.offchain.errors import UsageError

LIE, GRIEFING, LEAST, GIVEN = "lie", "griefing", "contract's least", "given"
"""What a bond is bound by."""


@dataclass(frozen=True, slots=True)
class Stake:
    """The money of a job that an attacker looks at, all in one unit.

    Attributes:
        work: W, that is saved by not doing it.
        gain: G, of a wrong answer that is accepted.
        reward: R, for a right answer.
        liar_fees: F, what a disputed lie pays for gas above a plain job.
        match_cost: H, of the longest match to one side.
        least_bond: the contract's.

    Raises:
        UsageError: an amount is negative.
    """

    work: float
    gain: float
    reward: float
    liar_fees: float
    match_cost: float
    least_bond: float

    def __post_init__(self) -> None:
        amounts = (self.work, self.gain, self.reward, self.liar_fees, self.match_cost)
        if not all(amount >= 0 for amount in (*amounts, self.least_bond)):
            raise UsageError("the money of a job is negative or no number; state amounts from 0 on")

    def calculate_lies_gain(self, bond: float, audit_rate: float) -> float:
        """Return what a lie gains above honest work; not above 0 where none pays."""
        lost = self.reward + bond + self.liar_fees
        return self.work + (1 - audit_rate) * self.gain - audit_rate * lost

    def bound_lies(self, audit_rate: float) -> float:
        """Return the least bond at which no lie pays, 0 where none is needed."""
        if audit_rate <= 0:
            return float("inf") if self.work + self.gain > 0 else 0.0
        tempted = self.work + (1 - audit_rate) * self.gain
        return max(0.0, tempted / audit_rate - self.reward - self.liar_fees)

    def bound_griefing(self) -> float:
        """Return the least bond whose prize pays for the longest match."""
        return PRIZE_DIVISOR * self.match_cost

    def bound_audits(self, bond: float) -> float:
        """Return the least audit rate at which no lie pays, given the bond; at most 1."""
        at_stake = self.reward + bond + self.liar_fees + self.gain
        tempted = self.work + self.gain
        return min(1.0, tempted / at_stake) if at_stake > 0 else float(tempted > 0)

    def list_bounds(self, audit_rate: float) -> dict[str, float]:
        """Return the least bond that each reason asks for."""
        return {
            GRIEFING: self.bound_griefing(),
            LEAST: self.least_bond,
            LIE: self.bound_lies(audit_rate),
        }


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What audits and bonds cost a market for each job.

    Attributes:
        audit_fee: for one audit.
        capital_share: of a bond: the price of locking it up while a job lasts.
    """

    audit_fee: float
    capital_share: float


def choose_audits(stake: Stake, upkeep: Upkeep) -> float:
    """Return the audit rate at which audits and locked bonds cost the least together.

    The bond against lies is K / a - R - F - G with K = W + G, so that a job costs a A + r K / a for
    audits and capital, and the least is at a = sqrt(r K / A). More audits than make that bond as
    low as the others ask for anyway save nothing.
    """
    tempted = stake.work + stake.gain
    if tempted <= 0:
        return 0.0
    others = max(stake.bound_griefing(), stake.least_bond)
    enough = stake.bound_audits(others)
    if upkeep.audit_fee <= 0:
        return enough
    return min(enough, sqrt(upkeep.capital_share * tempted / upkeep.audit_fee))
