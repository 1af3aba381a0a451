"""The weakness of a receipt's terms: sound ones, too, may leave nobody the time to challenge it.

The service takes any clocks: what a client relies on, and what a challenger bonds on, it has to
look at itself.
"""

from collections.abc import Iterator

from moot.contracts.model.receipts import Receipt
from moot.offchain.disputes.joining.conditions import bound_locked_blocks
from moot.offchain.disputes.referee.crowds import Pace, count_withstood

LEAST_BLOCKS = 16
"""The shortest time in which a receipt may be challenged, and others may join that."""
MOST_LOCKED_BLOCKS = 50_400
"""The longest that a bond may be locked in a challenge: a week of blocks of 12 seconds."""
ANNOUNCING_BLOCKS = 3
"""Blocks that an announcement and the challenge after it take, at the least."""


def list_weaknesses(receipt: Receipt) -> Iterator[str]:
    """Yield why nobody should rely on a challenge of a receipt, nor bond on one."""
    lives = receipt.last_block - receipt.issued_block
    if lives < LEAST_BLOCKS:
        yield (
            f"it may be challenged for {lives} blocks, and nobody is sure to within {LEAST_BLOCKS}"
        )
    if receipt.window_blocks < LEAST_BLOCKS:
        yield (
            f"others may join a challenge for {receipt.window_blocks} blocks, and nobody is sure "
            f"to within {LEAST_BLOCKS}"
        )
    clocks = receipt.clock_blocks, receipt.increment_blocks
    if not count_withstood(*clocks, Pace(calls=1)):
        yield (
            f"a side has {clocks[0]} blocks and {clocks[1]} more for each move, in which nobody "
            "is sure to answer"
        )
    locked = bound_locked_blocks(receipt.make_terms(receipt.stake_wei), 1)
    if locked > MOST_LOCKED_BLOCKS:
        yield (
            f"a challenge may lock its bonds for {locked:,} blocks, more than "
            f"{MOST_LOCKED_BLOCKS:,}"
        )
