"""The simulated market, event by event: jobs arrive, are sold, run, checked, disputed and settled.

Simplified on purpose: what agents do about a job they decide when it arrives, from what they know
then, and they hear of it when it is settled; a dispute begins when the slowest provider is ready.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from moot.offchain.errors import UsageError
from moot.sim.economy.agents import Agent
from moot.sim.economy.cases import Lineup
from moot.sim.economy.config import GWEI, Config
from moot.sim.economy.deals import Deal, Part, price_gas
from moot.sim.economy.facts import Job
from moot.sim.economy.inspection import Inspection
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.mechanisms.base import Audit, Bonding, Matching, Pricing, Reputing
from moot.sim.economy.mechanisms.table import make_mechanism
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.population import Population
from moot.sim.economy.prices import Prices
from moot.sim.economy.reporting import (
    CLIENT_TOO_POOR,
    DECLINED,
    DISPUTE_TOO_DEAR,
    NOBODY,
    OVERSPENT,
    TOO_DEAR,
    Clerk,
    Counts,
    Sink,
)
from moot.sim.economy.service.desk import FIRST_EVENT, Desk
from moot.sim.economy.service.open import open_desk
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.economy.streams import Arrival, Stream, draw_arrivals
from moot.sim.economy.traffic import Traffic
from moot.sim.traces.series import Factors

TRIES = 32
"""How many providers come up for each place before a job stays unserved."""

_FACTOR, _MASK = 6364136223846793005, (1 << 62) - 1
"""A ticket's next number is the last one times the factor, plus 1; its upper half is drawn."""

_SHIFT, _SCALE = 31, 1 << 31

_NUMBER_BITS, _NUMBER_MASK = 32, (1 << 32) - 1
"""A deal's place on the agenda is one number: its block, and in so many bits that of its job."""

_OVERSPENDS = "can't pay for what it has chosen"


@dataclass(frozen=True, slots=True)
class Rules:
    """The mechanisms of a market."""

    pricing: Pricing
    matching: Matching
    bonding: Bonding
    audit: Audit
    reputing: Reputing


def make_rules(config: Config) -> Rules:
    """Return the mechanisms that are configured; raises UsageError if one is impossible."""
    return Rules(
        make_mechanism("pricing", config.pricing),
        make_mechanism("matching", config.matching),
        make_mechanism("bond", config.bond),
        make_mechanism("audit", config.audit),
        make_mechanism("reputation", config.reputation),
    )


def _check_rules(rules: Rules, config: Config) -> None:
    """Refuse rules under which no provider could ever run a job."""
    groups = [group for group in config.providers if group.count]
    richest_eth = max(group.capital_eth for group in groups)
    bond_eth = rules.bonding.size(0, 1.0) / GWEI
    if bond_eth > richest_eth:
        raise UsageError(
            f"a bond is {bond_eth:g} ETH at least, and no provider has more than "
            f"{richest_eth:g} ETH; lower the bond, or raise `capital_eth`"
        )
    total, wanted = sum(g.count for g in groups), rules.pricing.count_bidders(config.seats)
    if wanted > total and not config.entry.per_1000_blocks:
        raise UsageError(
            f"each job is offered to {wanted} providers, and there are {total}; add providers, "
            "or ask fewer"
        )


def _get_conduct(part: Part) -> str:
    return part.conduct


@dataclass
class Market:
    """A run of a simulated market.

    Attributes:
        config: what is configured.
        outcomes: say what jobs come to.
        sink: takes the rows of the tables.
        run: the run's number, the first value of each row.
    """

    config: Config
    outcomes: Outcomes
    sink: Sink
    run: int = 0
    _agenda: list[int] = field(default_factory=list)
    _deals: dict[int, Deal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config, seed = self.config, self.config.seed
        self._rules = make_rules(config)
        _check_rules(self._rules, config)
        self._prices, self._ledger = Prices(config.chain, seed), Ledger()
        self._clerk = Clerk(self.run, self.sink, self._prices, self._ledger, config)
        self._people = Population(config, self._ledger, self._rules.reputing, self._clerk)
        plain = self.outcomes.judge((HONEST,) * config.seats, 0)
        self._plain_gas = max(seat.gas for seat in plain.seats)
        self._traffic = Traffic(self._prices, self.outcomes, self._ledger)
        self._reserve = min(config.chain.gas_reserve, config.chain.fee_cap)
        self._used_gas = 0
        self._gain_share = config.clients.gain_share
        audit = self._rules.audit
        jackpot_gwei = audit.choose_jackpot() >> config.watchers_asked - 1
        self._bait_gwei = round(audit.choose_forced_rate() * jackpot_gwei)
        prices = config.hardware.prices
        self._hardware = Factors(prices) if prices else None
        self._price_work(0)
        self._desk: Desk | None = None
        if config.service.requests_per_block:
            self._desk = open_desk(
                config,
                self.outcomes,
                self._people,
                self._clerk,
                (self._ledger, self._prices),
                (self._rules.matching, self._rules.reputing),
                self._put_event,
            )
        self._inspection = Inspection(audit, self._people, self._ledger, config.watchers_asked)

    def play(self, progress: Callable[[int], None] | None = None) -> Counts:
        """Play all jobs to their end.

        Args:
            progress: is called with the number of jobs that have arrived, now and then.

        Raises:
            BrokenLedgerError: an invariant does not hold.
        """
        config, agenda, people, prices = self.config, self._agenda, self._people, self._prices
        arrivals, entry = draw_arrivals(config), Stream(config.seed, "entry")
        entry_rate = config.entry.per_1000_blocks / 1000
        arrival = next(arrivals)
        arriving = arrival.waiting
        entering = entry.draw_waiting(entry_rate) if entry_rate else math.inf
        number, jobs, waiting = 0, config.jobs, self._traffic.since
        every = 1 if config.fidelity == "played" else 1024
        asking = self._desk.next if self._desk else math.inf
        coming = min(arriving, entering, asking)
        while number < jobs or agenda or waiting:
            block = agenda[0] >> _NUMBER_BITS if agenda else math.inf
            if waiting and self._wait(min(coming, block)):
                continue
            if agenda and block <= coming:
                if block > prices.block:
                    self._reach(int(block))
                self._happen(heappop(agenda) & _NUMBER_MASK)
                continue
            if coming >= prices.block + 1:
                self._reach(int(coming))
            if entering < arriving and entering < asking:
                people.enter_anew(entry)
                entering += entry.draw_waiting(entry_rate)
            else:
                if asking < arriving:
                    asking = self._take(number)
                else:
                    self._arrive(number, arrival)
                    arrival = next(arrivals)
                    arriving += arrival.waiting
                number += 1
                if progress is not None and number % every == 0:
                    progress(number)
            coming = min(arriving, entering, asking) if number < jobs else math.inf
        self._end()
        return self._clerk.finish(people.everybody, self._inspection.audits)

    def _happen(self, number: int) -> None:
        """Go on with what the agenda has: a job's deal, by its number, or an event of the desk."""
        if number < FIRST_EVENT:
            self._go_on(self._deals.pop(number))
        elif self._desk is not None:
            self._desk.happen(number)

    def _take(self, number: int) -> float:
        """Let the desk answer a request, the job with this number; return when the next comes."""
        assert self._desk is not None, "there are no requests without it"
        self._desk.take(number)
        return self._desk.next

    def _end(self) -> None:
        """End the last block."""
        if self._desk is not None:
            self._desk.finish(self.config.jobs - 1)
        self._close_block()

    def _close_block(self) -> None:
        """Check a block that is over, and write it down."""
        open_jobs = len(self._agenda) + len(self._traffic.since)
        if self._desk is not None:
            open_jobs += self._desk.count_open()
        self._clerk.close_block(open_jobs, len(self._people.providers))

    def _reach(self, block: int) -> None:
        """Go on to a block, or to the first before it in which a call gets in that waits."""
        if block > self._prices.block:
            self._close_block()
            if self._desk is not None:
                self._used_gas += self._desk.take_gas()
            self._prices.go_on(block, self._used_gas, self._traffic.highest_cap_wei)
            self._price_work(self._prices.block)
            self._used_gas = 0

    def _price_work(self, block: int) -> None:
        """Let work cost what hardware does in a block."""
        if self._hardware is not None:
            self._people.price_work(self._hardware.find(block))

    def _wait(self, coming: float) -> bool:
        """Go on to the block of what is coming, unless calls that wait get into one before it.

        Returns:
            Whether they do; what is coming may be something else then.
        """
        self._reach(int(min(coming, self._traffic.patience_ends)))
        released = self._traffic.release()
        for deal in released:
            self._put(deal, self._prices.block)
        return bool(released)

    def _put(self, deal: Deal, block: int) -> None:
        """Put a deal on the agenda of a block; those of a block come up by their jobs' numbers."""
        number = deal.job.number
        self._deals[number] = deal
        heappush(self._agenda, block << _NUMBER_BITS | number)

    def _put_event(self, block: int, number: int) -> None:
        """Put an event of the desk on the agenda of a block."""
        heappush(self._agenda, block << _NUMBER_BITS | number)

    def _go_on(self, deal: Deal) -> None:
        """Settle a deal whose calls are all in blocks, or look at it again when that may be."""
        prices = self._prices
        is_calm = prices.highest_wei <= deal.reserve_wei
        ends = deal.ends if is_calm else self._traffic.follow(deal)
        if ends is None:
            return
        if ends > prices.block:
            self._put(deal, ends)
        else:
            self._settle(deal)

    def _arrive(self, number: int, arrival: Arrival) -> None:
        """Let a job arrive, sell it, and let everybody decide what to do about it."""
        config, people = self.config, self._people
        client = people.clients[arrival.client]
        asked, reputation = self._ask_around(arrival.ticket, arrival.value_gwei)
        rate = 0.0
        if asked:
            rate = self._rules.audit.choose_rate(reputation)
            job, parts = self._sell(number, arrival.value_gwei, asked, reputation, rate)
        else:
            job, parts = self._offer(number, arrival.value_gwei, 0, 0.0, 0.0, 0), NOBODY
        if isinstance(parts, str):
            self._clerk.refuse(job, client, parts)
            return
        inspection, is_busy = self._inspection, False
        watchers: list[Part] = []
        ready = job.block + parts[0].agent.blocks
        if len(parts) > 1:
            ready = job.block + max([part.agent.blocks for part in parts])
        if arrival.audited < rate:
            watchers, is_busy = inspection.ask(job, arrival.watcher, ready)
        case = number if config.fidelity == "played" else arrival.case
        deal = self._make(job, client, parts, watchers, case, arrival.forced)
        poor = deal.lock(self._ledger, config.chain)
        while poor is not None and poor.role == "watcher":
            if any(part.agent is poor and part.conduct != WATCHER for part in watchers):
                poor.forfeit(_OVERSPENDS)
            watchers = [part for part in watchers if part.agent is not poor]
            deal = self._make(job, client, parts, watchers, case, arrival.forced)
            poor = deal.lock(self._ledger, config.chain)
        if poor is not None:
            self._clerk.refuse(job, client, self._blame(poor, deal))
            return
        deal.begin_work()
        if watchers:
            inspection.begin(deal, ready)
        if not self._clerk.is_early(job):
            inspection.count_audit(deal, rate, is_busy=is_busy)
        deal.began = deal.begins = ready + deal.delay_blocks
        self._put(deal, deal.ends)

    def _blame(self, poor: Agent, deal: Deal) -> str:
        """Return why a deal fails that somebody can't pay for; it is a forfeit of whoever cheats.

        Who does what is agreed could pay for that, and not for the dispute that others bring.
        """
        for part in deal.parts:
            if part.agent is poor and part.conduct != HONEST:
                poor.forfeit(_OVERSPENDS)
                return OVERSPENT
            if part.agent is poor:
                return DISPUTE_TOO_DEAR
        return CLIENT_TOO_POOR

    def _ask_around(self, ticket: int, value_gwei: int) -> tuple[list[Agent], float]:
        """Return the providers that are asked, and the lowest reputation among them.

        Nobody is asked, if not enough are free and can pay: each for its work, the gas of a job
        that nobody disputes, and the bond that all of them lock, that of the lowest reputation.
        """
        rules, ledger, there = self._rules, self._ledger, self._people.providers
        wanted, count = rules.pricing.count_bidders(self.config.seats), len(there)
        if count < wanted:
            return [], 1.0
        weigh, free, locked = rules.matching.weigh, ledger.free, ledger.locked
        size, lowest, block = rules.bonding.size, 1.0, self._prices.block
        gas_gwei = price_gas(self._plain_gas, int(self._prices.price_wei * self._reserve))
        asked: list[Agent] = []
        for _ in range(TRIES * wanted):
            ticket = (ticket * _FACTOR + 1) & _MASK
            agent = there[(ticket >> _SHIFT) * count >> _SHIFT]
            if agent.has_slot(block) and agent not in asked:
                number, lower = agent.number, min(lowest, agent.reputation)
                needed_gwei = size(value_gwei, lower) + gas_gwei
                if free[number] < needed_gwei + agent.work_gwei:
                    continue
                if asked and any(free[o.number] < needed_gwei + o.work_gwei for o in asked):
                    continue
                chance = weigh(agent.reputation, free[number] + locked[number])
                if chance < 1.0:
                    ticket = (ticket * _FACTOR + 1) & _MASK
                    if ticket >> _SHIFT >= chance * _SCALE:
                        continue
                asked.append(agent)
                lowest = lower
                if len(asked) == wanted:
                    return asked, lowest
        return [], 1.0

    def _offer(
        self,
        number: int,
        value_gwei: int,
        price_gwei: int,
        reputation: float,
        rate: float,
        work_gwei: int,
    ) -> Job:
        """Return what those who are asked see of a job."""
        rules, prices = self._rules, self._prices
        return Job(
            number,
            prices.block,
            value_gwei,
            price_gwei,
            rules.bonding.size(value_gwei, reputation),
            self._plain_gas * prices.price_wei // GWEI,
            rate if rules.audit.is_public else math.nan,
            rules.audit.choose_fee(work_gwei),
            self._bait_gwei,
            round(value_gwei * self._gain_share) if self._gain_share else 0,
        )

    def _sell(
        self, number: int, value_gwei: int, asked: list[Agent], reputation: float, rate: float
    ) -> tuple[Job, list[Part] | str]:
        """Sell a job, and let those who run it decide how; or return why it is not sold."""
        show, seats, work_gwei = self._people.show, self.config.seats, asked[0].work_gwei
        job = self._offer(number, value_gwei, 0, reputation, rate, work_gwei)
        bids = []
        for agent in asked:
            if agent.bids:
                bids.append(agent.strategy.bid(job, show(agent)))
            else:
                bids.append(agent.work_gwei + job.fee_gwei)
        sold = None
        if min(bids) >= 0:
            sold = self._rules.pricing.sell(bids, seats, value_gwei)
        if sold is None:
            return job, TOO_DEAR
        chosen = [asked[index] for index in sold.winners]
        job = job._replace(price_gwei=sold.price_gwei)
        parts = []
        for agent in chosen:
            offer = job
            if seats > 1:
                rivals = tuple([other.name for other in chosen if other is not agent])
                offer = Job(*job[:-1], rivals)
            conduct = agent.strategy.decide(offer, show(agent), agent.stream)
            if conduct is None:
                return job, DECLINED
            parts.append(Part(agent, conduct))
        if seats > 1:
            parts.sort(key=_get_conduct)
        return job, parts

    def _make(
        self,
        job: Job,
        client: Agent,
        parts: list[Part],
        watchers: list[Part],
        number: int,
        forced_at: float,
    ) -> Deal:
        """Return the deal about a job."""
        lineup: Lineup = tuple([part.conduct for part in parts])
        is_honest = lineup.count(HONEST) == len(lineup)
        is_forced = is_honest and forced_at < self._rules.audit.choose_forced_rate()
        extra_gwei = fund_gwei = 0
        if watchers:
            inspection = self._inspection
            joiners = inspection.choose_joiners(watchers, is_right=is_honest)
            lineup = (*lineup, *[part.conduct for part in joiners])
            watchers = [*joiners, *[part for part in watchers if part not in joiners]]
            extra_gwei, fund_gwei = inspection.set_fees(watchers, job, is_forced=is_forced)
        return Deal(
            job,
            client,
            parts,
            watchers,
            lineup,
            number,
            self.outcomes.judge(lineup, number, (job.bond_gwei, job.price_gwei * len(parts))),
            is_forced,
            extra_gwei,
            fund_gwei,
            self._prices.price_wei,
        )

    def _settle(self, deal: Deal) -> None:
        """Settle a deal: pay, tell everybody, and let go who has lost too much."""
        config, people = self.config, self._people
        audit = self._rules.audit
        bill = deal.settle(
            self._ledger,
            config.chain,
            self._traffic.price(deal),
            is_funding=audit.is_paid_from_bonds,
        )
        if deal.case.outcome == "wrong" and deal.job.gain_gwei:
            people.pay_gain(deal)
        if config.capital.rate:
            cost_gwei = people.charge_capital(deal, self._prices.block)
            self._clerk.choose_counts(deal.job).capital_gwei += cost_gwei
        played = None
        if deal.case.is_disputed:
            played = self.outcomes.verify(deal.lineup, deal.number, deal.case, deal.closed)
        self._used_gas += self._clerk.settle(deal, bill, played)
        people.tell(deal, self._prices.block)
