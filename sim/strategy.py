"""A strategy of a provider: what its accounts run, and how they call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from offchain.providers.behaviour import Behaviour
from offchain.providers.task import Task
from sim.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy.

    Attributes:
        draw: returns the behaviour that each of the accounts runs in a job.
        accounts: the number of accounts.
        scheme: plays the accounts; None lets them join in time and move at once, as the honest do.
        is_client: whether the first account opens the job, and pays for it.
    """

    draw: Callable[[Task, np.random.Generator], Sequence[Behaviour]]
    accounts: int = 1
    scheme: type[Scheme] | None = None
    is_client: bool = False
