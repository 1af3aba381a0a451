"""What all moves of a match have in common: who is to move, what it answers, whose clock runs."""

from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model.checks import get_contender, get_open_job, require
from moot.contracts.model.ledger import end_match
from moot.contracts.model.types import (
    Event,
    Facts,
    Job,
    Member,
    Message,
    Pair,
    Position,
    Store,
    start_facts,
)
from moot.contracts.model.words import hash_facts, hash_position
from moot.contracts.reasons import Ending, Outcome, Phase, Reason
from moot.offchain.commitments.tree import Digest, get_height


@dataclass(slots=True)
class Turn:
    """One move being made: the call's surroundings, checked before the move itself is.

    `facts` are those that the move has changed, if it has.
    """

    store: Store
    message: Message
    pair: Pair
    job: Job
    position: Position
    facts: Facts | None = None

    @property
    def mover(self) -> int:
        """The side that is to move."""
        return self.position.mover

    def change(self, **changes: Any) -> None:
        """Change where the match stands."""
        self.position = replace(self.position, **changes)

    def find(self, facts: Facts) -> None:
        """Remember what the match has found out."""
        self.facts = facts
        self.change(facts=hash_facts(facts))

    def put_node(self, side: int, node: Digest) -> None:
        """Change one side's node."""
        nodes = self.position.nodes
        self.change(nodes=(node, nodes[1]) if side == 0 else (nodes[0], node))

    def require_own(self) -> None:
        """Refuse anybody but the member whose bond the move risks."""
        mover = (self.pair.first, self.pair.second)[self.mover]
        require(self.message.sender == mover, Reason.NOT_YOURS)

    def pass_on(self, nodes: tuple[Digest, ...] = (), data: bytes = b"") -> None:
        """End the move: charge the mover's clock, start the other's, and announce it."""
        position, block = self.position, self.message.block
        left = position.deadline - block + position.increment_blocks
        budget = position.spare_blocks
        if position.phase is Phase.VERIFIER:
            budget = position.clock_blocks
        self.change(
            mover=1 - position.mover,
            spare_blocks=min(left, position.clock_blocks),
            deadline=block + budget,
            moves=position.moves + 1,
        )
        _put(self.store, self.pair, self.position)
        args = (self.pair.job_id, self.pair.first, self.pair.second)
        if self.facts is not None:
            self.store.events.append(Event("Found", (*args, self.facts)))
        self.store.events.append(Event("Moved", (*args, self.position, nodes, data)))

    def decide(self, ending: Ending, is_right: tuple[bool, bool], computed: int = 0) -> None:
        """End the match, given which sides are right; no two that differ can both be.

        `computed` is what the leaf has computed, if the match ends there.
        """
        outcome = Outcome.NEITHER
        if True in is_right:
            outcome = Outcome(is_right.index(True))
        self.end(ending, outcome, computed)

    def end(self, ending: Ending, outcome: Outcome, computed: int = 0) -> None:
        """End the match, if the job is open and both are still contenders."""
        get_open_job(self.store, self.pair.job_id)
        end_match(self.store, self.pair, outcome, rivals=self._get_rivals())
        args = (self.pair.job_id, self.pair.first, self.pair.second, outcome, ending, computed)
        self.store.events.append(Event("MatchEnded", args))

    def _get_rivals(self) -> tuple[Member, Member]:
        """Return both members; refuse the call if another match has defeated one of them."""
        return (
            get_contender(self.store, self.pair.job_id, self.pair.first),
            get_contender(self.store, self.pair.job_id, self.pair.second),
        )


def load(store: Store, message: Message, pair: Pair, position: Position) -> Turn:
    """Check that the match stands where the call says that it does.

    A move in a job that is closed meanwhile changes nothing but the word of its match.
    """
    require(store.matches.get(pair) == hash_position(pair, position), Reason.STALE)
    return Turn(store, message, pair, store.jobs[pair.job_id], position)


def begin(store: Store, message: Message, pair: Pair, position: Position, *phases: Phase) -> Turn:
    """Check what all moves have in common: the position, the phase, the clock."""
    turn = load(store, message, pair, position)
    require(position.phase in phases, Reason.WRONG_PHASE)
    require(message.block <= position.deadline, Reason.CLOCK_EXPIRED)
    return turn


def begin_with(
    store: Store, message: Message, pair: Pair, position: Position, facts: Facts, *phases: Phase
) -> Turn:
    """Check the facts, too, on which a move builds."""
    turn = begin(store, message, pair, position, *phases)
    require(hash_facts(facts) == position.facts, Reason.STALE)
    return turn


def start(
    store: Store, message: Message, pair: Pair, job: Job, tops: tuple[Digest, Digest]
) -> None:
    """Begin a match at the tops of two histories; side 0 is to move."""
    clock = job.terms.clock_blocks
    position = Position(
        phase=Phase.HISTORY,
        mover=0,
        deadline=message.block + clock,
        spare_blocks=clock,
        clock_blocks=clock,
        increment_blocks=job.terms.increment_blocks,
        nodes=tops,
        count=job.terms.checkpoints,
        level=get_height(job.terms.checkpoints),
        entered=2,
        facts=hash_facts(start_facts(store.arithmetic)),
    )
    _put(store, pair, position)
    args = (pair.job_id, pair.first, pair.second, position)
    store.events.append(Event("MatchStarted", args))


def _put(store: Store, pair: Pair, position: Position) -> None:
    store.put(store.matches, pair, hash_position(pair, position))
