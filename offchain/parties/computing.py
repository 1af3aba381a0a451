"""The computation of a job: all of it is fetched, checked, run, and its result is kept."""

from contracts.model.types import NOBODY, Job
from contracts.reasons import LeafMode
from offchain.datastore.objects import HISTORIES
from offchain.datastore.store import open_copying, open_store
from offchain.disputes.job_check import agree_on, check_job
from offchain.disputes.session import Computer, Setting
from offchain.errors import MootError
from offchain.parties.folder import Folder
from offchain.parties.live import Desk
from offchain.parties.policy import Policy
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
        StoreError, LogError, CommitmentError: it can't be fetched, or is not what it should be.
    """
    settings, job = desk.settings, desk.find_job(job_id)
    store, results = folder.open_job(job_id, job), folder.open_results()
    task = get_task(open_copying(settings.store, store.disk), job.terms)
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
