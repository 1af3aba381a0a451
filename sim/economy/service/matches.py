"""Matches of challenges, played move by move on the contract's model by runs that lie or don't."""

from collections.abc import Mapping, Sequence
from functools import cache

from moot.contracts.model import challenges
from moot.contracts.model.types import Address, Event, Message, Pair, Store
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.play.players import find_move
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.sim.synthetic.products import Lie, ProductRun, Size, make_task

SIZE = Size(checkpoints=1, checkpoint_every=5, operators=9, rows=8, columns=16, terms=70)
"""One checkpoint, after the last of a few steps, as answers have it."""

LIES = (Lie(step=3, operator=4, element=77, term=33), Lie(step=1, operator=3, element=5, term=60))
"""The lie of a provider, and that of a frivolous challenger."""


@cache
def make_run(lie: int | None) -> ProductRun:
    """Return the run of an answer: one of the lies, or the truth."""
    return ProductRun(make_task(SIZE, ORDERED), None if lie is None else LIES[lie])


def play_match(
    store: Store, job_id: int, runs: Mapping[Address, ProductRun], events: Sequence[Event]
) -> int:
    """Play a job's only match to its end, and close the job.

    Args:
        store: of the model.
        job_id: the job.
        runs: of both members.
        events: of the job's entrance.

    Returns:
        The block of its end.
    """
    job = store.jobs[job_id]
    tournament = Tournament(job_id, job.terms, store.arithmetic)
    log = list(events)
    tournament.read(log)
    ((pair, _),) = tournament.boards.items()
    block = job.window_end - job.terms.window_blocks
    while pair in store.matches:
        block += 1
        sender, name, args = _choose(tournament.boards[pair], pair, runs, job_id, store)
        log += challenges.call(store, name, Message(sender, 0, block), *args)
        tournament.read(log)
    block = max(block, store.jobs[job_id].window_end + 1)
    top = next(iter(tournament.contenders.values()))
    challenges.call(store, "settle", Message(pair.first, 0, block), job_id, top)
    return block


def _choose(
    board: Board, pair: Pair, runs: Mapping[Address, ProductRun], job_id: int, store: Store
) -> tuple[Address, str, tuple[object, ...]]:
    """Return who moves next, and with which call."""
    terms, members = store.jobs[job_id].terms, (pair.first, pair.second)
    mover = board.position.mover
    for side in (mover, 1 - mover):
        move = find_move(runs[members[side]], terms, board, side)
        if move is not None:
            return members[side], move.call, (pair, board.position, *move.args)
    assert board.position.phase is Phase.LEAF, "nobody has a move"
    run = runs[members[mover]]
    leaf = make_leaf(run, board.facts)
    encoding = run.task.commitment.encodings[board.facts.operator]
    proofs = (leaf.before, leaf.before_proof, leaf.evidence)
    return members[mover], "leaf", (pair, board.position, board.facts, mover, encoding, *proofs)
