"""Capital with a price: the bond that makes deterrence cheapest, between audits and locked money.

Lying stops to pay at an audit rate of c / (P + S), where a lie saves c and costs the payment P and
the bond S when it is found. An audit costs A, and a bond that is locked for T blocks at a rate r
a year costs S r T / Y, with Y blocks in a year. So a market in which nobody lies costs for each job

    C(S) = A c / (P + S) + k S,   k = r T / Y

which falls with S as long as capital is free, and else is least at

    S* = sqrt(A c / k) - P
"""

import math
from dataclasses import dataclass

from moot.offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class Deterrence:
    """The money of a market that nobody lies in, all in one unit.

    Attributes:
        saving: c, what a lie saves.
        payment: P, for a job.
        audit_cost: A, of a check.
        carry: k, what it costs to lock one unit for the time of a job.

    Raises:
        UsageError: something is below 0, or there is nothing to deter.
    """

    saving: float
    payment: float
    audit_cost: float
    carry: float

    def __post_init__(self) -> None:
        if self.saving <= 0 or min(self.payment, self.audit_cost, self.carry) < 0:
            raise UsageError(
                "deterrence needs a lie that saves something, and costs of 0 or more, not "
                f"{self.saving}, {self.payment}, {self.audit_cost}, {self.carry}"
            )

    def calculate_rate(self, bond: float) -> float:
        """Return the least audit rate at which lying does not pay."""
        return min(1.0, self.saving / (self.payment + bond))

    def calculate_cost(self, bond: float) -> float:
        """Return what audits and locked capital cost for each job, with the least rate."""
        return self.audit_cost * self.calculate_rate(bond) + self.carry * bond


def calculate_carry(rate: float, blocks: float, blocks_a_year: float) -> float:
    """Return what it costs to lock one unit for some blocks, at a rate a year."""
    return rate * blocks / blocks_a_year


def solve_bond(game: Deterrence) -> float:
    """Return the bond with which a job costs least; 0 if every bond costs more than it saves.

    Raises:
        UsageError: capital is free, so that the larger of two bonds is always better.
    """
    if not game.carry:
        raise UsageError("capital that costs nothing has no best bond; set its rate above 0")
    return max(0.0, math.sqrt(game.audit_cost * game.saving / game.carry) - game.payment)
