"""Agents: an agent sees a job that is offered to its provider, and decides how to take part.

An agent never touches the chain or anybody's store: the market carries out its action.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from moot.offchain.disputes.terms import Stakes
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import HONEST
from moot.offchain.providers.cheats.reading import make_cheat
from moot.offchain.providers.task import Task
from moot.sim.mix import Group
from moot.sim.scheme import Scheme
from moot.sim.strategies import Strategy, find_strategy


@dataclass(frozen=True, slots=True)
class View:
    """What a provider sees when a job is offered to it."""

    job: int
    task: Task
    stakes: Stakes
    balance_wei: int


@dataclass(frozen=True, slots=True)
class Work:
    """The action of taking a job.

    Attributes:
        behaviours: the behaviour under which each of the provider's accounts runs the job.
        scheme: plays the accounts; None lets them join in time and move at once, as the honest do.
        is_client: whether the first account opens the job and pays for it.
    """

    behaviours: tuple[Behaviour, ...]
    scheme: type[Scheme] | None = None
    is_client: bool = False


class Agent(Protocol):
    """A provider's strategy; anything that it draws comes from the stream that it is given."""

    @property
    def name(self) -> str:
        """The agent's name, which begins with that of its strategy."""

    @property
    def strategy(self) -> str:
        """The strategy under which the agent's results are counted."""

    @property
    def accounts(self) -> int:
        """The number of the agent's accounts."""

    def act(self, view: View, rng: np.random.Generator) -> Work:
        """Return what the agent does about a job."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An agent that does the same in every job: its strategy is one of `find_strategy`."""

    name: str
    strategy: str

    @property
    def accounts(self) -> int:
        """The number of the provider's accounts."""
        return find_strategy(self.strategy).accounts

    def act(self, view: View, rng: np.random.Generator) -> Work:
        """Take the job; the settings of cheats are drawn anew for every job."""
        row = find_strategy(self.strategy)
        return Work(draw_behaviours(row, view.task, rng), row.load_scheme(), row.is_client)


def draw_behaviours(
    strategy: Strategy, task: Task, rng: np.random.Generator
) -> tuple[Behaviour, ...]:
    """Return the behaviour of each account of a strategy in a job.

    Raises:
        UsageError: the strategy is impossible with the task.
    """
    drawn = [Behaviour() if it == HONEST else make_cheat(it, task, rng) for it in strategy.runs]
    return tuple(behaviour for behaviour in drawn for _ in range(strategy.copies))


def make_providers(mix: Iterable[Group]) -> tuple[Provider, ...]:
    """Return the providers of a mix, numbered from 1 within each strategy."""
    return tuple(
        Provider(f"{_shorten(group.strategy)}-{number + 1}", group.strategy)
        for group in mix
        for number in range(group.count)
    )


def _shorten(strategy: str) -> str:
    """Return what providers are called; of a user's file, without its folder."""
    return strategy.rpartition("/")[2].replace(".py:", "-")


def check_providers(providers: Iterable[Provider], task: Task) -> None:
    """Raise UsageError when a provider's strategy is impossible with a task."""
    for strategy in sorted({provider.strategy for provider in providers}):
        draw_behaviours(find_strategy(strategy), task, np.random.default_rng(0))
