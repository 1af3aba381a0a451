"""Delays: what a case comes to if some of its calls have waited for a block.

A wait that costs nobody its time only moves what follows, and that is reckoned here. Any other has
to be played; then so do those of tricks, of several matches, and of the verifier, who may act
otherwise because of it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from moot.sim.economy.cases import Case, Lineup, Move
from moot.sim.economy.casting import STAKES
from moot.sim.economy.strategies.base import WATCHER
from moot.sim.strategies import STRATEGIES, TRICKS

PAYOUT = "payout"
"""The stage of calls that have all the time in the world."""

_LAST_COMMIT = STAKES.commit_blocks
_LAST_REVEAL = _LAST_COMMIT + STAKES.reveal_blocks
_DEADLINES = {
    "commit": _LAST_COMMIT,
    "reveal": _LAST_REVEAL,
    "join": _LAST_REVEAL + STAKES.window_blocks,
}
"""The last block of a case in which a call that joins is taken."""

_MATCH = ("history", "trace", "tensor", "fold", "leaf")


def delay(case: Case, lineup: Lineup, first: int, end: int) -> Case | None:
    """Return a case in which no call from block `first` on gets into a block before `end`.

    Args:
        case: as it would be without this wait.
        lineup: the conducts of all who take part.
        first: the block of the first call that waits, after the opening of the job.
        end: the first block in which one gets in.

    Returns:
        The case with its calls moved, in which all else is as it was; None if it has to be played.
    """
    late = [move for move in case.moves if first <= move.block < end]
    if any(end > _DEADLINES.get(move.call, end) for move in late):
        return None
    names = {move.call for move in late}
    if names in ({"commit"}, {"reveal"}):
        moved = [_put(move, end) if first <= move.block < end else move for move in case.moves]
        return replace(case, moves=tuple(moved))
    if all(move.stage == PAYOUT for move in late):
        shift = end - first
        moved = [_put(it, it.block + shift) if it.block >= first else it for it in case.moves]
        return replace(case, moves=tuple(moved), blocks=case.blocks + shift)
    if not _is_plain(case, lineup):
        return None
    moves = list(_shift(case.moves, first, end - first))
    if not _all_in_time(moves):
        return None
    return replace(case, moves=tuple(moves), blocks=moves[-1].block + 1)


def _put(move: Move, block: int) -> Move:
    return replace(move, block=block)


def _is_plain(case: Case, lineup: Lineup) -> bool:
    """Whether a case has one match at most, and nobody in it who makes anything of a delay."""
    calls = [move.call for move in case.moves]
    plain = all(it in STRATEGIES and (it not in TRICKS or it == WATCHER) for it in lineup)
    return plain and calls.count("start_match") <= 1 and "rule" not in calls


def _shift(moves: Iterable[Move], first: int, shift: int) -> Iterator[Move]:
    """Yield the moves with those from a block on moved; payouts no later than they have to be."""
    last, paid = 0, None
    for move in moves:
        block = move.block
        if move.stage == PAYOUT:
            if paid is None:
                paid = max(0, last + 1 - block)
            block += paid
        elif block >= first:
            block += shift
        last = block
        yield _put(move, block)


def _all_in_time(moves: Iterable[Move]) -> bool:
    """Whether everybody who moves in a case's only match does so before its clock has run out."""
    left: dict[str, int] = {}
    since = 0
    for move in moves:
        if move.call == "start_match":
            since = move.block
        elif move.stage in _MATCH and move.call != "timeout":
            spare = left.get(move.player, STAKES.clock_blocks) - (move.block - since)
            if spare < 0:
                return False
            left[move.player] = min(STAKES.clock_blocks, spare + STAKES.increment_blocks)
            since = move.block
    return True


def count_missed(planned: Case, case: Case) -> int:
    """Return how many accounts have come too late in a case because of its waits.

    Args:
        planned: the case without any wait.
        case: the same with its waits.
    """
    old, new = ([move.call for move in it.moves] for it in (planned, case))
    commits = old.count("commit") - new.count("commit")
    missed = max(0, commits) + max(0, case.hidden - planned.hidden)
    missed += max(0, new.count("timeout") - old.count("timeout"))
    if not missed:
        missed = max(0, old.count("join") - new.count("join"))
    return missed
