"""Matches that stop at an operator, played on the model, for tests of what members hand over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moot.contracts.model.types import Facts, Terms
from moot.contracts.reasons import LeafMode, Outcome
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.evidence.handover import hand_over
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.board import Board, get_place
from moot.offchain.errors import UnprovenEvidence, VerifierError
from moot.offchain.parties.evidence_requests import EvidenceRequest, judge_found
from moot.offchain.parties.verifier import rule
from moot.offchain.providers.run import Run
from tests.end_to_end.fixtures import Case, make_game, open_model_court


@dataclass(frozen=True)
class Stopped:
    """A match that waits for the verifier.

    Attributes:
        terms: the job's.
        board: the match.
        runs: those of side 0 and of side 1.
    """

    terms: Terms
    board: Board
    runs: tuple[Run, Run]

    @property
    def place(self) -> Facts:
        """What the match has found out."""
        return get_place(self.board)

    @property
    def claims(self) -> tuple[Digest, Digest]:
        """What the sides have claimed."""
        return self.runs[0].history.top, self.runs[1].history.top

    def hand_over(self, folder: Path, side: int) -> bool:
        """Let a side hand over what it can into a folder; return whether it can."""
        try:
            size = hand_over(open_store(str(folder)), self.runs[side], self.terms, self.place, side)
        except UnprovenEvidence:
            return False
        assert size
        return True

    def make_request(self) -> EvidenceRequest:
        """Return a request about the match."""
        return EvidenceRequest(self.terms, self.board, self.claims)

    def rule_by_run(self, run: Run) -> Outcome:
        """Return the ruling of a verifier that has run the job."""
        return rule(run, self.terms, self.board, self.claims)


def judge(request: EvidenceRequest, folder: Path) -> Outcome:
    """Return the ruling by what was handed over."""
    assert request.found, request.problem
    return judge_found(request, folder)


def stop(case: Case, runs: Sequence[Run], *, is_turned: bool = False) -> Stopped:
    """Play a match of two until it stops at an operator; the one who joins first is side 0."""
    found: list[tuple[Board, Game]] = []

    def ruler(_terms: Terms, board: Board, game: Game) -> Outcome:
        found.append((board, game))
        raise VerifierError("it is not asked here")

    names = {
        f"player-{number}": run for number, run in enumerate(runs[::-1] if is_turned else runs)
    }
    game = replace(
        make_game(open_model_court(case.task.program.arithmetic), case, names, LeafMode.OPERATOR),
        ruler=ruler,
    )
    for _ in game.play():
        if found:
            break
    assert found, "the match has not stopped at an operator"
    board = found[0][0]
    first, second = (game.find_player(it) for it in (board.pair.first, board.pair.second))
    assert first is not None
    assert second is not None
    assert isinstance(first.run, Run)
    assert isinstance(second.run, Run)
    return Stopped(game.terms, board, (first.run, second.run))
