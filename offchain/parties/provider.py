"""A provider: it takes jobs, computes them, and defends its claims in all matches at once."""

from dataclasses import dataclass

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.datastore.objects import STATES
from moot.offchain.disputes.availability.delivery import (
    Sharer,
    count_payable,
    find_result,
    register,
)
from moot.offchain.disputes.availability.delivery import explain_weakness as explain_weak_premium
from moot.offchain.disputes.availability.demands import Lack, Place, explain_weakness
from moot.offchain.disputes.joining.conditions import check_size, check_terms, describe_problems
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.crowds import count_hidden, count_lost
from moot.offchain.disputes.referee.gas import REVEAL_GAS
from moot.offchain.errors import StoreError
from moot.offchain.parties.computing import make_conditions
from moot.offchain.parties.context import Deputy, PartyContext, StandIn
from moot.offchain.parties.daemon import PartyDaemon
from moot.offchain.parties.deliveries import Deliveries
from moot.offchain.parties.policy import ask_policy, load_policy
from moot.offchain.parties.promises import Promises
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.salts import find_salt, get_salt, has_salt
from moot.offchain.parties.settings import to_wei
from moot.offchain.parties.turns import Seat
from moot.offchain.parties.works import Work
from moot.offchain.parties.workshop import Checks, Result


@dataclass
class Owed:
    """A result that was promised.

    Attributes:
        job: the job.
        next_block: the first block for whose calls one looks again at what is demanded of it.
    """

    job: Job
    next_block: int = 0


class Provider(PartyDaemon):
    """A provider in its context."""

    def __init__(self, context: PartyContext) -> None:
        super().__init__(context)
        self._policy = load_policy(context.settings.policy)
        settings = context.settings
        is_promised = settings.least_promise or settings.demand_budget
        self._promises = Promises(context) if is_promised else None
        self._demands: dict[int, Job] = {}
        self._lacks: dict[int, Lack] = {}
        self._undemanded: dict[int, str] = {}
        self._deliveries = Deliveries(context) if settings.delivery else None
        self._owed: dict[int, Owed] = {}
        self._result_problem = ""
        self._waiting: set[int] = set()
        self._won: dict[int, Seat] = {}
        self._seen: set[int] = set()

    def consider(self, work: Work) -> None:
        """See PartyDaemon."""
        run = self.recall(work)
        block = self.context.referee.block_number() + 1
        is_joined = work.standing is not Standing.NONE
        if not is_joined and block > work.job.commit_deadline:
            self._give_up(work, "it is too late to commit")
        elif is_joined and find_salt(work.store) is None:
            self.leave(work, f"{work.store.path} does not have the salt of its claim any more")
        elif run is not None and not is_joined and block < self._find_commit_block(work.job):
            work.next_block = self._find_commit_block(work.job) - 1
        elif run is not None:
            self._sit_down(work, run)
        elif is_joined:
            self.set_aside(work)
            self.compute(work, Checks.NONE)
        elif problem := ask_policy(self._policy, work.job) or self._find_unmet(work):
            self.leave(work, problem)
        elif problem := self.find_obstacle(work) or self._find_weakness(work):
            self.wait(work, problem)
        else:
            self.set_aside(work)
            self.compute(work, Checks.ALL)

    def note_failure(self, work: Work, result: Result) -> None:
        """Look at a job again later, and demand what is lacking, if it was promised."""
        super().note_failure(work, result)
        if self._promises is not None and work.standing is Standing.NONE:
            self._demands[work.job_id] = work.job
            self._lacks[work.job_id] = result.lack

    def observe(self, work: Work, seat: Seat) -> None:
        """See to it that the result of a job that is won is promised before it is paid."""
        super().observe(work, seat)
        is_new = self._deliveries is not None and work.job_id not in self._seen
        if is_new and seat.view.job.status is Status.WON and work.standing is Standing.REVEALED:
            self._won[work.job_id] = seat

    def take_turn(self) -> None:
        """Look at the chain, and do what there is to do; about demands, too, after all moves."""
        super().take_turn()
        for job_id, seat in list(self._won.items()):
            self._promise_result(seat)
            del self._won[job_id]
            self._seen.add(job_id)
        if self._demands:
            self._look_after_demands()
        for job_id, owed in list(self._owed.items()):
            if self.context.referee.block_number() + 1 >= owed.next_block:
                self._look_after_result(job_id, owed)

    def leave(self, work: Work, problem: str = "") -> None:
        """See PartyDaemon."""
        self._seen.discard(work.job_id)
        self._won.pop(work.job_id, None)
        super().leave(work, problem)

    def _may_pay(self, seat: Seat) -> bool:
        """See PartyDaemon; a reward is not collected before the result could be promised."""
        return seat.job_id not in self._won and super()._may_pay(seat)

    def _promise_result(self, seat: Seat) -> None:
        """Promise the result of a job that is won, if there is a premium that pays for it."""
        assert self._deliveries is not None
        job_id, job = seat.job_id, seat.view.job
        work, view = self.works[job_id], self._deliveries.look(job_id, job)
        run = self.recall(work)
        if view is None or run is None or not view.can_be_promised:
            return
        if view.is_due(self.context.address):
            self._owed.setdefault(job_id, Owed(job))
        if self.context.address in view.registered:
            return
        sharers = len(seat.view.tournament.contenders)
        price_wei = self.context.referee.head.base_fee_wei + GWEI
        if problem := explain_weak_premium(view.premium, sharers, price_wei):
            line = f"job {job_id}: its result is not promised: {problem}"
            self.context.tell("unpromised", line, job=job_id, problem=problem)
        elif not self._deliveries.send([register(self.context.address, view, run.history)]):
            self._owed[job_id] = Owed(job)

    def _resume(self) -> None:
        """Take up jobs, and the demands of before this process, which the chain has."""
        super()._resume()
        if self._promises is not None:
            self._demands |= dict(self._promises.find_due())
        if self._deliveries is not None:
            self._owed |= {job_id: Owed(job) for job_id, job in self._deliveries.find_due()}

    def _look_after_result(self, job_id: int, owed: Owed) -> None:
        """Show what is demanded of a result that was promised, and take the part of the premium."""
        assert self._deliveries is not None
        view = self._deliveries.look(job_id, owed.job)
        if view is None or view.is_over(self.context.address):
            del self._owed[job_id]
            return
        owed.next_block = view.find_next_look()
        if view.promised is None:
            return
        subject, store = view.promised.subject, self.folder.open_job(job_id, owed.job)

        def find(place: Place) -> Move:
            roots = store.get_roots(STATES, subject.start_root, subject.state_slots)
            return find_result(roots, lambda index: store.get_tensor(roots[index]), place)

        price_wei = self.context.referee.head.base_fee_wei + GWEI
        spent_wei = self._deliveries.spent_wei[job_id]
        most = count_payable(view, self.context.address, spent_wei, price_wei)
        try:
            self._deliveries.send(Sharer(self.context.address, find, most).act(view))
        except StoreError as error:
            if str(error) != self._result_problem:
                self.context.tell("failed", f"job {job_id}: {error}", job=job_id)
            self._result_problem = str(error)

    def _look_after_demands(self) -> None:
        """Demand what is lacking of jobs, and take what is due of demands made before.

        Once all that was demanded of a job is answered, it is looked at again.
        """
        assert self._promises is not None
        for job_id, demands in self._promises.act(self._demands, self._lacks).items():
            self._lacks.pop(job_id, None)
            if not demands.is_due:
                del self._demands[job_id]
            if demands.problem and demands.problem != self._undemanded.get(job_id):
                line = f"job {job_id}: what it lacks is not demanded: {demands.problem}"
                self.context.tell("undemanded", line, job=job_id, problem=demands.problem)
                self._undemanded[job_id] = demands.problem
            work, was_waiting = self.works.get(job_id), job_id in self._waiting
            self._waiting.discard(job_id)
            if demands.is_waiting:
                self._waiting.add(job_id)
            elif was_waiting and work is not None:
                work.next_block = work.tries = 0

    def _is_surely_out(self, work: Work) -> bool:
        """See PartyDaemon; a salt is there once a commit may have been signed."""
        return super()._is_surely_out(work) and not has_salt(work.store)

    def _find_unmet(self, work: Work) -> str:
        """Return which of a job's terms do not meet the settings, before anything is fetched."""
        terms = work.job.terms
        conditions = make_conditions(self.context.settings, terms, Checks.ALL)
        findings = [*check_size(terms, conditions), *check_terms(work.job, conditions)]
        return describe_problems(findings)

    def _find_weakness(self, work: Work) -> str:
        """Return why the client's promise is not enough; nothing if it is, or none is wanted."""
        least_wei = to_wei(self.context.settings.least_promise)
        if self._promises is None or not least_wei:
            return ""
        found = self._promises.read(work.job_id, work.job)
        if found is None:
            return f"its client has not promised that it can be had; {least_wei} wei are wanted"
        opened = work.job.opened_block
        return explain_weakness(found, work.job.terms, opened, least_wei)

    def _find_commit_block(self, job: Job) -> int:
        """Return the first block for a commit: where time allows, after the job's confirmations.

        As many blocks are left then to get the commit into one. A commit that a reorganisation
        brings to another job is refused, but costs its gas.
        """
        wait_blocks = self.context.settings.confirmations
        return job.opened_block + (wait_blocks if 2 * wait_blocks <= job.terms.commit_blocks else 0)

    def _sit_down(self, work: Work, run: Recalled) -> None:
        """Play a job that was computed."""
        self.set_aside(work)
        work.joins_by = work.job.commit_deadline
        is_joined = work.standing is not Standing.NONE  # what is committed needs no second copy
        salt = find_salt(work.store) if is_joined else None
        member = Player("provider", self.context.address, run, salt or get_salt(work.store))
        deputy = Deputy("provider", self.context.address, (member,))
        patience = self.context.settings.stand_in_blocks
        hidden = self._count_hidden(work.job)
        party = StandIn([member], [deputy], patience_blocks=patience, hidden_blocks=hidden)
        self.sit(work, party)

    def _count_hidden(self, job: Job) -> int:
        """Return for how many blocks a claim stays hidden though it can be shown."""
        confirmations = self.context.settings.confirmations
        lost = count_lost(
            job.reward_wei,
            block_gas=self.context.referee.block_gas(),
            confirmations=confirmations,
            offered_gas=REVEAL_GAS,
        )
        return count_hidden(job.terms.reveal_blocks, lost, confirmations)
