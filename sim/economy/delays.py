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
    if _is_too_late(late, end) or not _is_plain(lineup):
        return None
    shift = end - first
    if {move.call for move in late} in ({"commit"}, {"reveal"}):
        moves = [_put(move, end) if first <= move.block < end else move for move in case.moves]
        return replace(case, moves=tuple(moves))
    if all(move.stage == PAYOUT for move in late):
        moves = [_put(it, it.block + shift) if it.block >= first else it for it in case.moves]
        return replace(case, moves=tuple(moves), blocks=case.blocks + shift)
    moves = list(_shift(case.moves, first, shift))
    is_settled = _has_one_match(case) and _all_in_time(moves)
    return replace(case, moves=tuple(moves), blocks=moves[-1].block + 1) if is_settled else None


def _is_too_late(late: Iterable[Move], end: int) -> bool:
    """Whether one of the calls that wait joins the job, and may not do so any more."""
    return any(end > _DEADLINES.get(move.call, end) for move in late)


def _is_plain(lineup: Lineup) -> bool:
    """Whether nobody takes part who looks at what others do, and may make something of a delay."""
    return all(it in STRATEGIES and (it not in TRICKS or it == WATCHER) for it in lineup)


def _has_one_match(case: Case) -> bool:
    """Whether a case has one match, or none, and no leaf on which a verifier rules."""
    calls = [move.call for move in case.moves]
    return calls.count("start_match") <= 1 and "rule" not in calls


def _put(move: Move, block: int) -> Move:
    return replace(move, block=block)


def _shift(moves: Iterable[Move], first: int, shift: int) -> Iterator[Move]:
    """Yield the moves with those from a block on moved; payouts no later than they have to be.

    A job is settled after its last move, and after the window that the meeting of claims opens.
    """
    last = window_end = 0
    paid = None
    for move in moves:
        block = move.block
        if move.stage == PAYOUT:
            if paid is None:
                paid = max(0, max(last, window_end) + 1 - block)
            block += paid
        elif block >= first:
            block += shift
        last = block
        if move.call == "start_match":
            window_end = block + STAKES.window_blocks
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
