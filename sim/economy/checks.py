"""The time of a check: when it begins, how long it may take, and what it delays.

A check begins in the block in which claims are shown, and ends in a call that joins the job, which
has to come before the job's window has closed. Until it ends it holds a slot of its watcher.
"""

from moot.sim.economy.casting import STAKES

SHOWN_BLOCKS = STAKES.commit_blocks + 1
"""Blocks from the opening of a job to the first in which a claim can be shown."""

SOON_BLOCKS = STAKES.reveal_blocks
"""What a check may take to be ready for the first block in which one may join."""

MOST_BLOCKS = STAKES.reveal_blocks + STAKES.window_blocks - 1
"""What it may take to be ready for the last one: a claim can be challenged no longer."""


def is_late(blocks: int) -> bool:
    """Return whether a check that takes so many blocks can join no dispute."""
    return blocks > MOST_BLOCKS


def count_delay(blocks: int) -> int:
    """Return by how many blocks a check in time makes the dispute begin later than it could."""
    return max(0, blocks - SOON_BLOCKS)
