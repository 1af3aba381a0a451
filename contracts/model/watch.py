"""Follows a referee call by call, and brings any of its jobs to an end.

`Watcher` checks every step and what takes a whole story to see. `finish` shows that nobody's bond
is locked for ever: it closes all jobs by calls that anybody may make.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, cast

from moot.contracts.model.checks import find_rival, is_free, is_rival, name_match
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.referee import call
from moot.contracts.model.step_invariants import Step, check_step, get_match_bound
from moot.contracts.model.store_invariants import open_books, require_kept
from moot.contracts.model.types import (
    NOBODY,
    ZERO,
    Address,
    Claim,
    Event,
    Member,
    Message,
    Pair,
    Position,
    Store,
)
from moot.contracts.reasons import Standing, Status

_HIDDEN = frozenset({Standing.NONE, Standing.COMMITTED})


@dataclass(slots=True)
class Watcher:
    """Follows a store call by call, checks every step, and remembers what steps cannot show.

    Attributes:
        honest: the honest members of each job; they answer in time, and have the honest claim.
        positions: where every match stands that has not ended.
        started: the block in which each match began.
        collected: what every account has been paid for a job, in wei.
    """

    honest: dict[int, frozenset[Address]] = field(default_factory=dict)
    positions: dict[Pair, Position] = field(default_factory=dict)
    started: dict[Pair, int] = field(default_factory=dict)
    collected: dict[tuple[int, Address], int] = field(default_factory=lambda: defaultdict(int))

    def watch(self, step: Step) -> None:
        """Check one accepted call.

        Raises:
            BrokenInvariantError: something is not as it always should be.
        """
        check_step(step)
        self.read(step.events, step.message.block)
        if step.moved is not None:
            is_kept = self.durations_are_bounded(step.args[0], step.after)
            require_kept(is_kept, Watcher.durations_are_bounded)
        is_kept = self.an_honest_claim_never_loses(step.after)
        require_kept(is_kept, Watcher.an_honest_claim_never_loses)

    def read(self, events: tuple[Event, ...], block: int) -> None:
        """Remember what a call has announced."""
        for event in events:
            args = cast("tuple[Any, ...]", event.args)
            if event.name == "MatchStarted":
                self.started[Pair(*args[:3])] = block
            if event.name in {"MatchStarted", "Moved"}:
                self.positions[Pair(*args[:3])] = args[3]
            elif event.name == "MatchEnded":
                self.positions.pop(Pair(*args[:3]), None)
            elif event.name == "Collected":
                self.collected[args[:2]] += args[2]

    def durations_are_bounded(self, pair: Pair, store: Store) -> bool:
        """Both clocks of a match run out within its closed-form bound from its first block."""
        position, terms = self.positions[pair], store.jobs[pair.job_id].terms
        bound = self.started[pair] + get_match_bound(terms, position.moves)
        return position.deadline <= bound

    def an_honest_claim_never_loses(self, store: Store) -> bool:
        """No honest member is ever defeated, and a job that one has joined is won by its claim.

        A job with a match on which the verifier has not ruled is won by nobody.
        """
        for job_id, addresses in self.honest.items():
            members = [store.members.get((job_id, address), Member()) for address in addresses]
            shown = [member for member in members if member.standing not in _HIDDEN]
            if any(member.standing is Standing.DEFEATED for member in shown):
                return False
            job = store.jobs[job_id]
            if not shown or job.status in {Status.OPEN, Status.VOID} or job.is_undecided:
                continue
            if store.claims[job_id, shown[0].key].contenders == 0:
                return False
        return True


def finish(store: Store, positions: Mapping[Pair, Position], block: int) -> int:
    """Close all jobs and collect all debts by calls that anybody may make; return the last block.

    Whatever the store, nobody needs to move, to reveal or to agree for it, and no wei is left.

    Raises:
        Revert: a call is refused that should not be.
        BrokenInvariantError: something is left.
    """
    watcher = Watcher(positions=dict(positions))
    for books in open_books(store):
        block = _close(store, watcher, books.job_id, block)
        for address in {books.job.client, *books.members}:
            if calculate_debt(store, books.job_id, store.jobs[books.job_id], address):
                call(store, "collect", Message(address, 0, block), books.job_id)
    require_kept(store.balance_wei == 0, finish)
    return block


def _close(store: Store, watcher: Watcher, job_id: int, block: int) -> int:
    block = max(block, store.jobs[job_id].reveal_deadline + 1)
    while store.jobs[job_id].claims > 1 and store.jobs[job_id].status is Status.OPEN:
        pair = _find_pair(store, job_id, block)
        if pair is None:
            block = store.jobs[job_id].window_end + 1
            continue
        if pair not in store.matches:
            args = name_match(store, pair)
            watcher.read(call(store, "start_match", Message(NOBODY, 0, block), *args), block)
        position = watcher.positions[pair]
        block = max(block, position.deadline + 1)
        watcher.read(call(store, "timeout", Message(NOBODY, 0, block), pair, position), block)
    if store.jobs[job_id].status is Status.OPEN:
        block = max(block, store.jobs[job_id].window_end + 1)
        tops = [
            c.top for (of_job, _), c in store.claims.items() if of_job == job_id and c.contenders
        ]
        call(store, "settle", Message(NOBODY, 0, block), job_id, *(tops or [ZERO]))
    return block


def may_play(store: Store, job_id: int, claims: tuple[Claim, Claim], block: int) -> bool:
    """Whether members of two claims may begin a match: they meet, or both are free to."""
    if claims[0].top == claims[1].top:
        return False
    return is_rival(*claims) or all(
        is_free(claim, find_rival(store, job_id, claim), block) for claim in claims
    )


def _find_pair(store: Store, job_id: int, block: int) -> Pair | None:
    """Return two contenders of claims that meet, or may meet now."""
    members = [
        (address, store.claims[job_id, member.key])
        for (of_job, address), member in store.members.items()
        if of_job == job_id and member.is_contender
    ]
    for (one, claim), (other, opposed) in combinations(members, 2):
        if may_play(store, job_id, (claim, opposed), block):
            first, second = sorted((one, other), key=lambda address: int(address, 16))
            return Pair(job_id, first, second)
    return None
