"""The referee of challenges: jobs that begin with a match between two members who have revealed.

Its matches, its money and the end of its jobs are the referee's. Nobody opens a job, commits or
reveals; no verifier rules; and no job is void: half a bond at least is burned whatever happens, so
that no provider gets its bond out of a service by a challenge of its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

from moot.contracts.model import referee
from moot.contracts.model.checks import put_claim, require
from moot.contracts.model.referee import are_counts_sound, make_call
from moot.contracts.model.turns import start
from moot.contracts.model.types import (
    MAX_BLOCKS,
    MIN_BOND_WEI,
    NOBODY,
    Address,
    Claim,
    Event,
    Job,
    Member,
    Message,
    Pair,
    Store,
    Terms,
)
from moot.contracts.model.words import hash_top
from moot.contracts.reasons import LeafMode, Reason, Standing
from moot.offchain.commitments.tree import Digest


def call(store: Store, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the store is as it was.
    """
    return make_call(store, name, message, args, CALLS, _PAYABLE)


def on_enter(
    store: Store,
    message: Message,
    terms: Terms,
    client: Address,
    provider: Address,
    challenger: Address,
    tops: tuple[Digest, Digest],
) -> None:
    """Open a job with two members in it, and begin their match; the value is both bonds.

    Anyone may: whoever calls pays for both, and touches nothing but a new job. `tops` are those of
    the provider's history and of the challenger's.
    """
    require(terms.bond_wei >= MIN_BOND_WEI, Reason.BOND_TOO_SMALL)
    require(are_terms_sound(terms), Reason.ABSURD_TERMS)
    require(message.value_wei == 2 * terms.bond_wei, Reason.WRONG_BOND)
    require(int(provider, 16) != int(challenger, 16), Reason.ALREADY_JOINED)
    require(hash_top(tops[0]) != hash_top(tops[1]), Reason.NO_DISPUTE)
    job_id, end = len(store.jobs), message.block + terms.window_blocks
    job = Job(client, terms, 0, message.block, end, claims=2, meetings=1)
    store.put(store.jobs, job_id, job)
    store.events.append(Event("JobOpened", (job_id, client)))
    members = ((provider, tops[0]), (challenger, tops[1]))
    for account, top in members:
        put_claim(store, job_id, Claim(top, contenders=1, sharers=1, meeting=1, window_end=end))
        member = Member(Standing.REVEALED, hash_top(top))
        store.put(store.members, (job_id, account), member)
        store.events.append(Event("Claimed", (job_id, account, top)))
    (first, top), (second, other) = sorted(members, key=lambda it: int(it[0], 16))
    start(store, message, Pair(job_id, first, second), job, (top, other))


def are_terms_sound(terms: Terms) -> bool:
    """Whether all is as in a referee's job, but that nobody commits or reveals, and none rules."""
    return (
        are_counts_sound(terms)
        and (terms.leaf_mode, terms.verifier) == (LeafMode.SCALAR, NOBODY)
        and terms.commit_blocks == terms.reveal_blocks == 0
        and 1 <= terms.window_blocks <= MAX_BLOCKS
    )


_ELSEWHERE = {"open_job", "commit", "reveal", "rule", "prove_operator", "prove_operand"}
CALLS: Final[Mapping[str, Callable[..., None]]] = {
    "enter": on_enter,
    **{name: play for name, play in referee.CALLS.items() if name not in _ELSEWHERE},
}
_PAYABLE = frozenset({"enter", "join"})
