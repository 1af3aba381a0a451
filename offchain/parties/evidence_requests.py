"""Requests for evidence: what members hand over about a match that waits for the verifier's ruling.

Places may say anything, at any speed, or nothing. So each request has a thread, and an end, after
which the verifier goes on without it.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from moot.contracts.model.types import Facts, Pair, Position, Terms
from moot.contracts.reasons import Outcome
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.store import open_copying, open_store
from moot.offchain.disputes.evidence.handover import fetch_evidence, load_operands
from moot.offchain.disputes.evidence.rulings import Evidence, judge
from moot.offchain.disputes.referee.board import Board, get_place
from moot.offchain.errors import CostBoundExceeded, StoreError, UsageError, WrongContent

TOGETHER = 4
"""Requests that go on at a time; the others wait."""
PATIENCE_S = 10.0
"""Seconds that a place may take until an answer begins, and from one piece to the next."""
LEAST_S = 1.0
"""Seconds that every place is given at least."""
RETRY_S = 0.5
"""What is not there yet is asked for again after so many seconds."""


@dataclass
class EvidenceRequest:
    """The request for what members hand over about one match.

    Attributes:
        terms: the job's.
        board: the match.
        claims: what the two sides have claimed.
        found: the evidence that is there, all of it, once it is.
        url: who has served it.
        problem: why there is none, once that is certain.
        is_hopeless: whether the operator costs more than the verifier may spend.
        seconds: how long it has taken.
        outcome: the ruling, once the operator was recomputed.
        is_told: whether it was said what has come of it.
    """

    terms: Terms
    board: Board
    claims: tuple[Digest, Digest]
    found: Evidence | None = None
    url: str = ""
    problem: str = ""
    is_hopeless: bool = False
    seconds: float = 0.0
    outcome: Outcome | None = None
    is_told: bool = False

    @property
    def place(self) -> Facts:
        """What the match has found out."""
        return get_place(self.board)


@dataclass
class EvidenceRequests:
    """All requests of a verifier; a context manager that gives up those that go on.

    Attributes:
        urls: where members serve what they hand over.
    """

    urls: Sequence[str]
    _begun: dict[tuple[Pair, Position], EvidenceRequest] = field(default_factory=dict)
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(TOGETHER))
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def find(self, board: Board) -> EvidenceRequest | None:
        """Return the request about a match, if one was begun."""
        return self._begun.get(board.standing)

    def begin(self, request: EvidenceRequest, folder: Path, seconds: float) -> None:
        """Begin a request.

        Args:
            request: what it is about.
            folder: where to have what is handed over.
            seconds: how long it may take.
        """
        self._begun[request.board.standing] = request
        until = time.monotonic() + seconds
        threading.Thread(target=self._collect, args=(request, folder, until), daemon=True).start()

    def forget(self, job_id: int, boards: Sequence[Board]) -> None:
        """Forget the requests of a job but those about some matches."""
        kept = {board.standing for board in boards}
        for key in [it for it in self._begun if it[0].job_id == job_id and it not in kept]:
            del self._begun[key]

    def _collect(self, request: EvidenceRequest, folder: Path, until: float) -> None:
        try:
            with self._turns:
                collect_evidence(request, folder, self.urls, until, self._is_over)
        except BaseException as error:
            request.problem = f"the request has failed: {error!r}"
            raise


def collect_evidence(
    request: EvidenceRequest,
    folder: Path,
    urls: Sequence[str],
    until: float,
    is_over: threading.Event,
) -> None:
    """Ask all places for all that a ruling needs, until one of them has it, or it is too late.

    Of the time that is left each has an equal share. What is not there is asked for again; whoever
    has served something else than was agreed is asked no more.

    Args:
        request: what is asked for; it takes what is found.
        folder: where to have it.
        urls: the places.
        until: when to stop, as `time.monotonic` has it.
        is_over: when to give up in any case.
    """
    left, problems = list(urls), dict.fromkeys(urls, "it was not asked")
    began = time.monotonic()
    while left and not is_over.is_set():
        for place, url in enumerate(tuple(left)):
            now = time.monotonic()
            share_s = max((until - now) / (len(left) - place), LEAST_S)
            try:
                evidence = _ask(request, folder, url, share_s, is_over)
            except CostBoundExceeded as error:
                request.is_hopeless, request.problem = True, str(error)
                return
            except (StoreError, UsageError) as error:
                problems[url] = str(error)
                if isinstance(error, WrongContent):
                    left.remove(url)
            else:
                request.url, request.seconds = url, time.monotonic() - began
                request.found = evidence
                return
        if time.monotonic() >= until:
            break
        is_over.wait(RETRY_S)
    request.seconds = time.monotonic() - began
    request.problem = "; ".join(problems.values())


def _ask(
    request: EvidenceRequest, folder: Path, url: str, seconds: float, is_over: threading.Event
) -> Evidence:
    """Have evidence from one place: of either side, since both have agreed on what is read.

    Raises:
        WrongContent: the place has served nothing but what is not agreed on.
        StoreError: it has not all, or it has come too late, or the disk fails.
        CostBoundExceeded: the operator costs more than the verifier may spend.
    """
    end = time.monotonic() + seconds

    def is_late() -> bool:
        return is_over.is_set() or time.monotonic() > end

    store = open_copying(url, Disk(folder), min(PATIENCE_S, seconds), is_late)
    errors: list[StoreError] = []
    for side, claim in enumerate(request.claims):
        try:
            return fetch_evidence(store, request.terms, request.place, side, claim)
        except StoreError as error:
            errors.append(error)
    raise next((it for it in errors if not isinstance(it, WrongContent)), errors[0])


def judge_found(request: EvidenceRequest, folder: Path, backend: str = DEFAULT) -> Outcome:
    """Rule on a match from the evidence that was found, by what a backend computes.

    Raises:
        StoreError: the evidence is not in the folder any more.
        VerifierError: the operator could not be recomputed.
    """
    assert request.found is not None
    evidence, board = request.found, request.board
    operands = load_operands(open_store(str(folder)), evidence)
    claim, outputs = request.claims[evidence.side], board.position.nodes
    terms, place = request.terms, request.place
    return judge(evidence, operands, terms, place, claim, outputs, backend=backend)
