"""Clients' promises that what a job commits to can be had, on a chain: made, demanded, kept.

`offchain/disputes/availability.py` says who does what; this looks at the contract, and sends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.model.answers import MIN_DEPOSIT_WEI, make_subject
from contracts.model.types import Job
from contracts.reasons import DemandStatus, PromiseStatus
from offchain.disputes.availability import Asker, Place, Promised
from offchain.disputes.referee import Call
from offchain.disputes.shown import Shown
from offchain.parties.answers import Answers
from offchain.parties.live import Desk

ANSWER_SHARE = 2
"""A client promises to answer within one part in so many of the time to commit."""


@dataclass(frozen=True, slots=True)
class Demands:
    """How the demands of an account in a job stand.

    Attributes:
        is_due: whether one waits for its answer, or for its deposit.
        is_waiting: whether one may still be answered.
    """

    is_due: bool
    is_waiting: bool


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

    def read_shown(self, job_id: int, job: Job) -> list[Shown] | None:
        """Return what was shown of a job so far, proven or not; None where nothing is promised."""
        view = self.look(job_id, job)
        return None if view is None else self.read_shown_of(view.subject, job.opened_block)

    def demand(self, job_id: int, job: Job, missing: Sequence[Place], budget_wei: int) -> Demands:
        """Demand parts of a job, end a promise that is not kept, and take back what is owed.

        Args:
            job_id: the job.
            job: the job, as the chain has it.
            missing: what to demand, if it is not demanded yet.
            budget_wei: the most that the deposits may be together.

        Returns:
            How the own demands stand after that.
        """
        view = self.look(job_id, job)
        asker = Asker(self._desk.address, missing, budget_wei)
        if view is not None and (calls := [*asker.act(view)]):
            self.send(calls)
            view = self.look(job_id, job)
        return self._judge(view)

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs in which something is due of the own demands, as the chain says."""
        for job_id, job, _ in self._desk.referee.find_jobs():
            if self._judge(self.look(job_id, job)).is_due:
                yield job_id, job

    def _judge(self, view: Promised | None) -> Demands:
        """Return how the own demands in a job stand."""
        if view is None or view.promise.status is PromiseStatus.WITHDRAWN:
            return Demands(is_due=False, is_waiting=False)
        own = {it.status for it in view.demands.values() if it.asker == self._desk.address}
        is_waiting = view.promise.status is PromiseStatus.KEPT and DemandStatus.OPEN in own
        is_due = bool(own & {DemandStatus.OPEN, DemandStatus.UNANSWERED})
        return Demands(is_due=is_due, is_waiting=is_waiting)
