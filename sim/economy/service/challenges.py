"""Challenges of receipts and proofs of fault: what they cost, what they pay, and when they end."""

from collections.abc import Callable
from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.config import GWEI
from moot.sim.economy.deals import price_gas
from moot.sim.economy.service.affairs import FRIVOLOUS, LIE, Affair
from moot.sim.economy.service.endings import Endings
from moot.sim.economy.service.signed import Pair
from moot.sim.economy.service.till import Till
from moot.sim.economy.service.trials import Trial, Trials
from moot.sim.economy.strategies.base import WATCHER

LOST, WON, VOID = "lost", "won", "void"
"""What becomes of a provider in a match; in the last case both have their bonds back."""

Later = Callable[[int, Callable[[], None]], None]
"""Whatever does something in a later block."""


@dataclass
class Challenges:
    """The challenges of a market.

    Attributes:
        till: moves the money.
        trials: say who is right.
        later: ends a match in its block.
        endings: ends affairs, and lets providers go that have no bond left.
    """

    till: Till
    trials: Trials
    later: Later
    endings: Endings
    _stake_gwei: int = field(init=False)
    _least_gwei: int = field(init=False)

    def __post_init__(self) -> None:
        service = self.till.config.service
        self._least_gwei = round(service.min_bond_eth * GWEI)
        self._stake_gwei = round(max(service.min_bond_eth, service.stake_eth) * GWEI)

    @property
    def bond_gwei(self) -> int:
        """The bond of a challenge: the larger of the least and the receipt's stake."""
        return self._stake_gwei

    def challenge(self, affair: Affair, agent: Agent, conduct: str) -> bool:
        """Let somebody challenge a receipt, if that is worth it and can be paid.

        Args:
            affair: of the receipt.
            agent: the challenger.
            conduct: `watcher`, who is right, or a lie of a frivolous challenger.

        Returns:
            Whether there is a match now.
        """
        till, house, block = self.till, affair.house, self.till.prices.block
        if affair.is_challenged or house.is_faulted or block + 1 > affair.signed.last:
            return False
        trial = self.trials.judge(affair.conduct, conduct, affair.case)
        calls_gwei = till.price("service.commit", "service.challenge")
        cost_gwei = calls_gwei + price_gas(trial.challenger_gas, till.prices.price_wei)
        bond_gwei = min(self._stake_gwei, house.bond_gwei)
        if bond_gwei < self._least_gwei or (conduct == WATCHER and bond_gwei // 2 <= cost_gwei):
            return False
        if till.ledger.free[agent.number] < self._stake_gwei + cost_gwei:
            return False
        till.charge(house, affair.job.number)
        house.bond_gwei -= bond_gwei
        till.lock(agent, bond_gwei)
        till.use("service.commit", agent, affair.job.number, 0, 1)
        till.use("service.challenge", agent, affair.job.number, bond_gwei, 1)
        affair.is_challenged, affair.challenged = True, block + 1
        affair.finding = LIE if conduct == WATCHER else FRIVOLOUS
        affair.pending += 1
        till.moves.challenge(affair, agent.number, bond_gwei, is_lie=conduct != WATCHER)
        self.later(
            block + 1 + trial.blocks,
            lambda: self._settle(affair, agent, conduct, trial, bond_gwei),
        )
        return True

    def _settle(
        self, affair: Affair, agent: Agent, conduct: str, trial: Trial, bond_gwei: int
    ) -> None:
        """End a match: who has lost loses its bond, and half of that is the other's.

        The bond of a provider that has won is paid to it, and it deposits that again.
        """
        till, house, job = self.till, affair.house, affair.job.number
        provider = house.agent
        till.spend("match", provider, job, trial.provider_gas)
        till.spend("match", agent, job, trial.challenger_gas)
        till.lock(agent, -bond_gwei)
        till.lock(provider, -bond_gwei)
        if trial.is_lost:
            affair.lost_gwei += bond_gwei
            self._pass(job, provider, agent, bond_gwei)
        else:
            affair.is_challenged = False
            if trial.is_refuted:
                self._pass(job, agent, provider, bond_gwei)
        fate = LOST if trial.is_lost else WON if trial.is_refuted else VOID
        till.moves.settle(affair, agent.number, bond_gwei, fate)
        if not trial.is_lost:
            till.add(house, bond_gwei, job)
        case, played = self.trials.verify(affair.conduct, conduct, affair.case)
        if played is not None:
            counts = till.scribe.clerk.counts
            counts.played += 1
            counts.disagreements += played.fates != case.fates
        self.endings.judge(affair.house, job, is_kept=not trial.is_lost)
        self.endings.done(affair)

    def _pass(self, job: int, loser: Agent, winner: Agent, amount_gwei: int) -> None:
        """Take an amount of a loser: half is the winner's, half is burned."""
        ledger, scribe = self.till.ledger, self.till.scribe
        prize_gwei = amount_gwei // 2
        ledger.free[loser.number] -= amount_gwei
        ledger.free[winner.number] += prize_gwei
        ledger.burned += amount_gwei - prize_gwei
        scribe.burn(job, amount_gwei - prize_gwei)
        scribe.book(job, loser, -amount_gwei, slashed=1)
        scribe.book(job, winner, prize_gwei)

    def prove(self, affair: Affair, reporter: Agent, finding: str, pair: Pair) -> bool:
        """Let somebody prove a fault of a provider; return whether it is worth that.

        It takes the whole standing bond, and nothing that is in a match.

        Args:
            affair: because of which it does.
            reporter: who does.
            finding: `conflict`, or `unlisted`.
            pair: the two receipts in conflict; or twice the one that is not in a batch.
        """
        till, house, job = self.till, affair.house, affair.job.number
        calls = ("service.commit", f"service.prove_{finding}")
        cost_gwei = till.price(*calls)
        is_paying = house.bond_gwei // 2 > cost_gwei
        if house.is_faulted or not is_paying or till.ledger.free[reporter.number] < cost_gwei:
            return False
        for name in calls:
            till.use(name, reporter, job, 0, 2)
        lost_gwei, prize_gwei = till.take_all(house, reporter, job)
        affair.lost_gwei += lost_gwei
        till.moves.fault(affair, reporter.number, (finding, prize_gwei), pair)
        affair.finding = affair.finding or finding
        house.is_faulted = True
        self.endings.judge(house, job, is_kept=False)
        return True
