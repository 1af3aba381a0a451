"""The protocol of a strategy: what an agent does about a job, and what it learns of it.

A strategy is a dataclass whose fields with defaults are its parameters; what it remembers is
`field(init=False)`. It is shown facts that it can't change, and draws from its own stream alone.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own, Pledge
from moot.sim.economy.streams import Stream
from moot.sim.strategies import STRATEGIES, is_conduct

HONEST = "honest"
"""The conduct of whoever does what is agreed."""

FREE_RIDE = "free-ride"
"""The conduct of a watcher that says that it has checked, and has not."""

WATCHER = "watcher"
"""The conduct of a watcher that recomputes a job, and joins it if nobody claims what is right."""

PROVIDER_CONDUCTS = frozenset(STRATEGIES)
"""All that a provider can do about a job."""

WATCHER_CONDUCTS = frozenset(
    {FREE_RIDE, *(name for name, it in STRATEGIES.items() if not it.is_client)}
)
"""All that a watcher can do about a job, which somebody else has opened."""


def check_conduct(conduct: str) -> None:
    """Refuse what is no conduct of a provider."""
    if not is_conduct(conduct):
        raise UsageError.unknown("conduct", conduct, PROVIDER_CONDUCTS)


def check_shares(**shares: float) -> None:
    """Refuse what is not between 0 and 1."""
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share}, and not from 0 to 1")


@dataclass
class Strategy:
    """A strategy that does what is agreed, as a provider, and looks at nothing, as a watcher.

    A user's own is a dataclass that inherits from it. What it is asked, `bid` is in gwei; `decide`
    and `look` answer with a conduct, a name of `moot market --help`, or None to decline. One that
    raises, or does not answer in time, forfeits its answer.

    Example:
        >>> from dataclasses import dataclass
        >>> import moot
        >>> @dataclass
        ... class Careful(moot.Strategy):
        ...     limit: float = 0.05
        ...
        ...     def decide(self, job, own, stream):
        ...         return "lazy" if job.audit_rate < self.limit else "honest"
        >>> moot.simulate(providers=[("honest", 3), (Careful(), 2)], jobs=20).counts["failed"]
        0
    """

    learns: ClassVar[bool] = False
    """Whether what it does depends on what it has heard, so that a market needs a burn-in."""

    censor_share: float = field(init=False, repr=False, default=1.0)
    """Which share it pays of the price of keeping a call out of a block."""

    def bid(self, job: Job, own: Own) -> int:
        """Return the least for which the agent would run a job, in gwei: its costs."""
        return own.work_gwei + job.fee_gwei

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return a provider's conduct in a job, a name of `sim/strategies.py`; None to decline."""
        del job, own, stream
        return HONEST

    def pledge(self, job: Job, own: Own) -> Pledge:
        """Return how a provider signs the receipt of an answer, of a job by receipt."""
        del job, own
        return Pledge()

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return the conduct of a watcher that is shown a job.

        `watcher` to check it, `free-ride` to be paid and not check, a conduct that joins late, or
        None to do nothing, which is not paid.
        """
        del job, own, stream
        return None

    def hear(self, news: News) -> bool:
        """Learn what became of a job; return whether to leave the market."""
        del news
        return False
