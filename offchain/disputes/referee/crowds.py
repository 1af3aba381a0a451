"""The largest crowd of liars that one honest provider can answer, and the clocks that it needs.

The derivation is in `docs/explanation/protocol.md`, under *Crowds*.
"""

from bisect import bisect_left
from dataclasses import dataclass

from moot.contracts.model.types import MAX_BLOCKS
from moot.offchain.chain.accounts.fees import GWEI, SLOWNESS
from moot.offchain.disputes.referee.gas import MOST_SIDE_MOVES, MOVE_GAS

BLOCK_GAS_SHARE = 2
"""Whoever sends counts on one part in so many of a block's gas: the other side moves, too."""
ELASTICITY = 2
"""Parts of a block of which one is its target (EIP-1559)."""
TIP_WEI = GWEI
"""The tip of an honest party, which a censor has to exceed."""
CALM_FEE_WEI = GWEI
"""The base fee at which a censor is thought to begin: the lower, the cheaper it is."""
SIDE_MOVES = 22
"""Of the 43 moves that a match can have in `ordered`, one side makes no more than so many."""


def count_calls(block_gas: int) -> int:
    """Return in how many calls a block one sender can count on, given the gas of a block.

    A block has room for a call where it has room for all that the call is offered.
    """
    return max(1, block_gas // BLOCK_GAS_SHARE // MOVE_GAS)


def count_censored(
    purse_wei: int,
    *,
    block_gas: int,
    offered_gas: int = MOVE_GAS,
    base_fee_wei: int = CALM_FEE_WEI,
) -> int:
    """Return for how many blocks so much money keeps a call out of the chain.

    Each block is filled so far that it has no room for what the call is offered, at a tip above
    its own. The base fee goes up and down with what a block has beyond its target (EIP-1559).

    Args:
        purse_wei: what the censor spends.
        block_gas: the gas of a block.
        offered_gas: what the call is offered.
        base_fee_wei: the base fee of the first of these blocks.
    """
    filled, target, blocks = max(0, block_gas - offered_gas + 1), block_gas // ELASTICITY, 0
    while blocks < MAX_BLOCKS:
        purse_wei -= filled * (base_fee_wei + TIP_WEI + 1)
        if purse_wei < 0:
            break
        blocks += 1
        change = base_fee_wei * abs(filled - target) // target // SLOWNESS
        base_fee_wei += max(1, change) if filled > target else -change
    return blocks


def count_lost(
    gain_wei: int, *, block_gas: int, confirmations: int, offered_gas: int = MOVE_GAS
) -> int:
    """Return the blocks of a time to act that an adversary may take.

    What there is to gain pays for keeping a call out of so many, and a reorganisation may take
    those that have the call in them.
    """
    censored = count_censored(gain_wei, block_gas=block_gas, offered_gas=offered_gas)
    return censored + confirmations


def count_hidden(reveal_blocks: int, lost_blocks: int, confirmations: int) -> int:
    """Return for how many blocks a claim stays hidden though it can be shown.

    Whoever reads a claim that waits to be shown, and replaces the blocks since the last one to
    commit in, could commit to it, too. So it is shown once no reorganisation goes back so far, as
    far as enough of the time to show it is left.
    """
    return max(0, min(confirmations - 1, reveal_blocks - lost_blocks))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a side answers.

    Attributes:
        calls: how many of its calls get into a block.
        delay_blocks: from the block of the other side's move to the first that may have its answer;
            1 where it is in the next.
    """

    calls: int
    delay_blocks: int = 2


def count_withstood(clock_blocks: int, increment_blocks: int, pace: Pace) -> int:
    """Return how many matches at once a side never loses by its clocks, however the others play.

    It answers in the order in which its clocks run out. A clock is no shorter than its increment.
    """
    return max(
        _count_for_ever(clock_blocks, increment_blocks, pace),
        _count_in_all(clock_blocks, increment_blocks, pace),
    )


def _count_for_ever(clock_blocks: int, increment_blocks: int, pace: Pace) -> int:
    """Return the number for matches of any length, in which increments make up for waiting."""
    calls, usable = pace.calls, clock_blocks - pace.delay_blocks + 1
    spare = increment_blocks - pace.delay_blocks + 1
    if spare < 1:
        return 0
    return min(calls * spare, calls * usable * increment_blocks // (usable + increment_blocks - 1))


def _count_in_all(clock_blocks: int, increment_blocks: int, pace: Pace) -> int:
    """Return the number that is bounded by all moves that there can be in all matches."""
    credit = clock_blocks + (MOST_SIDE_MOVES - 1) * min(increment_blocks, pace.delay_blocks)
    idle_blocks = credit - MOST_SIDE_MOVES * pace.delay_blocks
    if idle_blocks < 0:
        return 0
    return 1 + (pace.calls * (idle_blocks + 1) - 1) // MOST_SIDE_MOVES


def calculate_least_clock(crowd: int, increment_blocks: int, pace: Pace) -> int:
    """Return the shortest clock, in blocks, with which a side withstands so many matches at once.

    It may be above MAX_BLOCKS, the longest that a job can have, and is twice that where no shorter
    one is enough.
    """
    clocks = range(increment_blocks, 2 * MAX_BLOCKS)
    return increment_blocks + bisect_left(
        clocks, crowd, key=lambda clock: count_withstood(clock, increment_blocks, pace)
    )
