"""The lookout: watchers to whom receipts are handed, what they keep of them, and their word.

A receipt is handed to watchers at the times of a Poisson process in its window; whoever looks takes
its blocks for the check, and a block for the announcement. Who has nothing to do with it passes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.facts import News
from moot.sim.economy.population import Population
from moot.sim.economy.service.affairs import CONFLICT, UNLISTED, Affair
from moot.sim.economy.service.challenges import Challenges, Later
from moot.sim.economy.service.requests import draw_shares
from moot.sim.economy.service.signed import Pair, Pool
from moot.sim.economy.service.till import Till
from moot.sim.economy.strategies.base import FREE_RIDE, WATCHER


@dataclass
class Lookout:
    """The watchers of a market, as far as receipts go.

    Attributes:
        people: of whom they are.
        till: moves the money.
        challenges: takes what they find to the service.
        later: does something in a later block.
        done: is told when nothing more comes of a receipt here.
    """

    people: Population
    till: Till
    challenges: Challenges
    later: Later
    done: Callable[[Affair], None]
    _pools: dict[tuple[int, int], Pool] = field(default_factory=dict)

    def sample(self, affair: Affair, seed: int) -> None:
        """Hand a receipt to watchers, until one does something about it or its window is over."""
        service, job = self.till.config.service, affair.job
        if not service.sample_rate:
            return
        draws, there, passed = draw_shares(seed), self.people.watchers, 0.0
        while there:
            passed -= math.log1p(-next(draws)) / service.sample_rate
            if passed > service.window_blocks:
                return
            watcher = there[int(next(draws) * len(there))]
            if passed > service.window_blocks - watcher.blocks - 1:
                continue
            conduct = watcher.strategy.look(job, self.people.show(watcher), watcher.stream)
            if conduct is not None and conduct != FREE_RIDE:
                self._begin(affair, watcher, conduct, math.ceil(passed))
                return

    def _begin(self, affair: Affair, watcher: Agent, conduct: str, passed: int) -> None:
        affair.pending += 1
        block = affair.signed.issued + passed + watcher.blocks
        self.later(block, lambda: self._check(affair, watcher, conduct))

    def _check(self, affair: Affair, watcher: Agent, conduct: str) -> None:
        """Let a watcher do what it wants to about a receipt that it was handed."""
        if conduct != WATCHER:
            if not affair.is_lie and self.challenges.challenge(affair, watcher, conduct):
                self.till.scribe.book(affair.job.number, watcher, 0, jobs=1)
        elif self.recompute(affair, watcher):
            signed, pair = affair.signed, self._keep(watcher, affair)
            if pair is not None:
                self.challenges.prove(affair, watcher, CONFLICT, pair)
            elif signed.chain and signed.number < affair.house.published:
                self.challenges.prove(affair, watcher, UNLISTED, (signed, signed))
            is_found = affair.is_lie and self.challenges.challenge(affair, watcher, WATCHER)
            self._tell(affair, watcher, is_found=is_found)
        self.done(affair)

    def recompute(self, affair: Affair, agent: Agent) -> bool:
        """Let somebody check an answer; return whether it can pay for that."""
        service, job = self.till.config.service, affair.job.number
        cost_gwei = round(affair.tokens * service.work_gwei * service.check_share)
        if not self.till.compute(agent, cost_gwei):
            return False
        self.till.scribe.book(job, agent, -cost_gwei, jobs=1, work_gwei=cost_gwei)
        affair.checker = affair.checker or agent
        return True

    def _keep(self, watcher: Agent, affair: Affair) -> Pair | None:
        """Let a watcher keep a receipt; return the proof of fault that it has with it."""
        key = (watcher.number, affair.house.agent.number)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(self.till.config.service.shown == "chain")
        return pool.see(affair.signed)

    def vouch(self, affair: Affair, place: float) -> bool:
        """Ask a watcher for its word that it has seen no other receipt with this number.

        Args:
            affair: of the receipt.
            place: where among all watchers the one is that is asked, from 0 to 1.

        Returns:
            Whether it gives its word.
        """
        there = self.people.watchers
        if not there:
            return False
        watcher = there[int(place * len(there))]
        own = self.people.show(watcher)
        conduct = watcher.strategy.look(affair.job, own, watcher.stream)
        if conduct is None:
            return False
        fee_gwei = round(self.till.config.service.word_gwei)
        fee_gwei = min(fee_gwei, self.till.ledger.free[affair.client.number])
        self.till.give(affair.client, watcher, fee_gwei, affair.job.number)
        pair = None if conduct == FREE_RIDE else self._keep(watcher, affair)
        if pair is not None:
            self.challenges.prove(affair, watcher, CONFLICT, pair)
        return pair is None

    def compare(self, affair: Affair) -> None:
        """Let watchers compare a batch that was published with receipts that they have kept."""
        house = affair.house
        for watcher in list(self.people.watchers):
            pool = self._pools.get((watcher.number, house.agent.number))
            for signed in pool.list_forked() if pool else ():
                if signed.number < house.published:
                    self.challenges.prove(affair, watcher, UNLISTED, (signed, signed))

    def _tell(self, affair: Affair, watcher: Agent, *, is_found: bool) -> None:
        """Tell a watcher what it has found; what that will pay is half a bond, less the gas."""
        if not watcher.hears:
            return
        prize_gwei = self.challenges.bond_gwei // 2 if is_found else 0
        news = News(
            affair.job.number,
            self.till.prices.block,
            WATCHER,
            False,
            True,
            False,
            affair.outcome,
            prize_gwei,
            affair.is_lie,
            prize_gwei,
        )
        if watcher.strategy.hear(news):
            self.people.leave(watcher, "exit")
