"""A bounded verifier: it rules on matches that stop at an operator, in jobs that name its account.

It has nothing from the members of a match: it runs the job itself, proves what the operator reads
against the claim that it has found true, and recomputes the operator in its sandbox.
"""

from contracts.model.types import Terms
from contracts.reasons import LeafMode, Outcome
from offchain.disputes.actors import Caller
from offchain.disputes.board import Board, get_place
from offchain.disputes.evidence import collect, judge
from offchain.disputes.party import Party
from offchain.disputes.tournament import Tournament
from offchain.errors import UnprovenEvidence, VerifierError
from offchain.parties.keeper import Keeper, Work
from offchain.parties.recall import Recalled
from offchain.parties.turns import Seat
from offchain.parties.workshop import Checks


class Verifier(Keeper):
    """A verifier at its desk."""

    def consider(self, work: Work) -> None:
        """See Keeper."""
        terms, own = work.job.terms, self.desk.address
        if terms.leaf_mode is not LeafMode.OPERATOR or terms.verifier.lower() != own.lower():
            self.leave(work)
            return

        def decide(board: Board) -> Outcome:
            assert work.seat is not None
            if work.run is None:
                raise VerifierError("the job is not computed yet")
            return rule(work.run, terms, board, work.seat.view.tournament)

        self.sit(work, Party((), [Caller("verifier", own, decide)]))
        line = f"job {work.job_id} names this verifier"
        self.desk.tell("named", line, job=work.job_id)

    def observe(self, work: Work, seat: Seat) -> None:
        """Compute a job once a match of it has begun."""
        block = self.desk.referee.block_number()
        if not seat.view.tournament.boards or work.is_computing or block < work.next_block:
            return
        if self.recall(work) is None:
            self.compute(work, Checks.NONE)


def rule(run: Recalled, terms: Terms, board: Board, known: Tournament) -> Outcome:
    """Rule on a match, from a run of one's own.

    Neither side wins where both claim something else than was computed: what they have agreed on
    may be wrong then, so that nobody can prove it.

    Raises:
        VerifierError: the operator could not be recomputed.
    """
    place, arithmetic = get_place(board), run.task.program.arithmetic
    for side, member in enumerate((board.pair.first, board.pair.second)):
        claim = known.contenders[member]
        if claim != run.history.top:
            continue
        try:
            evidence = collect(run, place, side)
            return judge(arithmetic, evidence, terms, place, claim, board.position.nodes)
        except UnprovenEvidence as error:
            raise VerifierError(f"the own run does not fit the match: {error}") from error
    return Outcome.NEITHER
