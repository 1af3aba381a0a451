"""The computation of a job: all of it is fetched, checked, run, and its result is kept."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from moot.contracts.model.types import NOBODY, Job, Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.store import DataStore, open_copying, open_store
from moot.offchain.disputes.availability.demands import Lack
from moot.offchain.disputes.availability.mending import mend_job
from moot.offchain.disputes.joining.conditions import (
    HOUR_S,
    Conditions,
    Finding,
    check_cost,
    check_size,
    check_terms,
    check_worth,
    describe_problems,
)
from moot.offchain.disputes.joining.job_check import agree_on, check_job
from moot.offchain.errors import DamagedFile, MootError, NotInStore, WrongComputation, WrongContent
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.folder import Folder
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.promises import Promises
from moot.offchain.parties.settings import Settings, to_wei
from moot.offchain.parties.workshop import Checks
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.batches import StoredBatches
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.lineup import Computer
from moot.offchain.providers.publication import get_program, get_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

GIGABYTE = 10**9
CLAIM = "claim"
"""The note of the roots that a party would claim, which is there once all is computed."""


DIFFERS = "differs"
"""The note of what the audit of a run has found, after which the job is never claimed."""


class UnwantedJob(MootError):  # noqa: N818 - a decision, no fault
    """A job is not to be joined, now or later."""


class IncompleteJob(MootError):  # noqa: N818 - it may become whole
    """A job can't be had for now; `lack` is what may be demanded of its client's promise."""

    def __init__(self, message: str, lack: Lack) -> None:
        super().__init__(message)
        self.lack = lack


def compute(
    context: PartyContext, policy: Policy, job_id: int, folder: Folder, checks: Checks
) -> None:
    """Fetch a job, check it, run it, and note its claim; nothing of that is served yet.

    Args:
        context: where the party works.
        policy: which jobs it takes.
        job_id: the job.
        folder: where its files are.
        checks: what it has to pass before it is run.

    Raises:
        UnwantedJob: the policy or a check is against it, or the run differs from its definition.
        IncompleteJob: parts of it are nowhere, and its client has promised that they can be had.
        StoreError, LogError, CommitmentError: it can't be fetched, or is not what it should be.
    """
    settings, job = context.settings, context.find_job(job_id)
    store = folder.open_job(job_id, job)
    source = open_copying(settings.store, store.disk)
    if checks:
        _check_before(context, policy, job_id, job, source, checks)
    task = _get_task(context, job_id, job, source)
    if checks >= Checks.LATE:
        agreed = agree_on(task, make_conditions(settings, job.terms, checks))
        _refuse(check_job(context.chain, context.referee.address, job, agreed))
    context.tell("running", f"job {job_id}: running {task.steps} steps", job=job_id)
    run = _run(context, job_id, task, store)
    if run.shared is not None:
        cost = run.shared
        about = {"workers": cost.workers, "bytes": cost.bytes, "seconds": cost.seconds}
        context.tell("shared", f"job {job_id}: {cost}", job=job_id, **about)
    roots = [*run.roots]
    if not store.has_state(roots[-1]):  # of a cheat, whose run has a store of its own
        store.put_state(run.state(run.task.steps))
    store.put_json(CLAIM, [root.hex() for root in roots])
    context.tell(
        "computed", f"job {job_id}: computed, and hidden until claims are shown", job=job_id
    )


def _get_task(context: PartyContext, job_id: int, job: Job, store: DataStore) -> Task:
    """Return the task of a job, if need be put together of parts that were shown on the chain."""
    try:
        return get_task(store, job.terms)
    except (NotInStore, WrongContent) as error:
        shown = Promises(context).read_shown(job_id, job) if context.settings.availability else None
        if shown is None:
            raise
        lack = mend_job(store, job.terms, shown)
        if lack.least:
            raise IncompleteJob(f"{error}; it may be demanded", lack) from error
        line = f"job {job_id} is put together, with {len(shown)} parts from the chain"
        context.tell("mended", line, job=job_id, parts=len(shown))
    return get_task(store, job.terms)


def _run(context: PartyContext, job_id: int, task: Task, store: Store) -> Run:
    """Return the run of a job, of which drawn elements are what they are defined to be.

    Raises:
        UnwantedJob: one is not; whoever claims what is defined would win against this run.
    """
    problem = None
    with suppress(DamagedFile):
        problem = store.get_json(DIFFERS)
    if problem is None:
        try:
            return make_run(task, store, context.settings)
        except WrongComputation as error:
            store.put_json(DIFFERS, problem := str(error))
            context.tell("differs", f"job {job_id}: {error}", job=job_id, problem=problem)
    raise UnwantedJob(f"the run is not what is defined: {problem}")


def make_run(task: Task, store: Store, settings: Settings) -> Run:
    """Return the run of a task, of which what was computed before is read from the disk."""
    cheat, backend = settings.cheat, settings.backend
    if cheat:
        computer = Computer(
            Setting(cheat=cheat, backend=backend), task, store.path / "cheat", _ignore
        )
        return computer.draw(cheat, computer("honest", Behaviour()))
    hosts = Path(settings.workers_at) if settings.workers_at else None
    run = Run(task, Behaviour(), store, None, backend, settings.workers, hosts)
    run.compute(audit=Audit)
    return run


def recall_run(job: Job, store: Store, settings: Settings) -> Run:
    """Return the run of a job that was computed before, from the disk alone.

    What is damaged there of the job comes from where it was published once more.
    """

    def reopen() -> DataStore:
        return open_copying(settings.store, store.disk)

    try:
        task = get_task(open_store(str(store.path)), job.terms)
    except (DamagedFile, NotInStore):
        task = get_task(reopen(), job.terms)
    if isinstance(task.batch, StoredBatches):
        task.batch.reopen = reopen
    return make_run(task, store, settings)


def read_claim(store: Store) -> list[Digest] | None:
    """Return the roots that were noted as a job's claim; None if they have to be computed."""
    try:
        noted = store.get_json(CLAIM)
    except DamagedFile:
        return None
    return None if noted is None else [bytes.fromhex(root) for root in noted]


def make_conditions(settings: Settings, terms: Terms, checks: Checks) -> Conditions:
    """Return the conditions on which a party takes a job of some terms."""
    is_ruled = terms.leaf_mode is LeafMode.OPERATOR
    return Conditions(
        leaf_mode=terms.leaf_mode,
        verifier=settings.verifier.lower() if is_ruled else NOBODY,
        most_bond_wei=to_wei(settings.most_bond),
        least_reward_wei=to_wei(settings.least_reward),
        most_locked_blocks=settings.most_locked_blocks,
        least_yield=settings.least_yield,
        least_hourly_wei=to_wei(settings.least_hourly),
        most_run_seconds=settings.most_hours * HOUR_S,
        most_memory_bytes=int(settings.most_memory_gb * GIGABYTE),
        most_disk_bytes=int(settings.most_disk_gb * GIGABYTE),
        most_operators=settings.most_operators,
        most_slots=settings.most_slots,
        crowd=settings.crowd,
        confirmations=settings.confirmations,
        block_seconds=settings.block_seconds,
        joins_late=checks is Checks.LATE,
        backend=settings.backend,
    )


def _check_before(
    context: PartyContext, policy: Policy, job_id: int, job: Job, store: DataStore, checks: Checks
) -> None:
    """Refuse a job by its terms before anything is fetched, and by its program before the rest.

    A program that is not to be had is asked for again with the rest, which may be shown on chain.
    """
    conditions = make_conditions(context.settings, job.terms, checks)
    _refuse(check_size(job.terms, conditions))
    if checks >= Checks.LATE:
        _refuse(check_terms(job, conditions))
    try:
        program = get_program(store, job.terms)
    except (NotInStore, WrongContent):
        program = _get_task(context, job_id, job, store).program
    if problem := policy.refuse_program(job, program):
        raise UnwantedJob(problem)
    _refuse(check_cost(job.terms, program, conditions))
    if checks >= Checks.LATE:
        block = context.chain.block_number()
        _refuse(check_worth(job, program, conditions, block))


def _refuse(findings: Iterable[Finding]) -> None:
    """Refuse a job of which a check has found a problem."""
    if problems := describe_problems(findings):
        raise UnwantedJob(problems)


def _ignore(_what: str, _done: int, _whole: int) -> None:
    pass
