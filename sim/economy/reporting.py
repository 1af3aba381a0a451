"""The clerk of a run: checks the ledger after every block, and writes the rows of all tables."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

from moot.offchain.errors import MootError
from moot.sim.economy.agents import Agent
from moot.sim.economy.audits import Audits
from moot.sim.economy.cases import Case, Receipts, name_lineup
from moot.sim.economy.checks import MOST_BLOCKS
from moot.sim.economy.config import GWEI, Config
from moot.sim.economy.deals import Bill, Deal
from moot.sim.economy.facts import Job
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.prices import Prices
from moot.sim.economy.schema import STAGES
from moot.sim.economy.spans import SpanBook
from moot.sim.economy.strategies.base import HONEST, WATCHER

NOBODY = "nobody-can"
"""Why a job is not served: not enough providers are free, are matched, and can pay."""

TOO_DEAR = "too-dear"
"""Likewise: it is not worth to the client what the providers ask."""

DECLINED = "declined"
"""Likewise: somebody who was to run it has declined."""

OVERSPENT = "overspent"
"""Likewise: somebody can't pay for the conduct that it has chosen, and forfeits."""

DISPUTE_TOO_DEAR = "dispute-too-dear"
"""Likewise: somebody who does what is agreed can't pay for the dispute that it comes to."""

CLIENT_TOO_POOR = "client-too-poor"
"""Likewise: the client can't pay."""

NO_COVER = "no-cover"
"""Likewise, a job by receipt: no provider's standing bond covers one more receipt."""


class Sink(Protocol):
    """Whatever takes the rows of tables."""

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Add a row to a table of `schema.TABLES`."""


class NoRows:
    """A sink that keeps no rows, for whoever wants the counts alone."""

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Keep nothing."""


@dataclass(slots=True)
class Counts:
    """The counts of a run; names and order are those of `schema.RUNS`."""

    jobs: int = 0
    burn_in: int = 0
    right: int = 0
    wrong: int = 0
    void: int = 0
    unserved: int = 0
    cheated: int = 0
    caught: int = 0
    audited: int = 0
    checked: int = 0
    late: int = 0
    busy: int = 0
    audit_rate_asked: float = 0.0
    audit_rate_achieved: float = 0.0
    disputed: int = 0
    played: int = 0
    disagreements: int = 0
    violations: int = 0
    waited: int = 0
    missed_clocks: int = 0
    missed_gwei: int = 0
    spoiled: int = 0
    gas: int = 0
    fees_gwei: int = 0
    burned_gwei: int = 0
    capital_gwei: int = 0
    client_gwei: int = 0
    honest_gwei: int = 0
    cheat_gwei: int = 0
    watcher_gwei: int = 0
    blocks: int = 0


class InvalidRunError(MootError):
    """A run has come to its end, and its results do not hold."""

    def __init__(self, message: str, counts: Counts) -> None:
        """Say why, and give the run's counts."""
        super().__init__(message)
        self.counts = counts


class Clerk:
    """Whoever keeps the books of a run.

    Args:
        run: its number.
        sink: takes the rows.
        prices: the price of gas, and the current block.
        ledger: the money.
        config: what is configured.

    Attributes:
        spans: what each agent has had in each span.
    """

    def __init__(
        self, run: int, sink: Sink, prices: Prices, ledger: Ledger, config: Config
    ) -> None:
        self.run, self.sink, self.prices, self._ledger = run, sink, prices, ledger
        self._config = config
        self._games = 0
        self.spans = SpanBook(config)
        self._burn_in, self._loss_share = self.spans.burn_in, config.clients.loss_share
        self.counts, self._early = Counts(burn_in=self._burn_in), Counts()

    def is_early(self, job: Job) -> bool:
        """Return whether a job is of the burn-in."""
        return job.number < self._burn_in

    def choose_counts(self, job: Job) -> Counts:
        """Return the counts to which a job belongs; those of the burn-in are in no sum."""
        return self._early if job.number < self._burn_in else self.counts

    def counts_of(self, job: int) -> Counts:
        """Return the counts to which the job with a number belongs."""
        return self._early if job < self._burn_in else self.counts

    def note(self, kind: str, agent: Agent, job: int | None = None, detail: str = "") -> None:
        """Note something about an agent."""
        self.sink.add("events", (self.run, self.prices.block, kind, agent.number, job, detail))

    def close_block(self, open_jobs: int, providers: int) -> None:
        """Check the ledger after a block, and write it down; raises BrokenLedgerError."""
        ledger, prices = self._ledger, self.prices
        free, locked = ledger.check(prices.block)
        self.sink.add(
            "ledger",
            (
                self.run,
                prices.block,
                prices.base_fee_wei,
                free,
                locked,
                ledger.burned,
                ledger.fees,
                ledger.work,
                ledger.outside + ledger.fund,
                open_jobs,
                providers,
            ),
        )

    def refuse(self, job: Job, client: Agent, reason: str) -> None:
        """Write down a job that nobody served, and why."""
        counts = self.choose_counts(job)
        counts.jobs += 1
        counts.unserved += 1
        begin = (self.run, job.number, job.block, job.block, client.number, *(None,) * 4, 0)
        offer = (job.value_gwei, 0, job.bond_gwei, False, False, None, False, False)
        self.sink.add("jobs", (*begin, *offer, "unserved", *(0,) * 8, None, reason))

    def settle(self, deal: Deal, bill: Bill, played: Case | None) -> int:
        """Write down a deal that is settled; return the gas that its calls have used.

        Args:
            deal: the deal.
            bill: what it has come to.
            played: the same case on a chain, if it was played there, too.
        """
        case, job, parts, watchers = deal.case, deal.job, deal.parts, deal.watchers
        counts, block = self.choose_counts(job), self.prices.block
        gas, fees_gwei, burned_gwei, client_gwei = bill
        self.spans.add(deal, client_gwei, block)
        if deal.client.role == "client":
            client_gwei += self.appraise(job.value_gwei, case.outcome)
            counts.client_gwei += client_gwei
        is_cheated = _count(counts, deal, bill)
        is_checked = is_audited = False
        if watchers:
            is_checked, is_audited = deal.is_checked, deal.is_audited
            counts.audited += is_audited
            counts.checked += is_checked
        missed, missed_gwei = self._count_waits(deal) if deal.waited else (0, 0)
        lead, agent = parts[0], parts[0].agent
        self.sink.add(
            "jobs",
            (
                self.run,
                job.number,
                job.block,
                block,
                deal.client.number,
                agent.number,
                agent.strategy_name,
                agent.reputation,
                "forced-error" if deal.is_forced else lead.conduct,
                len(parts),
                job.value_gwei,
                job.price_gwei * len(parts),
                job.bond_gwei,
                is_cheated,
                is_audited,
                watchers[0].agent.number if watchers else None,
                is_checked,
                case.is_disputed,
                case.outcome,
                case.blocks + deal.delay_blocks,
                gas,
                fees_gwei,
                burned_gwei,
                client_gwei,
                deal.waited,
                missed,
                missed_gwei,
                deal.planned.outcome,
                None,
            ),
        )
        if watchers:
            self._note_late_checks(deal)
        if case.is_disputed:
            self._write_game(deal, played)
        if case.receipts is not None:
            self._write_receipts(deal, case.receipts)
        return gas

    def _count_waits(self, deal: Deal) -> tuple[int, int]:
        """Count what has come of calls that had to wait, and note who has less because of it.

        Returns:
            How many accounts have come too late, and what it has cost in all.
        """
        counts, missed = self.choose_counts(deal.job), deal.missed
        cost_gwei = sum([part.missed_gwei for part in deal.everybody])
        counts.waited += 1
        counts.missed_clocks += missed
        counts.missed_gwei += cost_gwei
        counts.spoiled += deal.case.outcome != deal.planned.outcome
        for part in deal.everybody:
            if part.missed_gwei:
                detail = f"has {part.missed_gwei / GWEI:g} ETH less"
                self.note("missed-clock", part.agent, deal.job.number, detail)
        return missed, cost_gwei

    def _note_late_checks(self, deal: Deal) -> None:
        """Note each check of a deal that came too late, and what it could not change."""
        for part in deal.watchers:
            if part.is_late and part.conduct == WATCHER:
                accepted = "a wrong answer" if deal.case.outcome == "wrong" else "what is agreed"
                detail = (
                    f"the check took {part.agent.blocks} blocks, and a claim can be challenged for "
                    f"{MOST_BLOCKS}; {accepted} was accepted"
                )
                self.note("late-check", part.agent, deal.job.number, detail)

    def appraise(self, value_gwei: int, outcome: str) -> int:
        """Return what an answer is worth to a client; to a provider that has asked itself, none."""
        if outcome == "right":
            return value_gwei
        return -round(value_gwei * self._loss_share) if outcome == "wrong" else 0

    def _write_game(self, deal: Deal, played: Case | None) -> None:
        """Write down a game in which claims met, and the moves of the first games."""
        case, number = deal.case, self._games
        self._games += 1
        row: tuple[object, ...] = (self.run, number, deal.job.number, name_lineup(deal.lineup))
        row += (deal.number, "modelled" if played is not case else "played", case.outcome)
        row += (len(case.moves), case.rounds, case.blocks, *case.sum_stages())
        if played is None:
            row += (None,) * (len(STAGES) + 2)
        else:
            agrees = played.fates == case.fates
            self.counts.played += 1
            self.counts.disagreements += not agrees
            row += (played.outcome, *played.sum_stages(), agrees)
        self.sink.add("games", row)
        for part in deal.everybody:
            if (seat := part.seat) is not None:
                whose = (self.run, number, part.agent.number, part.agent.strategy_name)
                did = (part.conduct, seat.is_right, seat.gas, part.gas_gwei)
                lost_gwei = seat.lost * deal.job.bond_gwei
                self.sink.add("parties", (*whose, *did, lost_gwei, part.profit_gwei))
        if number < self._config.moves_of_games:
            for index, move in enumerate(case.moves):
                self.sink.add("moves", (self.run, number, index, *astuple(move)))

    def _write_receipts(self, deal: Deal, receipts: Receipts) -> None:
        """Write down what a chain has charged and paid for a job."""
        begin = (self.run, deal.job.number)
        for index, call in enumerate(receipts.calls):
            self.sink.add("calls", (*begin, index, *astuple(call)))
        for row in receipts.accounts:
            agent = None if row.seat is None else deal.everybody[row.seat].agent
            if row.account == "client":
                agent = deal.client
            whose = (None, None) if agent is None else (agent.number, agent.strategy_name)
            did = (row.behaviour, row.is_right, row.fate)
            has = (row.gas, row.fees_wei, row.profit_wei)
            self.sink.add("accounts", (*begin, row.account, *whose, *did, *has))

    def finish(self, everybody: Sequence[Agent], audits: Audits) -> Counts:
        """Write down the agents; return the counts of the run."""
        counts = self.counts
        counts.late, counts.busy, counts.audit_rate_asked, counts.audit_rate_achieved = (
            audits.tell()
        )
        counts.blocks = self.prices.block
        profits = self.spans.sum_profits(everybody)
        counts.honest_gwei, counts.cheat_gwei, counts.watcher_gwei = profits
        for row in self.spans.list_rows(everybody):
            self.sink.add("spans", (self.run, *row))
        totals = self.spans.sum_up()
        for agent in everybody:
            sums = totals[agent.number]
            wealth = self._ledger.free[agent.number] + self._ledger.locked[agent.number]
            self.sink.add(
                "agents",
                (
                    self.run,
                    agent.number,
                    agent.name,
                    agent.role,
                    agent.strategy_name,
                    agent.entered,
                    agent.left,
                    agent.is_bankrupt,
                    agent.jobs,
                    sums.cheated,
                    agent.slashed,
                    agent.forfeits,
                    agent.capital_gwei,
                    wealth - agent.capital_gwei,
                    sums.work_gwei,
                    sums.fees_gwei,
                    float(sums.locked_gwei_blocks),
                    agent.capital_cost_gwei,
                    agent.reputation,
                ),
            )
        return counts


def _count(counts: Counts, deal: Deal, bill: Bill) -> bool:
    """Count a deal that is settled; return whether a provider has cheated."""
    is_cheated, case = False, deal.case
    for part in deal.parts:
        if part.conduct != HONEST:
            is_cheated = True
            if part.seat is not None and part.seat.lost:
                counts.caught += 1
                break
    counts.jobs += 1
    if case.outcome == "right":
        counts.right += 1
    elif case.outcome == "wrong":
        counts.wrong += 1
    else:
        counts.void += 1
    counts.cheated += is_cheated
    counts.disputed += case.is_disputed
    counts.gas += bill.gas
    counts.fees_gwei += bill.fees_gwei
    counts.burned_gwei += bill.burned_gwei
    return is_cheated
