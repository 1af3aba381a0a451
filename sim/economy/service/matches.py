"""Matches of challenges, played move by move on the contract's model by runs that lie or don't."""

from collections.abc import Mapping, Sequence
from functools import cache

from moot.contracts.model import challenges
from moot.contracts.model.types import Address, Event, Message, Store
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.play.tournament import Tournament
from moot.sim.synthetic.calls import find_call
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
        made = find_call(runs, job.terms, tournament.boards[pair])
        log += challenges.call(store, made.name, Message(made.sender, 0, block), *made.args)
        tournament.read(log)
    block = max(block, store.jobs[job_id].window_end + 1)
    top = next(iter(tournament.contenders.values()))
    challenges.call(store, "settle", Message(pair.first, 0, block), job_id, top)
    return block
