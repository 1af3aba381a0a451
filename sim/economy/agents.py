"""The agents of a simulated market: who they are, what they can do, and what they have done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappush, heapreplace

from moot.sim.economy.config import GWEI, Group
from moot.sim.economy.guard import Guard
from moot.sim.economy.plugins import is_user
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream


@dataclass(slots=True, eq=False)
class Agent:
    """An agent, and the counts of what it has done.

    Attributes:
        number: of its account.
        name: its strategy's name and a number.
        role: client, provider or watcher.
        strategy_name: as configured.
        strategy: what it does.
        stream: what it draws from.
        entered: the block in which it came.
        reputation: from 0 to 1.
        rated: the block in which that was updated.
        work_gwei: what work costs it now.
        usual_work_gwei: the same where no hardware is dearer or cheaper than usual.
        ends: the blocks in which its slots are free again, as a heap; of slots never used, none.
        is_guarded: whether its strategy is a user's, which may raise, or never answer.
        complain: is told why an answer is a forfeit.
        bids: whether it has to be asked for its bid, which is its costs if not.
        pledges: whether it has to be asked how it signs receipts, which is honestly if not.
        hears: whether it wants to know what became of its jobs.
    """

    number: int
    name: str
    role: str
    strategy_name: str
    strategy: Strategy
    stream: Stream
    entered: int = 0
    reputation: float = 0.0
    work_gwei: int = 0
    usual_work_gwei: int = 0
    blocks: int = 0
    slots: int = 0
    capital_gwei: int = 0
    complain: Callable[[str], None] = lambda _: None
    is_guarded: bool = False
    rated: int = 0
    ends: list[int] = field(default_factory=list)
    jobs: int = 0
    slashed: int = 0
    forfeits: int = 0
    earned_gwei: int = 0
    capital_cost_gwei: int = 0
    left: int | None = None
    is_bankrupt: bool = False
    place: int = -1
    bids: bool = field(init=False)
    pledges: bool = field(init=False)
    hears: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.is_guarded:
            self.strategy = Guard(self.strategy, self.forfeit)
        kind = type(self.strategy)
        self.bids, self.hears = kind.bid is not Strategy.bid, kind.hear is not Strategy.hear
        self.pledges = kind.pledge is not Strategy.pledge

    def has_slot(self, block: int) -> bool:
        """Return whether it has a slot that is free in a block, and from then on."""
        return len(self.ends) < self.slots or self.ends[0] <= block

    def hold(self, first: int, end: int) -> None:
        """Hold a slot from a block to another, which it has; nothing if there is none between."""
        if end <= first:
            return
        if self.ends and self.ends[0] <= first:
            heapreplace(self.ends, end)
        else:
            heappush(self.ends, end)

    def forfeit(self, why: str) -> None:
        """Count an answer that is none, or that it can't pay for, and say why."""
        self.forfeits += 1
        self.complain(why)


def make_agent(
    number: int, ordinal: int, role: str, group: Group, strategy: Strategy, seed: int
) -> Agent:
    """Return an agent of a group.

    Args:
        number: of its account.
        ordinal: which of its group it is, from 1.
        role: provider or watcher.
        group: its group.
        strategy: its own.
        seed: of the run; its stream depends on that, its role, its strategy and its ordinal alone,
            whoever else is there.
    """
    short = group.strategy.rpartition("/")[2].replace(".py:", "-")
    return Agent(
        number=number,
        name=f"{short}-{ordinal}",
        role=role,
        strategy_name=group.strategy,
        strategy=strategy,
        stream=Stream(seed, f"{role} {group.strategy}", ordinal),
        usual_work_gwei=round(group.work_eth * GWEI),
        blocks=group.blocks,
        slots=group.slots,
        capital_gwei=round(group.capital_eth * GWEI),
        is_guarded=is_user(group.strategy),
    )
