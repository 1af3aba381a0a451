"""The gas budget of a job: whether to begin, and whether to go on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GasBudget:
    """What a provider means to spend on the gas of one job, in wei."""

    budget_wei: int

    def find_obstacle(self, balance_wei: int, bond_wei: int, expected_wei: int) -> str | None:
        """Return why the job is not to be begun; None if it may.

        Args:
            balance_wei: what the account holds now.
            bond_wei: what it locks up at the beginning.
            expected_wei: what the gas of the job's dearest course costs at the ceiling.
        """
        if expected_wei > self.budget_wei:
            return (
                f"its gas may cost {expected_wei:,} wei, and the budget is {self.budget_wei:,} wei"
                "; raise the budget of a job or lower the highest fee"
            )
        left_wei = balance_wei - bond_wei
        if left_wei < self.budget_wei:
            return (
                f"beside the bond of {bond_wei:,} wei the account has {max(left_wei, 0):,} wei for "
                f"gas, and the budget is {self.budget_wei:,} wei; fund it"
            )
        return None

    def may_go_on(self, spent_wei: int, further_wei: int, stake_wei: int) -> bool:
        """Whether to pay for what is still to do.

        Within the budget always; beyond it where the bond at stake is worth more than that costs.

        Args:
            spent_wei: what the job's gas has cost so far.
            further_wei: what the rest may cost.
            stake_wei: the bond that is lost otherwise.
        """
        return spent_wei + further_wei <= self.budget_wei or stake_wei > further_wei
