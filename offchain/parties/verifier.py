"""A bounded verifier: it rules on matches that stop at an operator, in jobs that name its account.

It recomputes the operator in its sandbox, from what members of the match hand over
(`evidence_requests.py`). Where nobody hands over all of it, the verifier runs the job itself, as
one more whose evidence counts if it is proven: what is proven is the same, whoever brings it.
"""

import shutil
from pathlib import Path

from moot.contracts.model.types import Terms
from moot.contracts.reasons import LeafMode, Outcome, Phase
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.web import Web
from moot.offchain.disputes.evidence.handover import count_bytes
from moot.offchain.disputes.evidence.rulings import rule_by
from moot.offchain.disputes.play.actors import Caller
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.errors import StoreError, VerifierError
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.daemon import PartyDaemon
from moot.offchain.parties.evidence_requests import EvidenceRequest, EvidenceRequests, judge_found
from moot.offchain.parties.settings import split_list
from moot.offchain.parties.turns import Seat
from moot.offchain.parties.works import Work
from moot.offchain.parties.workshop import Checks
from moot.offchain.providers.testimony import Testimony

EVIDENCE_SHARE = 4
"""Members have one part in so many of the verifier's clock to hand over what it needs."""
HEARD = "heard"
NEVER = 1 << 62
"""A block that never comes."""


class Verifier(PartyDaemon):
    """A verifier in its context."""

    def __init__(self, context: PartyContext) -> None:
        super().__init__(context)
        urls = split_list(context.settings.results)
        for url in urls:
            if url.startswith(("http://", "https://")):
                Web(url)  # which refuses what is no address
        self._requests = EvidenceRequests(urls)

    def run(self) -> None:
        """Look after the jobs until the process is ended."""
        with self._requests:
            super().run()

    def consider(self, work: Work) -> None:
        """See PartyDaemon."""
        terms, own = work.job.terms, self.context.address
        if terms.leaf_mode is not LeafMode.OPERATOR or terms.verifier.lower() != own.lower():
            self.leave(work)
            return
        self.sit(work, Party((), [Caller("verifier", own, lambda it: self._decide(work, it))]))
        line = f"job {work.job_id} names this verifier"
        self.context.tell("named", line, job=work.job_id)

    def observe(self, work: Work, seat: Seat) -> None:
        """Ask the members of matches that wait for a ruling; compute a job where that fails.

        Where nobody can be heard, a job is computed once a match of it has begun.
        """
        boards = seat.view.tournament.boards
        waiting = [it for it in boards.values() if it.position.phase is Phase.VERIFIER]
        self._requests.forget(work.job_id, waiting)
        if not waiting:
            shutil.rmtree(_get_folder(work), ignore_errors=True)
        is_needed = bool(boards)
        if self._requests.urls:
            unheard = [self._hear(work, seat.view.tournament, board) for board in waiting]
            is_needed = any(unheard)
        block = self.context.referee.block_number()
        if not is_needed or work.is_computing or block < work.next_block:
            return
        if self.recall(work) is None:
            self.compute(work, Checks.COST)

    def refuse(self, work: Work, problem: str) -> None:
        """Rule on a job by what members hand over, and by nothing else."""
        self.wait(work, problem)
        work.next_block = NEVER

    def leave(self, work: Work, problem: str = "") -> None:
        """See PartyDaemon."""
        shutil.rmtree(_get_folder(work), ignore_errors=True)
        super().leave(work, problem)

    def _hear(self, work: Work, known: Tournament, board: Board) -> bool:
        """Go on with the request about a match; return whether it has failed."""
        request, block = self._requests.find(board), self.context.referee.block_number()
        clock, deadline = board.position.clock_blocks, board.position.deadline
        end = deadline - clock + clock // EVIDENCE_SHARE
        if request is None:
            request = EvidenceRequest(work.job.terms, board, _get_claims(known, board))
            seconds = max(0, end - block) * self.context.settings.block_seconds
            self._requests.begin(request, _get_folder(work), seconds)
        if request.found is not None or request.is_hopeless:
            self._tell(work, request)
            return False
        if not request.problem and block > end:
            request.problem = "it takes too long"
        if request.problem:
            self._tell(work, request)
        return bool(request.problem)

    def _tell(self, work: Work, request: EvidenceRequest) -> None:
        """Say once what has come of a request."""
        if request.is_told:
            return
        request.is_told = True
        place, about = request.place, {"job": work.job_id, "seconds": request.seconds}
        what = f"job {work.job_id}: what operator {place.operator} of step {place.step} reads"
        if request.found is not None:
            size = count_bytes(request.found)
            line = f"{what} is handed over by {request.url}, {size:,} bytes"
            self.context.tell("heard", line, url=request.url, bytes=size, **about)
        elif request.is_hopeless:
            self.context.tell("unheard", f"{what} is not asked for: {request.problem}", **about)
        else:
            line = f"{what} is handed over by nobody ({request.problem}); the job is run instead"
            self.context.tell("unheard", line, **about)

    def _decide(self, work: Work, board: Board) -> Outcome:
        """Return the ruling on a match.

        Raises:
            VerifierError: there is none yet, or the operator could not be recomputed.
        """
        request = self._requests.find(board)
        if request is not None and request.outcome is not None:
            return request.outcome
        if request is not None and request.found is not None:
            try:
                request.outcome = judge_found(
                    request, _get_folder(work), self.context.settings.backend
                )
            except StoreError as error:
                request.found, request.problem, request.is_told = None, str(error), False
            else:
                return request.outcome
        if work.run is None:
            raise VerifierError("nothing is handed over or computed yet")
        assert work.seat is not None
        claims = _get_claims(work.seat.view.tournament, board)
        return rule(work.run, work.job.terms, board, claims, self.context.settings.backend)


def _get_folder(work: Work) -> Path:
    """Return where what members hand over is kept until a match is over."""
    return work.store.path / HEARD


def _get_claims(known: Tournament, board: Board) -> tuple[Digest, Digest]:
    """Return what the two sides of a match have claimed."""
    return known.contenders[board.pair.first], known.contenders[board.pair.second]


def rule(
    run: Testimony,
    terms: Terms,
    board: Board,
    claims: tuple[Digest, Digest],
    backend: str = DEFAULT,
) -> Outcome:
    """Rule on a match from a run of one's own, against the trees of either side.

    It proves nothing where both sides have agreed on something else than was computed. Both have
    lied then, in their claims or in what they have committed to in the match, and neither wins.

    Raises:
        VerifierError: the operator could not be recomputed.
    """
    shown = [(run, side, claim) for side, claim in enumerate(claims)]
    return rule_by(terms, board, shown, backend)
