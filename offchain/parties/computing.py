"""The computation of a job: all of it is fetched, checked, run, and its result is kept."""

from contracts.model.types import NOBODY, Job
from contracts.reasons import LeafMode
from offchain.datastore.objects import HISTORIES
from offchain.datastore.store import DataStore, open_copying, open_store
from offchain.disputes.availability import Lack
from offchain.disputes.job_check import agree_on, check_job
from offchain.disputes.mending import mend_job
from offchain.disputes.session import Computer, Setting
from offchain.errors import MootError, NotInStore, WrongContent
from offchain.parties.folder import Folder
from offchain.parties.live import Desk
from offchain.parties.policy import Policy
from offchain.parties.promises import Promises
from offchain.parties.settings import to_wei
from offchain.parties.workshop import Checks
from offchain.providers.behaviour import Behaviour
from offchain.providers.publication import get_task
from offchain.providers.run import Run
from offchain.providers.store import Store
from offchain.providers.task import Task

CLAIM = "claim"
"""The note of the roots that a party would claim, which is there once all is computed."""


class UnwantedJob(MootError):  # noqa: N818 - a decision, no fault
    """A job is not to be joined, now or later."""


class IncompleteJob(MootError):  # noqa: N818 - it may become whole
    """A job can't be had for now; `lack` is what may be demanded of its client's promise."""

    def __init__(self, message: str, lack: Lack) -> None:
        super().__init__(message)
        self.lack = lack


def compute(desk: Desk, policy: Policy, job_id: int, folder: Folder, checks: Checks) -> None:
    """Fetch a job, check it, run it, keep its history and final state, and note its claim.

    Args:
        desk: where the party works.
        policy: which jobs it takes.
        job_id: the job.
        folder: where its files are.
        checks: what it has to pass before it is run.

    Raises:
        UnwantedJob: the policy or a check is against it.
        IncompleteJob: parts of it are nowhere, and its client has promised that they can be had.
        StoreError, LogError, CommitmentError: it can't be fetched, or is not what it should be.
    """
    settings, job = desk.settings, desk.find_job(job_id)
    store, results = folder.open_job(job_id, job), folder.open_results()
    task = _get_task(desk, job_id, job, open_copying(settings.store, store.disk))
    if checks:
        _check(desk, policy, job, task, checks)
    desk.tell("running", f"job {job_id}: running {task.steps} steps", job=job_id)
    run = make_run(task, store, settings.cheat)
    roots = [*run.roots]
    results.put_roots(HISTORIES, roots)
    results.put_state(run.state(run.task.steps))
    store.put_json(CLAIM, [root.hex() for root in roots])
    claim = run.history.top.hex()
    desk.tell("computed", f"job {job_id}: computed {claim}", job=job_id, claim=claim)


def _get_task(desk: Desk, job_id: int, job: Job, store: DataStore) -> Task:
    """Return the task of a job, if need be put together of parts that were shown on the chain."""
    try:
        return get_task(store, job.terms)
    except (NotInStore, WrongContent) as error:
        shown = Promises(desk).read_shown(job_id, job) if desk.settings.availability else None
        if shown is None:
            raise
        lack = mend_job(store, job.terms, shown)
        if lack.least:
            raise IncompleteJob(f"{error}; it may be demanded", lack) from error
        line = f"job {job_id} is put together, with {len(shown)} parts from the chain"
        desk.tell("mended", line, job=job_id, parts=len(shown))
    return get_task(store, job.terms)


def make_run(task: Task, store: Store, cheat: str) -> Run:
    """Return the run of a task, of which what was computed before is read from the disk."""
    if cheat:
        computer = Computer(Setting(cheat=cheat), task, store.path / "cheat", _ignore)
        return computer.draw(cheat, computer("honest", Behaviour()))
    run = Run(task, Behaviour(), store)
    run.compute()
    return run


def recall_run(job: Job, store: Store, cheat: str) -> Run:
    """Return the run of a job that was computed before, from the disk alone."""
    return make_run(get_task(open_store(str(store.path)), job.terms), store, cheat)


def _check(desk: Desk, policy: Policy, job: Job, task: Task, checks: Checks) -> None:
    """Refuse a job that is not to be joined."""
    settings, terms = desk.settings, job.terms
    if problem := policy.refuse_program(job, task.program):
        raise UnwantedJob(problem)
    is_ruled = terms.leaf_mode is LeafMode.OPERATOR
    agreed = agree_on(
        task,
        leaf_mode=terms.leaf_mode,
        verifier=settings.verifier.lower() if is_ruled else NOBODY,
        most_bond_wei=to_wei(settings.most_bond),
        least_reward_wei=to_wei(settings.least_reward),
        crowd=settings.crowd,
        block_seconds=settings.block_seconds,
    )
    findings = check_job(desk.chain, desk.referee.address, job, agreed)
    left_out = set() if checks is Checks.ALL else {"commit_blocks"}
    problems = [
        f"{it.item}: {it.problem}" for it in findings if it.problem and it.item not in left_out
    ]
    if problems:
        raise UnwantedJob("; ".join(problems))


def _ignore(_what: str, _done: int, _whole: int) -> None:
    pass
