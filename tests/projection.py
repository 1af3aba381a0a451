"""The model in the contract's terms, for their comparison: argument ranges and storage words."""

from collections.abc import Callable, Sequence
from typing import Any

from moot.contracts.model.abi import get_key, unpack_job
from moot.contracts.model.referee import Memory, call
from moot.contracts.model.signatures import SIGNATURE_BYTES
from moot.contracts.model.types import Dive, Event, Message, Store, WideFacts
from moot.contracts.model.words import hash_pair, pack_claim, pack_member, pack_tally
from moot.contracts.reasons import Reason, Revert
from moot.offchain.commitments.tags import CHUNK_BYTES
from moot.offchain.programs.limits import MAX_EVIDENCE_BYTES, MAX_NODE_BYTES, MAX_RANK

_MAX_HEIGHT, _MAX_SIBLINGS, _MAX_ARITY, _MAX_VALUES_BYTES = 56, 8, 16, 504
_MAX_WIDE_VALUES_BYTES = 16 * 96
_MAX_HEADER_BYTES = 2 + 8 * MAX_RANK
_MAX_BYTES = {
    ("reach_chunk", 4): CHUNK_BYTES,
    ("pick_element", 3): CHUNK_BYTES,
    ("pick_element", 4): CHUNK_BYTES,
    ("pick_element", 5): _MAX_VALUES_BYTES,
    ("pick_segment", 3): _MAX_VALUES_BYTES,
    ("pick_segment", 6): _MAX_VALUES_BYTES,
    ("enter_tensor", 3): MAX_NODE_BYTES,
    ("leaf", 4): MAX_NODE_BYTES,
    ("leaf", 7): MAX_EVIDENCE_BYTES,
    ("prove_operator", 2): 32_768,
    ("prove_operand", 2): MAX_NODE_BYTES,
    ("prove_operand", 7): 2_080,
    ("show_operator", 2): MAX_NODE_BYTES,
    ("demand", 4): _MAX_HEADER_BYTES,
    ("show_chunk", 4): _MAX_HEADER_BYTES,
    ("show_chunk", 5): CHUNK_BYTES,
    ("challenge", 1): SIGNATURE_BYTES,
    ("refute_answer", 1): SIGNATURE_BYTES,
    ("prove_conflict", 1): SIGNATURE_BYTES,
    ("prove_conflict", 2): SIGNATURE_BYTES,
    ("prove_unlisted", 1): SIGNATURE_BYTES,
    ("redeem", 2): SIGNATURE_BYTES,
}
"""The greatest lengths, by call and argument."""


def call_model(
    store: Memory, name: str, message: Message, *args: Any, play: Callable[..., Any] = call
) -> tuple[Event, ...]:
    """Make a call on a model, unless the contract's types have no room for its arguments."""
    if not _fits(name, args):
        raise Revert(Reason.NO_REASON)
    events: tuple[Event, ...] = play(store, name, message, *args)
    return events


def _fits(name: str, args: Sequence[Any]) -> bool:
    """Whether the contract's types have room for the arguments; else it refuses without a word."""
    is_wide = any(isinstance(arg, WideFacts) for arg in args)
    for place, arg in enumerate(args):
        limit = _MAX_BYTES.get((name, place), 32)
        if is_wide and limit == _MAX_VALUES_BYTES:
            limit = _MAX_WIDE_VALUES_BYTES
        if isinstance(arg, bytes) and len(arg) > limit:
            return False
        if isinstance(arg, Dive) and (
            len(arg.siblings) > _MAX_SIBLINGS or len(arg.nodes) > _MAX_ARITY
        ):
            return False
        if isinstance(arg, tuple) and len(arg) > _MAX_HEIGHT:
            return False
    return True


def compare_words(view: Callable[..., Any], store: Store, job_id: int) -> None:
    """Check that every word that the contract remembers of a job is the model's.

    Args:
        view: asks the contract's getters, by name and arguments.
        store: what the model remembers.
        job_id: the job.
    """
    job, words = store.jobs[job_id], view("jobs", job_id)
    assert unpack_job(words) == job
    assert words[2] == pack_tally(job)
    for (of_job, account), member in store.members.items():
        if of_job == job_id:
            assert view("members", job_id, account) == pack_member(member)
    for (of_job, _), claim in store.claims.items():
        if of_job == job_id:
            assert view("claims", job_id, get_key(claim.top)) == pack_claim(claim)
    for pair, digest in store.matches.items():
        if pair.job_id == job_id:
            assert view("matches", hash_pair(pair)) == digest
