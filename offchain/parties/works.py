"""The jobs that concern a party, as it keeps them in mind."""

from dataclasses import dataclass

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.serving import Stage
from moot.offchain.parties.turns import Seat
from moot.offchain.providers.store import Store


@dataclass
class Work:
    """A job that concerns the party.

    Attributes:
        job_id: its number.
        job: the job, as of the latest look.
        store: its files.
        standing: where the party's account stands in it.
        is_computing: whether the workshop has it.
        run: what was computed, once it was.
        seat: the seat at its table, once the party sits there; `is_closing` if it sits there only
            to collect, since the job was closed by then.
        joins_by: the last block in which the party may still join, if it sits there to join.
        problem: why it is not taken for now, as it was told last.
        tries: how often that was found, and `next_block` the block to look again.
        ended_block: when it was found closed, with nothing left to do, on the chain that is still
            the same: `returns` says how often it had been replaced by then.
        stage: up to which stage it is served.
    """

    job_id: int
    job: Job
    store: Store
    standing: Standing
    is_computing: bool = False
    run: Recalled | None = None
    seat: Seat | None = None
    is_closing: bool = False
    joins_by: int | None = None
    problem: str = ""
    tries: int = 0
    next_block: int = 0
    ended_block: int | None = None
    returns: int = 0
    stage: Stage = Stage.HIDDEN
