"""The daemon of a party: once a block it looks at all of its jobs, and acts where it is time.

What is slow is computed in another process (`workshop.py`), so that no clock runs out meanwhile.
Whoever is killed goes on from the folder and the chain alone. A kind of party is a subclass, which
says what it does about a job (`consider`) before it sits down at its table.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing, Status
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.backends.table import use_engine
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.answers import clean
from moot.offchain.chain.head import Head
from moot.offchain.disputes.play.actors import Actor
from moot.offchain.disputes.play.arena import Made
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import Outcome
from moot.offchain.errors import (
    AccountBusy,
    ChainError,
    DamagedFile,
    MootError,
    StoreError,
    TransactionRefused,
    UsageError,
)
from moot.offchain.parties.computing import read_claim, recall_run
from moot.offchain.parties.context import PartyContext, connected_context, open_signers
from moot.offchain.parties.events import Tell
from moot.offchain.parties.evidence_publisher import EvidencePublisher
from moot.offchain.parties.folder import Folder
from moot.offchain.parties.publishing import Publisher
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.resources import Resources, make_stand
from moot.offchain.parties.serving import is_shown
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.turns import (
    MOST_WAIT_BLOCKS,
    Outages,
    Seat,
    await_block,
    note_refusal,
    see,
    take_turns,
    tell_made,
)
from moot.offchain.parties.works import Work
from moot.offchain.parties.workshop import Checks, Result, Workshop, plan_errand

SPENT = "spent"


class JobLeft(Exception):  # noqa: N818 - no fault: it ends the daemon's turns
    """The one job of a party is over, or was not taken.

    Attributes:
        standing: where its account stands in it.
    """

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.name)
        self.standing = standing


class PartyDaemon:
    """A party that runs until its process is ended, with all its jobs."""

    def __init__(self, context: PartyContext) -> None:
        self.context = context
        self.folder = Folder(context.folder, context.chain, context.referee.address)
        self.resources = Resources(context.settings)
        self.works: dict[int, Work] = {}
        self.workshop = Workshop(context.settings, context.tell)
        self._evidence = EvidencePublisher(context)
        self._publisher = Publisher(context, self.folder, self.recall)
        self._results: list[Result] = []
        self._is_eager = self._has_looked = False
        self._disk_problem = ""

    def consider(self, work: Work) -> None:
        """Do what there is to do about an open job before the party has a seat.

        That is one of `compute`, `sit`, `wait` and `leave`, or nothing.
        """
        raise NotImplementedError

    def run(self) -> None:
        """Look after the jobs until the process is ended."""
        with self.folder.held(self.context.address), self._publisher.serving(), self.workshop:
            head: Head | None = None
            is_resumed, outages = False, Outages(self.context.tell)
            while True:
                used = self.context.chain.node.in_use
                try:
                    if not is_resumed:
                        self._resume()
                        is_resumed = True
                    self.take_turn()
                    head = head or Head(self)
                    await_block(self.context, head, is_eager=self._is_eager)
                    outages.end()
                except (ChainError, StoreError) as error:
                    self._leave_node(used, error)
                    outages.wait(error)

    def block_number(self) -> int:
        """Return the latest block for whoever waits for the next: one question where it is idle."""
        if self._is_eager:
            return self.context.chain.block_number()
        self._has_looked = True
        return self.context.referee.look().number

    def take_turn(self) -> None:
        """Look at the chain, and do what there is to do."""
        context = self.context
        if not self._has_looked:
            context.referee.look()
        self._has_looked = False
        self._take_news()
        self._results += self.workshop.collect()
        while self._results:  # of which none is lost if the node fails meanwhile
            self._note_result(self._results[0])
            self._results.pop(0)
        for work in list(self.works.values()):
            with self._sparing(work):
                self._advance(work)
        sitting = {work.job_id: work.seat for work in self.works.values() if work.seat}
        seats = {job_id: seat for job_id, seat in sitting.items() if see(context, seat)}
        for job_id, seat in seats.items():
            with self._sparing(self.works[job_id]):
                self.observe(self.works[job_id], seat)
                self._publisher.show(self.works[job_id])
        payable = [seat for seat in seats.values() if self._may_pay(seat)]
        turn = take_turns(context, payable)
        for seat, made in turn:
            self._note_made(seat, made)
        self._hand_over(list(seats.values()))
        self._publisher.tend()
        active = {seat.job_id for seat, _ in turn}
        for job_id in seats.keys() - active:
            self._finish(self.works[job_id])
        if not turn:  # to send is to look after all that was sent before
            context.chain.tend()
        boards = any(seat.view.tournament.boards for seat in seats.values())
        self._is_eager = bool(turn) or boards

    def sit(self, work: Work, party: Party) -> None:
        """Take a seat at the table of a job."""
        try:
            work.seat = Seat(self.context.view(work.job_id, work.job), party)
        except UsageError as error:  # a reorganisation, or a node, has taken the job away
            self.wait(work, str(error))

    def compute(self, work: Work, checks: Checks) -> None:
        """Let the workshop compute a job, if it passes some checks."""
        work.is_computing = True
        block = self.context.referee.block_number()
        self.workshop.submit(
            plan_errand(self.context.settings, work.job_id, work.job, block, checks)
        )

    def observe(self, work: Work, seat: Seat) -> None:
        """See what has happened at a table, before it is played there."""

    def wait(self, work: Work, problem: str) -> None:
        """Look at a job again some blocks later."""
        work.next_block = self.context.referee.block_number() + min(2**work.tries, MOST_WAIT_BLOCKS)
        work.tries += 1
        if problem != work.problem:
            self._pass_by(work, problem)
        work.problem = problem

    def note_failure(self, work: Work, result: Result) -> None:
        """Note that a job could not be computed for now, most likely because it can't be had."""
        self.wait(work, result.problem)

    def refuse(self, work: Work, problem: str) -> None:
        """Have no job computed for which there is no use in trying again."""
        self.leave(work, problem)

    def leave(self, work: Work, problem: str = "") -> None:
        """Have no more to do with a job."""
        if problem:
            self._pass_by(work, problem)
        self.resources.release(work.job_id)
        self.workshop.cancel(work.job_id)
        self.context.referee.drop(work.job_id)
        self.works.pop(work.job_id, None)

    def end_with(self, work: Work) -> None:
        """End the turns of a party, which has left its one job (`JobLeft`)."""
        raise JobLeft(self.context.referee.member(work.job_id, self.context.address).standing)

    def recall(self, work: Work) -> Recalled | None:
        """Return what was computed of a job, None if nothing was."""
        if work.run is None and (roots := read_claim(work.store)) is not None:
            job, store, settings = work.job, work.store, self.context.settings
            work.run = Recalled(roots, lambda: recall_run(job, store, settings))
        return work.run

    def find_obstacle(self, work: Work) -> str | None:
        """Return why there is no money for a job beside those at hand."""
        balance_wei = self.context.referee.balance(self.context.address)
        return self.resources.find_obstacle(balance_wei, work.job.terms)

    def set_aside(self, work: Work) -> None:
        """Set money aside for what a job may still cost."""
        bond_wei = work.job.terms.bond_wei if work.standing is Standing.NONE else 0
        spent_wei = 0
        with suppress(DamagedFile):
            spent_wei = int(work.store.get_json(SPENT) or 0)
        self.resources.take(work.job_id, spent_wei, bond_wei)

    def _leave_node(self, used: str, error: MootError) -> None:
        """Leave the node with which a turn has failed, if that was not done in it."""
        if isinstance(error, ChainError) and self.context.chain.node.in_use == used:
            self.context.chain.node.distrust(clean(str(error)))

    def _resume(self) -> None:
        """Take up all jobs that may concern the party, those first whose clocks run."""
        context = self.context
        for job_id, job, member in list(context.referee.find_jobs()):
            is_open = job.status is Status.OPEN
            is_owed = member.standing not in {Standing.NONE, Standing.PAID}
            if is_open or is_owed or self._publisher.has_more(job_id, job, member.standing):
                self._try_begin(job_id)
        context.referee.look()

    def _take_news(self) -> None:
        news = self.context.referee.news
        for job_id in list(news):  # of which none is lost if the node fails meanwhile
            if self._try_begin(job_id):
                news.remove(job_id)

    def _try_begin(self, job_id: int) -> bool:
        """Take up a job; where its folder can't be made it stays news, and this is False."""
        news = self.context.referee.news
        try:
            self._begin(job_id)
        except StoreError as error:
            if job_id not in news:
                news.append(job_id)
            if str(error) != self._disk_problem:
                self.context.tell("failed", f"job {job_id} has to wait: {error}", job=job_id)
            self._disk_problem = str(error)
            return False
        return True

    @contextmanager
    def _sparing(self, work: Work) -> Iterator[None]:
        """Let a job whose files fail wait, and no other."""
        try:
            yield
        except StoreError as error:
            self.wait(work, str(error))

    def _begin(self, job_id: int) -> None:
        """Take up a job."""
        job = self.context.referee.follow(job_id)
        if not job.opened_block:
            self.context.referee.drop(job_id)
            return
        store = self.folder.open_job(job_id, job)
        standing = self.context.referee.member(job_id, self.context.address).standing
        self.works[job_id] = Work(job_id, job, store, standing)

    def _note_result(self, result: Result) -> None:
        work = self.works.get(result.job_id)
        if work is None:
            return
        with self._sparing(work):
            self._take_result(work, result)

    def _take_result(self, work: Work, result: Result) -> None:
        work.is_computing = False
        if result.problem and work.standing is Standing.NONE:
            self.resources.release(work.job_id)
        if result.problem and result.is_final:
            self.refuse(work, result.problem)
        elif result.problem:
            self.note_failure(work, result)

    def _advance(self, work: Work) -> None:
        """Do what there is to do about a job before the party has a seat."""
        context, job_id = self.context, work.job_id
        job = context.referee.job(job_id)
        if hash_job(job) != hash_job(work.job):
            context.tell("replaced", f"job {job_id} is another one by now", job=job_id)
            self.leave(work)
            self._try_begin(job_id)
            return
        work.job = job
        work.standing = context.referee.member(job_id, context.address).standing
        if work.seat is not None and work.joins_by is not None:
            is_late = context.referee.block_number() >= work.joins_by
            if is_late and work.standing is Standing.NONE:
                self._give_up(work, "it was too late to join")
        if work.is_closing and job.status is Status.OPEN:  # a reorganisation has opened it again
            work.seat, work.is_closing = None, False
        if work.seat is not None or work.is_computing:
            return
        if job.status is not Status.OPEN:
            is_over = work.standing in {Standing.NONE, Standing.PAID}
            if is_over and not self._publisher.has_more(job_id, job, work.standing):
                if self._is_closed(work) and context.referee.is_agreed:
                    self.leave(work)
            else:
                work.is_closing = True
                self.sit(work, Party((), [Actor("member", context.address)]))
        elif context.referee.block_number() >= work.next_block:
            self.consider(work)

    def _hand_over(self, seats: Sequence[Seat]) -> None:
        """Hand over what the ruling about one match needs, after all moves: it may take a while."""
        for seat in sorted(seats, key=Seat.get_deadline):
            work = self.works[seat.job_id]
            block = self.context.referee.block_number()
            if work.run is None or block < work.next_block or not is_shown(work.job, block):
                continue
            if self._evidence.has_more(seat):
                with self._sparing(work):
                    self._evidence.publish(self.folder.open_results(), work.run, seat)
                return

    def _may_pay(self, seat: Seat) -> bool:
        """Whether what is still to do in a job is worth its gas."""
        context, work = self.context, self.works[seat.job_id]
        if work.job.status is not Status.OPEN or work.standing is Standing.NONE:
            return True
        member = context.referee.member(seat.job_id, context.address)
        stand = make_stand(context.address, work.job, member, seat.view.tournament)
        price_wei = min(context.referee.head.base_fee_wei + GWEI, self.resources.ceiling_wei)
        if self.resources.may_go_on(stand, price_wei):
            return True
        line = (
            f"job {seat.job_id} is given up for now: what its matches may still cost is above the "
            "budget (gas_budget), and above what is to be won"
        )
        if line != work.problem:
            rest_wei, stake_wei = self.resources.calculate_rest(stand) * price_wei, stand.stake_wei
            context.tell("short", line, job=seat.job_id, rest_wei=rest_wei, stake_wei=stake_wei)
        work.problem = line
        return False

    def _note_made(self, seat: Seat, made: Made) -> None:
        """Tell of a call that was made, and note what it has cost."""
        work, answer = self.works[seat.job_id], made.answer
        if isinstance(answer, TransactionRefused):
            if str(answer) != work.problem:
                tell_made(self.context, seat, made)
            work.problem = str(answer)
            return
        tell_made(self.context, seat, made)
        note_refusal(seat, made)
        if isinstance(answer, Outcome) and answer.receipt is not None:
            gas_used, price_wei = answer.receipt.gas_used, answer.receipt.effective_gas_price
            self.resources.note(seat.job_id, made.call, gas_used, price_wei)
            with suppress(StoreError):  # a full disk is no reason to stop playing
                work.store.put_json(SPENT, self.resources.spent_wei[seat.job_id])

    def _finish(self, work: Work) -> None:
        """Leave a job that is closed for so long that it will not be opened again."""
        context, job_id = self.context, work.job_id
        assert work.seat is not None
        if work.run is not None and not work.seat.view.tournament.boards:
            work.run.release()
        if work.job.status is Status.OPEN:
            work.ended_block = None
            return
        block = context.referee.block_number()
        if work.ended_block is None:
            status = work.job.status.name.lower()
            is_defeated = work.seat.view.get_standing(context.address) is Standing.DEFEATED
            fate = ", by another claim: this bond is lost" if is_defeated else ""
            line = f"job {job_id} is over: {status}{fate}"
            context.tell("ended", line, job=job_id, status=status, is_defeated=is_defeated)
        if work.ended_block is None or work.returns != context.referee.returns:
            work.ended_block, work.returns = block, context.referee.returns
        is_final = block >= work.ended_block + context.settings.confirmations
        if is_final and context.referee.is_agreed and self._is_closed(work):
            with self._sparing(work):
                self._publisher.publish(work)
                self.leave(work)

    def _give_up(self, work: Work, problem: str) -> None:
        """Have no more to do with a job that it is too late to join, if that is certain.

        A reorganisation may bring a call that joins back in time, and a node may not tell of it: so
        whoever may have signed one looks after the job to its end, but sets no money aside for it.
        """
        if self._is_surely_out(work):
            self.leave(work, problem)
            return
        if problem != work.problem:
            self._pass_by(
                work, f"{problem}; it is watched in case that the call is found after all"
            )
        work.problem = problem
        self.resources.release(work.job_id)

    def _is_surely_out(self, work: Work) -> bool:
        """Whether no call that joins a job can be in the chain now or later."""
        del work
        return self.context.referee.is_agreed

    def _is_closed(self, work: Work) -> bool:
        """Ask once more whether a job is closed before it is forgotten: it may be a node's slip."""
        return self.context.referee.follow(work.job_id).status is not Status.OPEN

    def _pass_by(self, work: Work, problem: str) -> None:
        line = f"job {work.job_id} is not taken: {problem}"
        self.context.tell("passed", line, job=work.job_id, problem=problem)


@contextmanager
def opened_daemon(
    make: Callable[[PartyContext], PartyDaemon],
    settings: Settings,
    tell: Tell,
    *,
    signs: bool = True,
) -> Iterator[PartyDaemon]:
    """Open a party that stays, as soon as a node can be reached.

    Args:
        make: seats it in its context.
        settings: what it is told; what is wrong there is an error at once.
        tell: takes events.
        signs: whether it has a key.
    """
    settings.require("store", "folder")
    use_engine(settings.engine, find_arithmetic(settings.arithmetic), settings.backend)
    signers, outages = open_signers(settings, tell, signs=signs), Outages(tell)
    with ExitStack() as stack:
        while True:
            try:
                context = stack.enter_context(connected_context(settings, tell, signers))
                daemon = make(context)
            except AccountBusy:
                raise
            except ChainError as error:
                stack.close()
                outages.wait(error)
            else:
                yield daemon
                return


def play_one(make: Callable[[PartyContext], PartyDaemon], settings: Settings, tell: Tell) -> bool:
    """Play the one job of a party to its end, and return whether its account has won.

    Args:
        make: seats the party in its context; it raises JobLeft when it leaves that job.
        settings: what it is told.
        tell: takes events.
    """
    with opened_daemon(make, settings, tell) as daemon:
        try:
            daemon.run()
        except JobLeft as end:
            return end.standing is Standing.PAID
    raise AssertionError("a daemon runs until it is ended")
