"""Spans: the jobs of a run in twenty equal parts, of which the first ones may be burn-in.

What happens while agents still learn says little about what they come to. Jobs of the burn-in are
rows of tables like all others, and no sum counts them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from math import ceil

from moot.sim.economy.agents import Agent
from moot.sim.economy.config import Config
from moot.sim.economy.deals import Deal
from moot.sim.economy.strategies.base import HONEST
from moot.sim.economy.strategies.table import make_strategy

SPANS = 20
"""The spans of a run."""

LEARNING_SHARE = 0.5
"""The burn-in of a market in which somebody learns, unless its configuration says otherwise."""


@dataclass(slots=True)
class Sums:
    """The sums of what an agent had of some jobs; names and order are those of `schema.SPANS`."""

    jobs: int = 0
    cheated: int = 0
    slashed: int = 0
    work_gwei: int = 0
    fees_gwei: int = 0
    locked_gwei_blocks: int = 0
    profit_gwei: int = 0

    def add(self, other: "Sums") -> None:
        """Add what it had of other jobs."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def find_first(span: int, jobs: int) -> int:
    """Return the number of the first job of a span."""
    return -(-span * jobs // SPANS)


def choose_share(config: Config) -> float:
    """Return which share of the jobs of a run is burn-in."""
    if not isinstance(config.burn_in, str):
        return config.burn_in
    return LEARNING_SHARE if config.fidelity != "played" and has_learners(config) else 0.0


def count_burn_in(config: Config) -> int:
    """Return how many jobs of a run are burn-in: whole spans, as many as the share takes."""
    return find_first(ceil(round(choose_share(config) * SPANS, 6)), config.jobs)


def has_learners(config: Config) -> bool:
    """Return whether an agent of a market says that it learns: `learns = True` in its class."""
    return any(
        make_strategy(role, group.strategy, group.parameters).learns
        for role, groups in (("providers", config.providers), ("watchers", config.watchers))
        for group in groups
        if group.count
    )


class SpanBook:
    """The book of what every agent had of the jobs of every span.

    Args:
        config: of the run.

    Attributes:
        burn_in: how many jobs are burn-in: those with lower numbers.
    """

    def __init__(self, config: Config) -> None:
        self._jobs, self.burn_in = config.jobs, count_burn_in(config)
        self._books = [defaultdict[int, Sums](Sums) for _ in range(SPANS)]

    def add(self, deal: Deal, client_gwei: int, block: int) -> None:
        """Add a deal that is settled in a block, and has changed its client's wealth by so much."""
        job, client, providers = deal.job, deal.client, len(deal.parts)
        book = self._books[job.number * SPANS // self._jobs]
        if client.role == "client":
            book[client.number].profit_gwei += client_gwei
        blocks = block - job.block
        for place, part in enumerate(deal.everybody):
            sums, seat = book[part.agent.number], part.seat
            sums.jobs += 1
            if place < providers and part.conduct != HONEST:
                sums.cheated += 1
            if seat is not None and seat.lost:
                sums.slashed += 1
            sums.work_gwei += part.worked_gwei
            sums.fees_gwei += part.gas_gwei
            sums.locked_gwei_blocks += part.locked_gwei * blocks
            sums.profit_gwei += part.profit_gwei

    def find(self, job: int, agent: int) -> Sums:
        """Return the sums of an agent in the span of a job, to be added to."""
        return self._books[job * SPANS // self._jobs][agent]

    def _list(self) -> Iterator[tuple[int, int, Sums]]:
        """Yield the sums of every span and agent, in the order of both."""
        for span, book in enumerate(self._books):
            yield from ((span, number, book[number]) for number in sorted(book))

    def list_rows(self, everybody: Sequence[Agent]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of `schema.SPANS` without the run's number, by span and agent."""
        for span, number, sums in self._list():
            agent, first = everybody[number], find_first(span, self._jobs)
            whose = (number, agent.role, agent.strategy_name)
            (*counts, locked, profit) = astuple(sums)
            yield (span, first, first < self.burn_in, *whose, *counts, float(locked), profit)

    def sum_up(self) -> Mapping[int, Sums]:
        """Return the sums of every agent over all spans, those of the burn-in among them."""
        totals: dict[int, Sums] = defaultdict(Sums)
        for _, number, sums in self._list():
            totals[number].add(sums)
        return totals

    def sum_profits(self, everybody: Sequence[Agent]) -> tuple[int, int, int]:
        """Return what honest providers, all others and watchers have earned after the burn-in."""
        honest = cheat = watcher = 0
        for span, number, sums in self._list():
            agent = everybody[number]
            if find_first(span, self._jobs) < self.burn_in or agent.role == "client":
                continue
            if agent.role == "watcher":
                watcher += sums.profit_gwei
            elif agent.strategy_name == HONEST:
                honest += sums.profit_gwei
            else:
                cheat += sums.profit_gwei
        return honest, cheat, watcher
