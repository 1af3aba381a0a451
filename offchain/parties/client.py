"""A client: it publishes a task, opens its job, sees it to its end, and fetches the result."""

from collections.abc import Sequence
from pathlib import Path

from contracts.model.types import Terms
from contracts.reasons import Status
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Digest, hash_root
from offchain.datastore.objects import HISTORIES
from offchain.datastore.store import open_store
from offchain.disputes.actors import Client
from offchain.disputes.party import Party
from offchain.disputes.referee import Call, Outcome
from offchain.disputes.terms import Stakes, make_terms
from offchain.errors import CommitmentError, StoreError, UsageError
from offchain.parties.live import Desk, play
from offchain.programs.graph import Slot
from offchain.providers.publication import get_program, put_task
from offchain.providers.task import Task


def post(desk: Desk, task: Task, stakes: Stakes) -> int:
    """Publish a task, and open its job; return the job's number."""
    desk.settings.require("store")
    put_task(open_store(desk.settings.store), task)
    terms = make_terms(task, stakes)
    call = Call("open_job", desk.address, (terms,), stakes.reward_wei, "client")
    (answer,) = desk.referee.transact_all([call])
    if not isinstance(answer, Outcome):
        raise answer
    job_id = int(str(answer.events[0].args[0]))
    desk.tell("opened", f"job {job_id} is open", job=job_id)
    return job_id


def await_end(desk: Desk, job_id: int) -> Status:
    """Begin the matches that are needed, settle the job, and return how it ended."""
    view = desk.view(job_id)
    play(desk, view, Party((), [Client("client", desk.address, ())]))
    status = view.job.status
    desk.tell("closed", f"job {job_id}: {status.name.lower()}", job=job_id, status=status.name)
    return status


def get_claim(desk: Desk, job_id: int) -> Digest:
    """Return the claim that has won a job."""
    view = desk.view(job_id)
    if view.job.status is not Status.WON:
        raise UsageError(
            f"job {job_id} is {view.job.status.name.lower()}; only one that is won has a result"
        )
    (claim,) = view.tournament.get_claims()
    return claim


def fetch(desk: Desk, job_id: int, folder: Path, urls: Sequence[str]) -> Digest:
    """Fetch the final state of a job into a folder, which is a store; return the state's root.

    What comes is verified against the claim that has won.

    Args:
        desk: where the client works.
        job_id: the job.
        folder: the folder.
        urls: where providers serve their results; the first that has this one is used.

    Raises:
        UsageError: the job is not won.
        StoreError: nobody serves the result.
    """
    terms, claim = desk.find_job(job_id).terms, get_claim(desk, job_id)
    slots = _find_slots(desk, terms, folder)
    problems = []
    for url in urls:
        try:
            root = _fetch_from(url, folder, terms, claim, slots)
        except (StoreError, CommitmentError) as error:
            problems.append(str(error))
            desk.tell("refused", f"{url} is of no use: {error}", url=url)
        else:
            line = f"job {job_id}: state {root.hex()} is in {folder}, as the winning claim has it"
            desk.tell("fetched", line, job=job_id, state=root.hex(), url=url)
            return root
    raise StoreError(f"nobody serves the result of job {job_id}: {'; '.join(problems) or 'no url'}")


def _find_slots(desk: Desk, terms: Terms, folder: Path) -> Sequence[Slot] | None:
    """Return what a state of the job looks like, if its program is at hand."""
    if not desk.settings.store:
        return None
    return get_program(open_store(desk.settings.store, folder), terms).state


def _fetch_from(
    url: str, folder: Path, terms: Terms, claim: Digest, slots: Sequence[Slot] | None
) -> Digest:
    count = -(-terms.steps // terms.checkpoint_every)
    store = open_store(url, folder)
    history = hash_root(Tag.HISTORY_ROOT, count, claim)
    root = store.get_roots(HISTORIES, history, count)[-1]
    store.fetch_state(root, slots)
    return root
