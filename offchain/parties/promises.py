"""Clients' promises that what a job commits to can be had, on a chain: made, demanded, kept.

`offchain/disputes/availability.py` says who does what; this looks at the contract, and sends.
"""

from collections.abc import Iterator, Sequence

from contracts.model.answers import MIN_DEPOSIT_WEI
from contracts.model.types import Job
from contracts.reasons import DemandStatus, Part, PromiseStatus
from offchain.commitments.tree import Digest
from offchain.datastore.objects import (
    BATCHES,
    STATES,
    TENSORS,
    compute_batches_root,
    name_object,
)
from offchain.datastore.store import DataStore, open_store
from offchain.disputes.availability import Asker, Place, Promised, make_subject
from offchain.disputes.referee import Call
from offchain.errors import StoreError
from offchain.parties.answers import Answers
from offchain.parties.live import Desk
from offchain.providers.publication import get_program
from offchain.providers.store import Store

ANSWER_SHARE = 2
"""A client promises to answer within one part in so many of the time to commit."""
MOST_DEMANDS = 16
"""A provider demands so many parts of a job at once."""


class Promises(Answers):
    """The contract of promises, as a party uses it for one referee's jobs.

    Args:
        desk: where the party works; its settings say where the contract is.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, "availability")

    def look(self, job_id: int, job: Job) -> Promised | None:
        """Return what the chain shows of the promise about a job; None if there is none."""
        subject = make_subject(job.terms, self._desk.referee.address, job_id)
        return self.look_at(subject, job.opened_block)

    def make(self, job_id: int, job: Job, bond_wei: int) -> None:
        """Promise that a job's program, start and data can be had until nobody can join any more.

        Raises:
            ChainError: the promise is not accepted.
        """
        terms = job.terms
        last = job.reveal_deadline + terms.window_blocks
        subject = make_subject(terms, self._desk.referee.address, job_id)
        answer_blocks = max(1, terms.commit_blocks // ANSWER_SHARE)
        args = (subject, MIN_DEPOSIT_WEI, answer_blocks, last)
        for problem in self.send([Call("promise", self._desk.address, args, bond_wei)]):
            raise problem

    def demand(self, job_id: int, job: Job, missing: Sequence[Place], budget_wei: int) -> bool:
        """Demand parts of a job, end a promise that is not kept, and take back what is owed.

        Args:
            job_id: the job.
            job: the job, as the chain has it.
            missing: what to demand, if it is not demanded yet.
            budget_wei: the most that the deposits may be together.

        Returns:
            Whether something is still due of the own demands.
        """
        view = self.look(job_id, job)
        if view is None:
            return False
        self.send(Asker(self._desk.address, missing, budget_wei).act(view))
        return self._is_due(job_id, job)

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs in which something is due of the own demands, as the chain says."""
        for job_id, job, _ in self._desk.referee.find_jobs():
            if self._is_due(job_id, job):
                yield job_id, job

    def _is_due(self, job_id: int, job: Job) -> bool:
        """Whether a demand of one's own in a job waits for its answer, or for its deposit."""
        view = self.look(job_id, job)
        if view is None or view.promise.status is PromiseStatus.WITHDRAWN:
            return False
        due = {DemandStatus.OPEN, DemandStatus.UNANSWERED}
        own = [it for it in view.demands.values() if it.asker == self._desk.address]
        return any(it.status in due for it in own)


def find_missing(store: Store, job: Job) -> list[Place]:
    """Return places of some parts of a job that a store's folder lacks, a few at most.

    Where even the program or a list of tensors is missing, its first parts stand for it.
    """
    terms = job.terms
    local = open_store(str(store.path))
    try:
        program = get_program(local, terms)
    except StoreError:
        return [(Part.PROGRAM.value, it, 0) for it in range(min(terms.operators, MOST_DEMANDS))]
    count = terms.steps * len(program.batch)
    batches = compute_batches_root(count, terms.data_top) if count else b""
    wanted = (
        (Part.START, STATES, terms.start_root, len(program.state)),
        (Part.DATA, BATCHES, batches, count),
    )
    missing = [place for it in wanted if it[-1] for place in _list_missing(local, *it)]
    return missing[:MOST_DEMANDS]


def _list_missing(
    store: DataStore, part: Part, kind: str, root: Digest, count: int
) -> Iterator[Place]:
    """Yield the first chunk of each tensor of a list that a folder does not have."""
    try:
        roots = store.get_roots(kind, root, count)
    except StoreError:
        yield from ((part.value, index, 0) for index in range(min(count, MOST_DEMANDS)))
        return
    for index, tensor in enumerate(roots):
        if store.disk.get_size(name_object(TENSORS, tensor)) is None:
            yield part.value, index, 0
