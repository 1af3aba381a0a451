"""Moot's own tournament: claims meet in pairs, and of two that meet at most one goes on.

The bound is the protocol's. The measurement is a swarm of different lies against one honest
provider, with every call made, checked and in a block of its time.
"""

from dataclasses import dataclass

from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import UsageError
from moot.sim.swarm import draw_lies, open_model_swarm, open_swarm
from moot.sim.theory.dispute import MATCH_MOVES

SEED = 1


@dataclass(frozen=True, slots=True)
class Knockout:
    """What came of a job with one true claim and others that all differ.

    Attributes:
        claims: how many claims there were, the true one among them.
        has_won: whether the true one was left.
        meetings: how many others the true claim has met.
        matches: how many matches were begun in all.
        blocks: from the first match to the end of the job.
    """

    claims: int
    has_won: bool
    meetings: int
    matches: int
    blocks: int


def count_rounds(claims: int) -> int:
    """Return in how many rounds one claim is left: ceil(log2 claims).

    Raises:
        UsageError: there is no claim.
    """
    if claims < 1:
        raise UsageError(f"a tournament of {claims} claims has no winner; take at least 1")
    return (claims - 1).bit_length()


def bound_blocks(claims: int, stakes: Stakes) -> int:
    """Return the most blocks that a job takes after the first match may begin.

    A round lasts at most a window and a match, and a match both clocks and an increment a move.
    """
    match = 2 * stakes.clock_blocks + MATCH_MOVES * stakes.increment_blocks
    return count_rounds(claims) * (stakes.window_blocks + match)


def play(claims: int, *, is_on_chain: bool, seed: int = SEED) -> Knockout:
    """Play a job with so many different claims, of which one is true.

    Args:
        claims: how many, at least 2.
        is_on_chain: whether on the contract, in a chain in memory, or on the model.
        seed: where the lies are drawn from.

    Raises:
        UsageError: there is nobody to play against.
    """
    if claims < 2:
        raise UsageError(f"{claims} claims play no tournament; take at least 2")
    lies = draw_lies(claims - 1, seed)
    tally = (open_swarm(lies) if is_on_chain else open_model_swarm(lies)).play()
    return Knockout(claims, tally.has_won, tally.meetings, tally.matches, tally.blocks)
