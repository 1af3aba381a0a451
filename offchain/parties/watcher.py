"""A watcher: it runs jobs again, says which claims are right, and may bond a claim of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from moot.contracts.model.types import NOBODY
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.actors import Actor, Player, View
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import Call
from moot.offchain.parties.context import Deputy, PartyContext, StandIn
from moot.offchain.parties.daemon import PartyDaemon
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.turns import Seat
from moot.offchain.parties.works import Work
from moot.offchain.parties.workshop import Checks


@dataclass(frozen=True, slots=True)
class Doubter(Player):
    """A member that joins late, and only where nobody has claimed what it has computed."""

    commit, reveal = Actor.commit, Actor.reveal  # it waits for the claims of others

    def enter(self, view: View) -> Iterator[Call]:
        """Join if all claims are wrong, as long as new ones are taken."""
        claims = view.tournament.get_claims()
        last = view.job.reveal_deadline + view.job.terms.window_blocks
        is_free = view.get_standing(self.address) is Standing.NONE
        if is_free and claims and self.claim not in claims and view.block <= last:
            yield self.join(view, self.claim)


class Watcher(PartyDaemon):
    """A watcher in its context; without a key it only says what it sees.

    Args:
        context: where it works.
        jobs: the jobs that it is to look at; none for a share of all.
        rate: that share, 0 to 1: which jobs it takes is a function of its account and the job.
    """

    def __init__(self, context: PartyContext, jobs: Sequence[int], rate: float) -> None:
        super().__init__(context)
        self._jobs, self._rate = frozenset(jobs), rate
        self._told: set[tuple[int, Digest]] = set()
        for job_id in jobs:
            context.find_job(job_id)

    def consider(self, work: Work) -> None:
        """See PartyDaemon."""
        run = self.recall(work)
        if not self._is_watched(work.job_id) and work.standing is Standing.NONE:
            self.leave(work)
        elif run is None:
            self.compute(work, self._choose_checks(work))
        else:
            self._sit_down(work, run)

    def observe(self, work: Work, seat: Seat) -> None:
        """Say of each new claim whether it is right."""
        if work.run is None:
            return
        for top, members in seat.view.tournament.get_claims().items():
            if (work.job_id, top) in self._told:
                continue
            self._told.add((work.job_id, top))
            is_right = top == work.run.history.top
            word = "right" if is_right else "wrong"
            line = f"job {work.job_id}: claim {top.hex()} of {members[0]} is {word}"
            about = {"claim": top.hex(), "member": members[0], "is_right": is_right}
            self.context.tell("claim", line, job=work.job_id, **about)

    def _choose_checks(self, work: Work) -> Checks:
        """Return what a job has to pass before it is run again."""
        if work.standing is not Standing.NONE:
            return Checks.NONE
        return Checks.LATE if self._signs else Checks.COST

    @property
    def _signs(self) -> bool:
        return self.context.address != NOBODY

    def _is_watched(self, job_id: int) -> bool:
        if self._jobs:
            return job_id in self._jobs
        draw = sha256(f"{self.context.address} {self.folder.referee_id} {job_id}".encode()).digest()
        return int.from_bytes(draw[:8], "big") < self._rate * 2**64

    def _sit_down(self, work: Work, run: Recalled) -> None:
        """Watch a job that was computed; play it if there is money for that."""
        context = self.context
        if not self._signs:
            self.sit(work, Party((), ()))
            return
        if work.standing is Standing.NONE and (problem := self.find_obstacle(work)):
            line = f"job {work.job_id} is only watched: {problem}"
            context.tell("short", line, job=work.job_id, problem=problem)
            self.sit(work, Party((), ()))
            return
        self.set_aside(work)
        member = Doubter("watcher", context.address, run)
        deputy = Deputy("watcher", context.address, (member,))
        patience = context.settings.stand_in_blocks
        others = [deputy] if work.job.status is Status.OPEN else []
        self.sit(work, StandIn([member], others, patience_blocks=patience))
