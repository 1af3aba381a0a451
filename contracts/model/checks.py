"""Checks and readings that several calls share."""

from contracts.model.types import Job, Match, Store
from contracts.reasons import Phase, Reason, Revert
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Digest

CHALLENGER_TO_MOVE = frozenset({Phase.LEAF, Phase.SINK})
"""Phases without an opening of the defender's: the challenger has to prove its point."""


def require(condition: bool, reason: Reason) -> None:  # noqa: FBT001 - reads as the contract does
    """Refuse the call unless the condition holds."""
    if not condition:
        raise Revert(reason)


def get_job(store: Store, job_id: int) -> Job:
    """Return a job that exists."""
    require(job_id < len(store.jobs), Reason.NO_SUCH_JOB)
    return store.jobs[job_id]


def is_challengers_turn(match: Match) -> bool:
    """Whether the challenger's clock is running (never in VERIFIER, where the verifier's is)."""
    return match.opened or match.phase in CHALLENGER_TO_MOVE


def compute_position(store: Store, job_id: int, match: Match) -> Digest:
    """Return the digest of where a match stands: every move names it, so none can be retargeted."""
    words = (
        Tag.POSITION,
        store.chain_id,
        int(store.address, 16),
        job_id,
        match.number,
        match.moves,
        match.phase,
        match.opened,
        match.level,
        match.index,
        match.element,
        match.low,
    )
    return keccak256(b"".join(int(word).to_bytes(32, "big") for word in words) + match.node)
