"""Clients' promises that what a job commits to can be had, on a chain: made, demanded, kept.

`offchain/disputes/availability/demands.py` says who does what; this looks at the contract, and
sends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from moot.contracts.model.abi import unpack_promise
from moot.contracts.model.answers import (
    MIN_BOND_DEPOSITS,
    MIN_DEPOSIT_WEI,
    Promise,
    Subject,
    hash_subject,
    make_subject,
)
from moot.contracts.model.types import Job
from moot.contracts.reasons import DemandStatus, PromiseStatus
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.availability.calldata import Shown
from moot.offchain.disputes.availability.demands import Asker, Lack, Promised, calculate_share
from moot.offchain.disputes.referee.port import Call
from moot.offchain.parties.answers import Answers, choose_deposit
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.purse import BUDGET_BLOCKS, Purse
from moot.offchain.parties.settings import to_wei

ANSWER_SHARE = 4
"""A client promises to answer within one part in so many of the time to commit."""
MOST_CALLS = 16
"""So many calls about demands are made in one block, upon all promises."""


@dataclass(frozen=True, slots=True)
class Demands:
    """How the demands of an account in a job stand.

    Attributes:
        is_due: whether one waits for its answer, or for its deposit.
        is_waiting: whether one may still be answered.
        problem: why what is lacking is not demanded.
    """

    is_due: bool
    is_waiting: bool
    problem: str = ""


class Promises(Answers):
    """The contract of promises, as a party uses it for one referee's jobs.

    Args:
        context: where the party works; its settings say where the contract is.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, context: PartyContext) -> None:
        super().__init__(context, "availability")
        self._purse: Purse | None = None
        self._past: set[Digest] = set()

    def look(self, job_id: int, job: Job) -> Promised | None:
        """Return what the chain shows of the promise about a job; None if there is none."""
        subject = self._name(job_id, job)
        return self.look_at({subject: job.opened_block}).get(subject)

    def read(self, job_id: int, job: Job) -> Promise | None:
        """Return the promise about a job without the demands upon it; None if there is none."""
        name = hash_subject(self._name(job_id, job))
        return unpack_promise(self._log.ask([("promises", (name,))])[0])

    def make(self, job_id: int, job: Job, bond_wei: int) -> None:
        """Promise that a job's program, start and data can be had until nobody can join any more.

        Raises:
            ChainError: the promise is not accepted.
        """
        terms = job.terms
        last = job.reveal_deadline + terms.window_blocks
        answer_blocks = max(1, terms.commit_blocks // ANSWER_SHARE)
        deposit_wei = choose_deposit(self._context.settings.max_fee_gwei)
        deposit_wei = max(MIN_DEPOSIT_WEI, min(deposit_wei, bond_wei // MIN_BOND_DEPOSITS))
        args = (self._name(job_id, job), deposit_wei, answer_blocks, last)
        for problem in self.send([Call("promise", self._context.address, args, bond_wei)]):
            raise problem

    def read_shown(self, job_id: int, job: Job) -> list[Shown] | None:
        """Return what was shown of a job so far, proven or not; None where nothing is promised."""
        if self.read(job_id, job) is None:
            return None
        return self.read_shown_of(self._name(job_id, job), job.opened_block)

    def act(self, jobs: Mapping[int, Job], lacks: Mapping[int, Lack]) -> dict[int, Demands]:
        """Demand parts of jobs, end promises that are not kept, and take back what is owed.

        It looks at all promises in one exchange, and makes a few calls, all at once. What demands
        cost is bounded in each job, by a share of its reward, and in all together.

        Args:
            jobs: all in which there may be something to do.
            lacks: what to demand of some of them, if it is not demanded yet.

        Returns:
            How the own demands stand, those included that were made now.
        """
        subjects = {job_id: self._name(job_id, job) for job_id, job in jobs.items()}
        firsts = {subjects[job_id]: job.opened_block for job_id, job in jobs.items()}
        views = self.look_at(firsts)
        purse = self._open_purse()
        purse.see(views.values())
        calls: list[Call] = []
        found: dict[int, Demands] = {}
        for job_id, job in jobs.items():
            view, lack = views.get(subjects[job_id]), lacks.get(job_id, Lack())
            if view is None:
                found[job_id] = Demands(is_due=False, is_waiting=False)
                continue
            asker = self._make_asker(view, job, lack)
            planned = [*asker.act(view)][: MOST_CALLS - len(calls)]
            if not self._can_pay():
                planned = []
            calls += planned
            for call in planned:
                if call.name == "demand":
                    place = call.args[1:4]
                    purse.pay(hash_subject(view.subject), place, view.block, call.value_wei)
            found[job_id] = self._judge(view, planned, asker.explain_refusal(view))
        self.send(calls)
        return found

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs in which something may be due of the own demands, as the chain says."""
        self._open_purse()
        if not self._past:
            return
        for job_id, job, _ in self._context.referee.find_jobs():
            if hash_subject(self._name(job_id, job)) in self._past:
                yield job_id, job

    def _name(self, job_id: int, job: Job) -> Subject:
        return make_subject(job.terms, self._context.referee.address, job_id)

    def _make_asker(self, view: Promised, job: Job, lack: Lack) -> Asker:
        """Return the asker of what a job lacks, with what it may spend there."""
        settings, price_wei = self._context.settings, self._context.referee.head.base_fee_wei + GWEI
        name = hash_subject(view.subject)
        spent_wei = self._open_purse().count_wei(view.block, price_wei, but=name)
        left_wei = max(0, to_wei(settings.demand_budget) - spent_wei)
        budget_wei = min(left_wei, calculate_share(job, settings.demand_share))
        end = job.commit_deadline
        return Asker(self._context.address, lack, budget_wei, price_wei, needed_by=end)

    def _can_pay(self) -> bool:
        """Whether a call gets into the next block, so that nobody waits for it."""
        ceiling_wei = int(self._context.settings.max_fee_gwei * GWEI)
        return self._context.referee.head.base_fee_wei <= ceiling_wei

    def _open_purse(self) -> Purse:
        """Return the purse; the first time it is read from the chain, and `_past` with it."""
        if self._purse is None:
            first = self._context.chain.block_number() - BUDGET_BLOCKS
            block, events = self._log.read_since(first)
            own = [
                it.args
                for it in events
                if it.name == "Demanded" and it.args["asker"] == self._context.address
            ]
            names = [*dict.fromkeys(bytes(args["promise_id"]) for args in own)]
            words = self._log.ask([("promises", (name,)) for name in names])
            promises = dict(zip(names, map(unpack_promise, words), strict=True))
            purse = Purse(self._context.address)
            for args in own:
                name, place = bytes(args["promise_id"]), (args["part"], args["index"])
                promise = promises[name]
                if promise is not None and promise.status is not PromiseStatus.BROKEN:
                    whole = (*place, args["chunk"])
                    purse.pay(name, whole, block, promise.deposit_wei)
            self._purse, self._past = purse, set(names)
        return self._purse

    def _judge(self, view: Promised, planned: Sequence[Call], problem: str) -> Demands:
        """Return how the own demands in a job stand, if planned calls are made."""
        if view.promise.status is PromiseStatus.WITHDRAWN:
            return Demands(is_due=False, is_waiting=False)
        own = {it.status for it in view.demands.values() if it.asker == self._context.address}
        is_kept = view.promise.status is PromiseStatus.KEPT
        is_waiting = bool(planned) or DemandStatus.OPEN in own
        is_due = is_waiting if is_kept else bool(view.list_owed(self._context.address))
        return Demands(is_due=is_due, is_waiting=is_kept and is_waiting, problem=problem)
