"""What members of a match hand over to the verifier, among the results that they serve."""

from collections.abc import Iterable

from moot.contracts.model.types import Pair, Position
from moot.contracts.reasons import Phase
from moot.offchain.disputes.evidence.handover import hand_over
from moot.offchain.disputes.referee.board import Board, get_place
from moot.offchain.errors import UnprovenEvidence
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.turns import Seat
from moot.offchain.providers.store import Store


class EvidencePublisher:
    """A member of matches, which hands over what a ruling about one of them needs, once each.

    Args:
        context: where it works.
    """

    def __init__(self, context: PartyContext) -> None:
        self._context = context
        self._done: set[tuple[Pair, Position]] = set()

    def has_more(self, seat: Seat) -> bool:
        """Whether a match of this member waits for what it has not handed over yet."""
        return any(self._list(seat))

    def publish(self, results: Store, run: Recalled, seat: Seat) -> None:
        """Hand over what the ruling needs that is due first.

        Args:
            results: the store that is served.
            run: what the member has computed.
            seat: its seat at the job's table.

        Raises:
            StoreError: the disk fails; it may be tried again.
        """
        board = min(self._list(seat), key=lambda it: it.position.deadline)
        place, terms = get_place(board), seat.view.job.terms
        side = (board.pair.first, board.pair.second).index(self._context.address)
        about = f"job {seat.job_id}: what operator {place.operator} of step {place.step} reads"
        try:
            size = hand_over(results, run, terms, place, side)
        except UnprovenEvidence as error:
            line = f"{about} can't be handed over, as this member has committed to something else"
            self._context.tell("withheld", f"{line}: {error}", job=seat.job_id)
        else:
            if size is not None:
                line = f"{about} is handed over, {size:,} bytes"
                self._context.tell("handed", line, job=seat.job_id, bytes=size)
        self._done.add(board.standing)

    def _list(self, seat: Seat) -> Iterable[Board]:
        """Yield the matches of this member that wait for a ruling, and for what it hands over."""
        for board in seat.view.tournament.boards.values():
            is_own = self._context.address in {board.pair.first, board.pair.second}
            is_waiting = board.position.phase is Phase.VERIFIER
            if is_own and is_waiting and board.standing not in self._done:
                yield board
