"""The calls of a job's disputes: played for real, or composed of its sizes.

A small program's dispute is played by both sides. A large one's would take the runs of both: then a
synthetic job of the same sizes is played, with commitments that cost nothing and real moves and
proofs, on the same contract (`sim/synthetic/products.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.offchain.arithmetic.base import Arithmetic
from moot.sim.chains.chain import Chain
from moot.sim.estimates import Estimate, estimate_mean
from moot.sim.gas.on_chains import Bill, PaidCall, charge, read_calls
from moot.sim.gas.play import Stage
from moot.sim.gas.report import OPENING
from moot.sim.gas.scenarios import Scenario
from moot.sim.pricing.sizes import Sizes, list_lies

PLAYED, COMPOSED = "played", "composed"
_ROUTINE_CALLS = frozenset({"commit", "reveal", "settle", "collect"})
"""The calls that a provider makes whether anybody disagrees or not."""
_PAYOUT = frozenset({"settle", "collect"})


@dataclass(frozen=True, slots=True)
class Disputes:
    """Some disputes of a job, each with its calls.

    Attributes:
        how: `played` or `composed`.
        calls: of each dispute.
        liars: the names of the players that lie.
    """

    how: str
    calls: tuple[tuple[PaidCall, ...], ...]
    liars: frozenset[str]

    def charge_opening(self, chain: Chain) -> Bill:
        """Return what the client pays to open the job."""
        return charge([it for it in self.calls[0] if it.call == OPENING], chain)

    def charge_routine(self, chain: Chain) -> Bill:
        """Return what one provider pays in a job that nobody disputes: it also ends the job."""
        first = self.calls[0]
        made = [
            next(it for it in first if it.call == name and (name in _PAYOUT or not self._lies(it)))
            for name in sorted(_ROUTINE_CALLS & {it.call for it in first})
        ]
        return charge(made, chain)

    def charge_liar(self, chain: Chain) -> Bill:
        """Return the least that a liar pays in one of the disputes."""
        bills = [charge([it for it in calls if self._lies(it)], chain) for calls in self.calls]
        return min(bills, key=lambda bill: bill.total_wei)

    def list_whole(self, chain: Chain) -> list[Bill]:
        """Return what each dispute costs both sides, without the opening."""
        return [charge([it for it in calls if it.call != OPENING], chain) for calls in self.calls]

    def estimate_wei(self, chain: Chain) -> Estimate:
        """Return the mean of what a dispute costs both sides, over the lies."""
        return estimate_mean([bill.total_wei for bill in self.list_whole(chain)])

    def estimate_price_wei(self, chain: Chain) -> float:
        """Return the most that a unit of gas comes to in one of the disputes, with its data."""
        return max(bill.total_wei / bill.gas for bill in self.list_whole(chain))

    def _lies(self, call: PaidCall) -> bool:
        return call.player in self.liars


def compose(sizes: Sizes, arithmetic: Arithmetic, count: int) -> Disputes:
    """Return disputes over a synthetic job of a job's sizes.

    Args:
        sizes: of the job.
        arithmetic: of its program.
        count: how many lies are disputed.
    """
    stage, size = Stage(), sizes.make_synthetic()
    played: list[Sequence[PaidCall]] = []
    for number, lie in enumerate(list_lies(size, count)):
        scenario = Scenario(f"lie-{number}", "", size, (lie,), arithmetic=arithmetic.name)
        played.append(read_calls(stage.measure(scenario).played))
    return Disputes(COMPOSED, tuple(map(tuple, played)), frozenset({"liar-1"}))
