"""The clocks of a dispute in seconds, on a chain whose blocks have their own length."""

from dataclasses import dataclass
from math import ceil

from moot.offchain.disputes.referee.crowds import SIDE_MOVES
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.sim.chains.chain import Chain


@dataclass(frozen=True, slots=True)
class Clocks:
    """The times of a job on a chain, in seconds.

    Attributes:
        joining_s: to commit to a claim and to show it.
        clock_s: what one side has for all of its moves, without increments.
        longest_s: from the opening of a job to the end of its longest match, if both sides take all
            the time that they have.
        least_blocks: blocks that every time to act needs above those for the call itself, because a
            sequencer alone may keep it out of so many; 0 on a chain without one.
    """

    joining_s: float
    clock_s: float
    longest_s: float
    least_blocks: int

    def covers(self, stakes: Stakes = USUAL) -> bool:
        """Return whether a job's times to act outlast a sequencer that keeps calls out."""
        times = (stakes.commit_blocks, stakes.reveal_blocks, stakes.clock_blocks)
        return min(times) > self.least_blocks


def measure_clocks(chain: Chain, stakes: Stakes = USUAL) -> Clocks:
    """Return the times of a job with these clocks on a chain."""
    second = chain.block.number_seconds
    joining = stakes.commit_blocks + stakes.reveal_blocks
    side = stakes.clock_blocks + (SIDE_MOVES - 1) * stakes.increment_blocks
    return Clocks(
        joining_s=joining * second,
        clock_s=stakes.clock_blocks * second,
        longest_s=(joining + stakes.window_blocks + 2 * side) * second,
        least_blocks=ceil(chain.delay.force_inclusion_s / second),
    )
