"""A bounded verifier: it rules on matches that stop at an operator, in jobs that name its account.

It recomputes the operator in its sandbox, from what members of the match hand over (`hearing.py`).
Where nobody hands over all of it, the verifier runs the job itself, as one more whose evidence
counts if it is proven: what is proven is the same, whoever brings it.
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
from moot.offchain.parties.hearing import Hearing, Hearings, judge_found
from moot.offchain.parties.keeper import Keeper
from moot.offchain.parties.live import Desk
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


class Verifier(Keeper):
    """A verifier at its desk."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        urls = split_list(desk.settings.results)
        for url in urls:
            if url.startswith(("http://", "https://")):
                Web(url)  # which refuses what is no address
        self._hearings = Hearings(urls)

    def run(self) -> None:
        """Look after the jobs until the process is ended."""
        with self._hearings:
            super().run()

    def consider(self, work: Work) -> None:
        """See Keeper."""
        terms, own = work.job.terms, self.desk.address
        if terms.leaf_mode is not LeafMode.OPERATOR or terms.verifier.lower() != own.lower():
            self.leave(work)
            return
        self.sit(work, Party((), [Caller("verifier", own, lambda it: self._decide(work, it))]))
        line = f"job {work.job_id} names this verifier"
        self.desk.tell("named", line, job=work.job_id)

    def observe(self, work: Work, seat: Seat) -> None:
        """Hear the members of matches that wait for a ruling; compute a job where that fails.

        Where nobody can be heard, a job is computed once a match of it has begun.
        """
        boards = seat.view.tournament.boards
        waiting = [it for it in boards.values() if it.position.phase is Phase.VERIFIER]
        self._hearings.forget(work.job_id, waiting)
        if not waiting:
            shutil.rmtree(_get_folder(work), ignore_errors=True)
        is_needed = bool(boards)
        if self._hearings.urls:
            unheard = [self._hear(work, seat.view.tournament, board) for board in waiting]
            is_needed = any(unheard)
        block = self.desk.referee.block_number()
        if not is_needed or work.is_computing or block < work.next_block:
            return
        if self.recall(work) is None:
            self.compute(work, Checks.COST)

    def refuse(self, work: Work, problem: str) -> None:
        """Rule on a job by what members hand over, and by nothing else."""
        self.wait(work, problem)
        work.next_block = NEVER

    def leave(self, work: Work, problem: str = "") -> None:
        """See Keeper."""
        shutil.rmtree(_get_folder(work), ignore_errors=True)
        super().leave(work, problem)

    def _hear(self, work: Work, known: Tournament, board: Board) -> bool:
        """Go on with the hearing about a match; return whether it has failed."""
        hearing, block = self._hearings.find(board), self.desk.referee.block_number()
        clock, deadline = board.position.clock_blocks, board.position.deadline
        end = deadline - clock + clock // EVIDENCE_SHARE
        if hearing is None:
            hearing = Hearing(work.job.terms, board, _get_claims(known, board))
            seconds = max(0, end - block) * self.desk.settings.block_seconds
            self._hearings.begin(hearing, _get_folder(work), seconds)
        if hearing.found is not None or hearing.is_hopeless:
            self._tell(work, hearing)
            return False
        if not hearing.problem and block > end:
            hearing.problem = "it takes too long"
        if hearing.problem:
            self._tell(work, hearing)
        return bool(hearing.problem)

    def _tell(self, work: Work, hearing: Hearing) -> None:
        """Say once what has come of a hearing."""
        if hearing.is_told:
            return
        hearing.is_told = True
        place, about = hearing.place, {"job": work.job_id, "seconds": hearing.seconds}
        what = f"job {work.job_id}: what operator {place.operator} of step {place.step} reads"
        if hearing.found is not None:
            size = count_bytes(hearing.found)
            line = f"{what} is handed over by {hearing.url}, {size:,} bytes"
            self.desk.tell("heard", line, url=hearing.url, bytes=size, **about)
        elif hearing.is_hopeless:
            self.desk.tell("unheard", f"{what} is not asked for: {hearing.problem}", **about)
        else:
            line = f"{what} is handed over by nobody ({hearing.problem}); the job is run instead"
            self.desk.tell("unheard", line, **about)

    def _decide(self, work: Work, board: Board) -> Outcome:
        """Return the ruling on a match.

        Raises:
            VerifierError: there is none yet, or the operator could not be recomputed.
        """
        hearing = self._hearings.find(board)
        if hearing is not None and hearing.outcome is not None:
            return hearing.outcome
        if hearing is not None and hearing.found is not None:
            try:
                hearing.outcome = judge_found(
                    hearing, _get_folder(work), self.desk.settings.backend
                )
            except StoreError as error:
                hearing.found, hearing.problem, hearing.is_told = None, str(error), False
            else:
                return hearing.outcome
        if work.run is None:
            raise VerifierError("nothing is handed over or computed yet")
        assert work.seat is not None
        claims = _get_claims(work.seat.view.tournament, board)
        return rule(work.run, work.job.terms, board, claims, self.desk.settings.backend)


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
