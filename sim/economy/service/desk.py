"""The desk where requests are answered: who is asked, what the client is shown, when it pays."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.config import GWEI, Config
from moot.sim.economy.facts import Job, Pledge
from moot.sim.economy.mechanisms.base import Matching
from moot.sim.economy.population import Population
from moot.sim.economy.reporting import CLIENT_TOO_POOR, DECLINED, NO_COVER, NOBODY, OVERSPENT
from moot.sim.economy.service.affairs import Affair
from moot.sim.economy.service.challenges import Challenges
from moot.sim.economy.service.endings import Endings
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.lookout import Lookout
from moot.sim.economy.service.requests import Request, draw_requests, draw_shares
from moot.sim.economy.service.showing import Showing
from moot.sim.economy.service.till import Till
from moot.sim.economy.service.trials import Trials
from moot.sim.economy.strategies.base import HONEST

FIRST_EVENT = 1 << 31
"""The number of the first event of the desk on the agenda; those of jobs are lower."""

TRIES = 32
"""How many providers come up for a request before it stays unserved."""

_PLAIN = Pledge()


@dataclass
class Desk:
    """The desk of jobs by receipt.

    Attributes:
        config: what is configured.
        people: who is there.
        till: moves the money.
        trials: say who is right in a match.
        matching: how likely a provider is asked.
        endings: end affairs.
        put: puts an event on the market's agenda, by block and number.
        next: the time of the next request.
    """

    config: Config
    people: Population
    till: Till
    trials: Trials
    matching: Matching
    endings: Endings
    put: Callable[[int, int], None]
    next: float = math.inf
    _houses: dict[int, House] = field(default_factory=dict)
    _events: dict[int, Callable[[], None]] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        service = self.config.service
        self._requests = draw_requests(self.config)
        self._request = next(self._requests)
        self.next = self._request.waiting
        till, endings = self.till, self.endings
        challenges = Challenges(till, self.trials, self.later, endings)
        self._lookout = Lookout(self.people, till, challenges, self.later, endings.done)
        self._showing = Showing(till, challenges, self._lookout, endings, self.later)
        self._stake_gwei = round(service.stake_eth * GWEI)
        self._chance = 1 - math.exp(-service.sample_rate * service.window_blocks)

    def later(self, block: int, action: Callable[[], None]) -> None:
        """Do something in a later block."""
        number = FIRST_EVENT + self._count
        self._count += 1
        self._events[number] = action
        self.put(block, number)

    def happen(self, number: int) -> None:
        """Let an event happen that was put on the agenda."""
        self._events.pop(number)()

    def take_gas(self) -> int:
        """Return the gas that calls of a block have used, which is over."""
        used, self.till.gas = self.till.gas, 0
        return used

    def count_open(self) -> int:
        """Return how many receipts something is to come of, less the events on the agenda."""
        return self.endings.open - len(self._events)

    def take(self, number: int) -> None:
        """Take the next request, which is the job with this number, and answer it."""
        request = self._request
        self._request = next(self._requests)
        self.next += self._request.waiting
        client = self.people.clients[request.client]
        job = self._describe(number, request)
        found = self._answer(job, client, request)
        if isinstance(found, str):
            self.till.scribe.clerk.refuse(job, client, found)
            return
        self.endings.begin(found)
        self._showing.show(found, request)
        self._lookout.sample(found, request.sampled)
        self.endings.done(found)

    def _describe(self, number: int, request: Request) -> Job:
        """Return what everybody sees of a request."""
        service, tokens = self.config.service, request.tokens
        value_gwei = round(tokens * service.value_gwei)
        return Job(
            number,
            self.till.prices.block,
            value_gwei,
            round(tokens * service.price_gwei),
            self._stake_gwei,
            0,
            self._chance,
            0,
            0,
            round(value_gwei * self.config.clients.gain_share),
        )

    def _answer(self, job: Job, client: Agent, request: Request) -> Affair | str:
        """Let a provider answer and sign, or return why none does."""
        house = self._find(job.number, request)
        if isinstance(house, str):
            return house
        agent, service, scribe = house.agent, self.config.service, self.till.scribe
        own = self.people.show(agent)
        conduct = agent.strategy.decide(job, own, agent.stream)
        if conduct is None:
            return DECLINED
        share = 1.0 if conduct == HONEST else service.cheap_share
        work_gwei = round(request.tokens * service.work_gwei * share)
        if own.free_gwei < work_gwei:
            return OVERSPENT
        if not self.till.fund(client, house, job.price_gwei, job.number):
            return CLIENT_TOO_POOR
        pledge = agent.strategy.pledge(job, own) if agent.pledges else _PLAIN
        if pledge is not _PLAIN:
            house.heed(pledge)
        tally = scribe.begin(job.number)
        self.till.compute(agent, work_gwei)
        cheated = int(conduct != HONEST)
        scribe.book(job.number, agent, -work_gwei, jobs=1, cheated=cheated, work_gwei=work_gwei)
        signed = house.sign(request.client, job.block, job.bond_gwei, service.window_blocks)
        job = job._replace(rivals=(agent.name,))
        affair = Affair(job, client, house, signed, conduct, request.case, request.tokens)
        affair.tally = tally
        affair.is_covered = house.open_gwei <= house.bond_gwei
        self.till.moves.sign(affair)
        if pledge.leaves:
            self.endings.close(house, "exit", job.number)
        return affair

    def _find(self, number: int, request: Request) -> House | str:
        """Return the house of a provider whose bond covers one more receipt, or why none has."""
        there, block = self.people.providers, self.till.prices.block
        if not there:
            return NOBODY
        ledger, weigh = self.till.ledger, self.matching.weigh
        draws = draw_shares(request.ticket)
        for _ in range(TRIES):
            agent = there[int(next(draws) * len(there))]
            house = self._houses.get(agent.number) or self._open(agent, number)
            if not (house.is_open and house.fits(request.client, block, self._stake_gwei)):
                continue
            wealth_gwei = ledger.free[agent.number] + ledger.locked[agent.number]
            chance = weigh(agent.reputation, wealth_gwei)
            if chance >= 1.0 or next(draws) < chance:
                return house
        return NO_COVER

    def _open(self, agent: Agent, number: int) -> House:
        """Return the house of a new provider, closed if it can't pay for a standing bond."""
        house = self._houses[agent.number] = House(agent)
        house.is_leaving = not self.till.open(house, number)
        return house

    def finish(self, number: int) -> None:
        """End a run: vouchers are worth what they say, and capital is paid for up to here."""
        for house in self._houses.values():
            for client in sorted(house.owed_gwei):
                self.till.settle_up(house, client)
            self.till.charge(house, number)
        self.till.moves.finish()
