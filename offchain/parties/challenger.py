"""A challenger: an auditor that takes what it has found of a training to the chain."""

from collections.abc import Sequence

from moot.contracts.model.types import Job
from moot.contracts.reasons import Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import compute_batches_root
from moot.offchain.errors import UsageError
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.daemon import play_one
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.turns import Seat
from moot.offchain.parties.watcher import Watcher
from moot.offchain.parties.works import Work
from moot.offchain.providers.publication import list_headers
from moot.offchain.training.claim import Claim


class Challenger(Watcher):
    """A watcher of one job, which ends with it.

    Args:
        context: where it works.
        jobs: the job.
    """

    def __init__(self, context: PartyContext, jobs: Sequence[int]) -> None:
        super().__init__(context, jobs, 1.0)

    def observe(self, work: Work, seat: Seat) -> None:
        """See Watcher; a job in which nobody has claimed anything is left when none can be."""
        super().observe(work, seat)
        last = work.job.reveal_deadline + work.job.terms.window_blocks
        if seat.view.block > last and not seat.view.tournament.get_claims():
            self.leave(work, "nobody has claimed anything in it")

    def leave(self, work: Work, problem: str = "") -> None:
        """See PartyDaemon; with the job's end this one's work is over."""
        super().leave(work, problem)
        if self._is_watched(work.job_id):
            self.end_with(work)


def challenge(settings: Settings, tell: Tell, job_id: int, claim: Claim) -> bool:
    """Join a job with the right claim, defend it to the job's end, and return whether it has won.

    The job is run again as a whole, since its history is what is claimed. Where nobody has claimed
    anything wrong, nothing is bonded.

    Args:
        settings: the party's: the chain, the referee, a key, a store and a folder.
        tell: takes events.
        job_id: the job.
        claim: what was claimed of the training that was audited.

    Raises:
        UsageError: the job is about something else, or a setting is missing.
        ChainError, StoreError: the chain or the disk fails.
    """

    def make(context: PartyContext) -> Challenger:
        require_about(job_id, context.find_job(job_id), claim)
        return Challenger(context, [job_id])

    return play_one(make, settings, tell)


def require_about(job_id: int, job: Job, claim: Claim) -> None:
    """Refuse a job that is closed, or not about the training of a claim (`UsageError`)."""
    if job.status is not Status.OPEN:
        name = job.status.name.lower()
        raise UsageError(f"job {job_id} is {name} already; only an open one can be joined")
    terms = job.terms
    data: Digest = bytes(32)
    if terms.batch_slots:
        data = compute_batches_root(terms.steps * terms.batch_slots, terms.data_top)
    differing = {
        "program": claim.program not in {header.root for header in list_headers(terms)},
        "start": claim.start != terms.start_root,
        "data": claim.data != data,
        "number of steps": claim.steps != terms.steps,
        "checkpoints": claim.checkpoint_every != terms.checkpoint_every,
    }
    for what, is_other in differing.items():
        if is_other:
            raise UsageError(f"job {job_id} is not about this training: its {what} is another")
