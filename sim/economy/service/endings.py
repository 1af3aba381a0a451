"""The endings of affairs: what becomes of a provider that was judged, and what all hear of it."""

from dataclasses import dataclass

from moot.sim.economy.config import GWEI
from moot.sim.economy.facts import News
from moot.sim.economy.mechanisms.base import Reputing
from moot.sim.economy.population import Population
from moot.sim.economy.service.affairs import Affair
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.till import Till


@dataclass
class Endings:
    """Whoever ends affairs.

    Attributes:
        people: who is there.
        till: has the books.
        reputing: how a provider's name changes.
        open: how many affairs have begun and not ended.
    """

    people: Population
    till: Till
    reputing: Reputing
    open: int = 0

    def begin(self, affair: Affair) -> None:
        """Begin an affair, of which one thing is to come."""
        self.open += 1
        affair.pending = 1

    def judge(self, house: House, job: int, *, is_kept: bool) -> None:
        """Let a provider go that has lost a match, or its bond, and has no stake left of it."""
        stake_gwei = round(self.till.config.service.stake_eth * GWEI)
        if house.is_faulted or (not is_kept and house.bond_gwei < stake_gwei):
            self.close(house, "bankruptcy", job)

    def close(self, house: House, kind: str, job: int) -> None:
        """Let a provider leave; its bond stays liable for longer than any window."""
        if house.is_leaving:
            return
        house.is_leaving = True
        if house.bond_gwei:
            self.till.use("service.unstake", house.agent, job, house.bond_gwei)
            self.till.moves.leave(house)
        self.people.leave(house.agent, kind)

    def done(self, affair: Affair) -> None:
        """Count one of the things that were to come of a receipt; end its affair with the last."""
        affair.pending -= 1
        if affair.pending:
            return
        self.open -= 1
        if not affair.is_paid:
            self.till.release(affair)
        house, block = affair.house, self.till.prices.block
        agent = house.agent
        agent.reputation = self.reputing.update(
            agent.reputation, block - agent.rated, is_good=not affair.lost_gwei
        )
        agent.rated = block
        self.till.scribe.close(affair)
        patience = self.till.config.entry.patience
        has_lost = patience and agent.jobs >= patience and agent.earned_gwei < 0
        if has_lost or (agent.hears and agent.strategy.hear(self._make_news(affair))):
            self.close(house, "exit", affair.job.number)

    def _make_news(self, affair: Affair) -> News:
        """Return what a provider hears of a receipt of which nothing more will come."""
        return News(
            affair.job.number,
            self.till.prices.block,
            affair.conduct,
            affair.is_lie,
            affair.checker is not None,
            affair.lost_gwei > 0,
            affair.outcome,
            affair.tally.provider_gwei,
            affair.challenged is not None,
            0,
        )
