"""The publisher of a party: it serves of each job what the job's stage lets be served."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.datastore.alone import ServerProcess
from moot.offchain.parties.computing import read_claim
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.folder import Folder
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.serving import Stage, has_won, is_published, is_shown, publish, serving
from moot.offchain.parties.works import Work


class Publisher:
    """The publisher of what a party has computed in its folder.

    Args:
        context: where the party works.
        folder: its folder.
        recall: returns what was computed of a job, None if nothing was.
    """

    def __init__(
        self, context: PartyContext, folder: Folder, recall: Callable[[Work], Recalled | None]
    ) -> None:
        self._context, self._folder, self._recall = context, folder, recall
        self._server: ServerProcess | None = None

    def show(self, work: Work) -> None:
        """Serve the history of a job once no claim can be committed to or shown any more."""
        block, confirmations = (
            self._context.referee.block_number(),
            self._context.settings.confirmations,
        )
        is_time = is_shown(work.job, block, confirmations) and self._context.referee.is_agreed
        if work.stage is not Stage.HIDDEN or not is_time:
            return
        if run := self._recall(work):
            publish(self._folder.open_results(), work.store, run.history, Stage.SHOWN)
            work.stage = Stage.SHOWN

    def publish(self, work: Work) -> None:
        """Serve the final state of a job that is won for good by the party's own claim."""
        run = self._recall(work)
        if run is None or work.seat is None:
            return
        claims = work.seat.view.tournament.get_claims()
        if has_won(work.job, work.standing, run.history.top, claims):
            publish(self._folder.open_results(), work.store, run.history, Stage.PAID)
            line = f"job {work.job_id}: its result is served"
            self._context.tell("published", line, job=work.job_id)

    def has_more(self, job_id: int, job: Job, standing: Standing) -> bool:
        """Whether a job that was paid has a result here that is not served yet."""
        if standing is not Standing.PAID or job.status is not Status.WON:
            return False
        store = self._folder.find_job(job_id, job)
        roots = None if store is None else read_claim(store)
        return roots is not None and not is_published(self._folder.open_results(), roots[-1])

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve results meanwhile."""
        with serving(self._context, self._folder.open_results()) as self._server:
            yield

    def tend(self) -> None:
        """See to it that results are served."""
        if self._server is not None:
            self._server.tend()
