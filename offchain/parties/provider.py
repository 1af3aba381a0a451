"""A provider: it takes jobs one after another, and keeps what it needs after it was killed."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.model.types import Job
from contracts.reasons import Standing, Status
from offchain.chain.accounts import GasBudget
from offchain.chain.accounts.fees import GWEI
from offchain.chain.head import Head
from offchain.datastore.objects import HISTORIES
from offchain.datastore.server import Server
from offchain.datastore.store import open_store
from offchain.disputes.actors import Player
from offchain.disputes.job_check import agree_on, check_job
from offchain.disputes.session import Computer, Setting
from offchain.errors import ChainUnavailable, CommitmentError, LogError, StoreError
from offchain.parties.live import PATIENCE_S, RETRY_S, Deputy, Desk, StandIn, play
from offchain.parties.policy import Policy, load_policy
from offchain.parties.settings import to_wei
from offchain.providers.behaviour import Behaviour
from offchain.providers.publication import get_task
from offchain.providers.run import Run
from offchain.providers.store import Store
from offchain.providers.task import Task

SET_ASIDE_GAS = 8_000_000
"""Gas for which an account has to have the money before it joins: three matches of the dearest."""

MEMBER, SALT_BYTES = "member", 32


class Provider:
    """A provider at its desk."""

    def __init__(self, desk: Desk) -> None:
        desk.settings.require("store", "folder")
        self._desk = desk
        self._folder = Path(desk.settings.folder)
        self._policy: Policy = load_policy(desk.settings.policy)
        self._results = Store(self._folder / "results")
        self._next = 0

    def run(self) -> None:
        """Take jobs until the process is ended."""
        head = Head(self._desk.chain)
        with self._serving():
            while True:
                try:
                    if not self._next:
                        self._resume()
                    self._take_new()
                    self._desk.chain.tend()
                    head.follow(PATIENCE_S)
                except ChainUnavailable as error:
                    self._desk.tell("unavailable", str(error))
                    time.sleep(RETRY_S)

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Serve the results meanwhile."""
        settings = self._desk.settings
        with Server(self._results.path, settings.host, settings.port) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._desk.tell("serving", f"serving results at {server.url}", url=server.url)
            try:
                yield
            finally:
                server.shutdown()

    def _resume(self) -> None:
        """Go on with the jobs that this account has joined, whose clocks run, before any other."""
        desk, job_id = self._desk, 0
        while (job := desk.referee.job(job_id)).opened_block:
            is_joined = desk.referee.member(job_id, desk.address).standing is not Standing.NONE
            if is_joined and job.status is Status.OPEN:
                self._take(job_id, job)
            job_id += 1

    def _take_new(self) -> None:
        """Take the jobs that were opened since the last look, if they are for us."""
        while (job := self._desk.referee.job(self._next)).opened_block:
            self._take(self._next, job)
            self._next += 1

    def _take(self, job_id: int, job: Job) -> None:
        desk = self._desk
        standing = desk.referee.member(job_id, desk.address).standing
        is_open = job.status is Status.OPEN
        if standing is Standing.NONE:
            late = not is_open or desk.chain.block_number() >= job.commit_deadline
            problem = "it is too late to commit" if late else self._policy.refuse_job(job)
            if problem:
                self._pass_by(job_id, problem)
                return
        elif not is_open and not desk.referee.debt(job_id, desk.address):
            return
        store = Store(self._folder / f"job-{job_id}")
        try:
            task = self._fetch(job, store)
        except (StoreError, LogError, CommitmentError) as error:
            self._pass_by(job_id, str(error))
            return
        if standing is Standing.NONE and (problem := self._check(job, task)):
            self._pass_by(job_id, problem)
            return
        desk.tell("running", f"job {job_id}: running {task.steps} steps", job=job_id)
        run = self._compute(task, store)
        self._publish(job_id, run)
        member = Player("provider", desk.address, run, self._get_salt(store))
        deputy = Deputy("provider", desk.address, (member,))
        patience = desk.settings.stand_in_blocks
        view = desk.view(job_id)
        play(desk, view, StandIn([member], [deputy], patience_blocks=patience))
        status = view.job.status.name.lower()
        desk.tell("ended", f"job {job_id} is over: {status}", job=job_id, status=status)

    def _pass_by(self, job_id: int, problem: str) -> None:
        line = f"job {job_id} is not taken: {problem}"
        self._desk.tell("passed", line, job=job_id, problem=problem)

    def _fetch(self, job: Job, store: Store) -> Task:
        """Have all that a job commits to in the folder."""
        return get_task(open_store(self._desk.settings.store, store.path), job.terms)

    def _check(self, job: Job, task: Task) -> str | None:
        """Return why a job is not to be joined."""
        desk, settings, terms = self._desk, self._desk.settings, job.terms
        problem = self._policy.refuse_program(job, task.program)
        if problem:
            return problem
        expected_wei = SET_ASIDE_GAS * int(settings.max_fee_gwei * GWEI)
        budget = GasBudget(to_wei(settings.gas_budget))
        balance_wei = desk.referee.balance(desk.address)
        problem = budget.find_obstacle(balance_wei, terms.bond_wei, expected_wei)
        if problem:
            return problem
        agreed = agree_on(
            task,
            leaf_mode=terms.leaf_mode,
            verifier=terms.verifier,
            most_bond_wei=to_wei(settings.most_bond),
            least_reward_wei=to_wei(settings.least_reward),
            crowd=settings.crowd,
            block_seconds=settings.block_seconds,
        )
        findings = check_job(desk.chain, desk.referee.address, job, agreed)
        problems = [f"{it.item}: {it.problem}" for it in findings if it.problem]
        return "; ".join(problems) or None

    def _compute(self, task: Task, store: Store) -> Run:
        """Run a task, honestly unless the settings say otherwise."""
        cheat = self._desk.settings.cheat
        if cheat:
            compute = Computer(Setting(cheat=cheat), task, store.path / "cheat", _ignore)
            return compute.draw(cheat, compute("honest", Behaviour()))
        run = Run(task, Behaviour(), store)
        run.compute()
        return run

    def _publish(self, job_id: int, run: Run) -> None:
        """Put the history and the final state where they are served."""
        roots = [*run.roots]
        self._results.put_roots(HISTORIES, roots)
        self._results.put_state(run.state(run.task.steps))
        claim = run.history.top.hex()
        self._desk.tell("computed", f"job {job_id}: computed {claim}", job=job_id, claim=claim)

    def _get_salt(self, store: Store) -> bytes:
        """Return the salt of a claim, which is on the disk before it is sent."""
        member = store.get_json(MEMBER)
        if member is None:
            member = {"salt": secrets.token_bytes(SALT_BYTES).hex()}
            store.put_json(MEMBER, member)
        return bytes.fromhex(member["salt"])


def _ignore(_what: str, _done: int, _whole: int) -> None:
    pass
