"""What an honest provider relies on: a sentence and a function each.

A function returns what did not hold in a game, or nothing. The invariants about money are judged
where all of these held.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moot.contracts.reasons import Standing
from moot.offchain.disputes.referee.crowds import count_censored
from tests.arena.names import HONEST
from tests.arena.records import BLOCK_GAS, GWEI

if TYPE_CHECKING:
    from tests.arena.world import World

TIP_WEI = GWEI


def cap_fees(world: "World") -> str:
    """A block takes what pays the highest fee that the provider was told."""
    ceiling_wei = int(world.settings.max_fee_gwei * GWEI)
    highest_wei = max(block.base_fee_wei for block in world.chain.blocks)
    is_met = highest_wei + TIP_WEI <= ceiling_wei
    return "" if is_met else f"the base fee came to {highest_wei / GWEI:.3g} gwei"


def cap_censorship(world: "World") -> str:
    """A call is kept out of no more blocks than reward and prize would pay for."""
    kept_out, terms = world.chain.kept_out.get(HONEST, 0), world.main
    gain_wei = world.story.terms.reward_wei + terms.prize_wei
    most = count_censored(gain_wei, block_gas=BLOCK_GAS)
    return "" if kept_out <= most else f"{kept_out} blocks kept it out, more than {most}"


def cap_depth(world: "World") -> str:
    """No reorganisation is as deep as the provider's confirmations."""
    depth = world.chain.reorganised
    return "" if depth < world.settings.confirmations else f"{depth} blocks were replaced"


def cap_crowd(world: "World") -> str:
    """No more members claim something else than the provider was told to fear."""
    others = [
        member
        for (job_id, address), member in world.chain.ledger.store.members.items()
        if job_id == 0 and address != HONEST
    ]
    liars = sum(it.standing is not Standing.NONE for it in others)
    return "" if liars <= world.settings.crowd else f"{liars} others have joined"


ASSUMPTIONS: dict[str, Callable[["World"], str]] = {
    "fees": cap_fees,
    "censorship": cap_censorship,
    "reorganisations": cap_depth,
    "crowd": cap_crowd,
}
"""Beside these the provider relies on what a game is made of: blocks come every twelve seconds, one
node says what is true, its key and its disk are its own, and no step of a program takes longer
than the worst rates that were measured."""


def find_broken(world: "World") -> str:
    """Return which assumption did not hold; nothing if all did."""
    return next((line for holds in ASSUMPTIONS.values() if (line := holds(world))), "")
