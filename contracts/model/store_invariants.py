"""What is true of all that a referee remembers, at all times: each a sentence and a function.

Tests, the exhaustive search and simulations share them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from moot.contracts.model import challenges
from moot.contracts.model.referee import are_terms_sound
from moot.contracts.model.types import MIN_BOND_WEI, Address, Claim, Job, Member, Pair, Store
from moot.contracts.model.words import hash_top, pack_claim, pack_member, pack_tally
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import MootError

SubjectT = TypeVar("SubjectT")


class BrokenInvariantError(MootError):
    """The referee has done what it must never do."""


@dataclass(frozen=True, slots=True)
class Books:
    """All that is remembered of one job."""

    job_id: int
    job: Job
    members: dict[Address, Member]
    claims: dict[bytes, Claim]
    matches: dict[Pair, Digest]
    meetings: dict[int, list[Claim]]

    def count(self, *standings: Standing) -> int:
        """Return how many members stand there."""
        return sum(member.standing in standings for member in self.members.values())


def open_books(store: Store) -> list[Books]:
    """Return what is remembered, job by job."""
    found = {job_id: Books(job_id, job, {}, {}, {}, {}) for job_id, job in store.jobs.items()}
    for (job_id, address), member in store.members.items():
        found[job_id].members[address] = member
    for (job_id, key), claim in store.claims.items():
        found[job_id].claims[key] = claim
        found[job_id].meetings.setdefault(claim.meeting, []).append(claim)
    for pair, digest in store.matches.items():
        found[pair.job_id].matches[pair] = digest
    return list(found.values())


def claims_are_tallied(books: Books) -> bool:
    """A job counts exactly the claims that have a contender."""
    return books.job.claims == sum(claim.contenders > 0 for claim in books.claims.values())


def hidden_are_tallied(books: Books) -> bool:
    """A job counts exactly the members that have not revealed; of a void one some may be paid."""
    left = books.job.hidden - books.count(Standing.COMMITTED)
    return left == 0 or (books.job.status is Status.VOID and 0 < left <= books.count(Standing.PAID))


def defeated_are_tallied(books: Books) -> bool:
    """A job counts exactly the members that have been defeated; of a void one some may be paid."""
    left = books.job.defeated - books.count(Standing.DEFEATED)
    return left == 0 or (books.job.status is Status.VOID and 0 < left <= books.count(Standing.PAID))


def prizes_are_conserved(books: Books) -> bool:
    """Every lost bond is one prize, which a member holds or which is forfeited."""
    held = sum(member.prizes for member in books.members.values())
    return held + books.job.forfeits == books.job.defeated


def only_contenders_hold_prizes(books: Books) -> bool:
    """Who has not shown a claim, or has been defeated, holds no prize."""
    without = {Standing.NONE, Standing.COMMITTED, Standing.DEFEATED}
    return all(not m.prizes for m in books.members.values() if m.standing in without)


def contenders_are_tallied(books: Books) -> bool:
    """A claim counts its members that are not out; one that is paid may have been out before."""
    standing = {Standing.REVEALED, Standing.LATE}
    counts = Counter(m.key for m in books.members.values() if m.standing in standing)
    paid = Counter(m.key for m in books.members.values() if m.standing is Standing.PAID)
    is_certain = not books.job.is_undecided and books.job.status is not Status.VOID
    out = Counter[bytes]() if is_certain else paid
    return all(
        counts[key] + paid[key] - out[key] <= claim.contenders <= counts[key] + paid[key]
        for key, claim in books.claims.items()
    )


def sharers_are_tallied(books: Books) -> bool:
    """A claim counts as sharers exactly its contenders that have not joined late."""
    revealed = Counter(m.key for m in books.members.values() if m.standing is Standing.REVEALED)
    paid = Counter(m.key for m in books.members.values() if m.standing is Standing.PAID)
    return all(
        revealed[key] <= claim.sharers <= revealed[key] + paid[key]
        for key, claim in books.claims.items()
    )


def shown_members_have_a_claim(books: Books) -> bool:
    """Who has shown a claim is a member of one that is remembered under its key."""
    hidden = {Standing.NONE, Standing.COMMITTED}
    keys = {m.key for m in books.members.values() if m.standing not in hidden}
    if books.job.status is Status.VOID:
        # Who had not shown a claim may be paid, too.
        return keys >= set(books.claims)
    return keys == set(books.claims)


def claims_lie_under_their_tops(books: Books) -> bool:
    """A claim is remembered under the key of its top."""
    return all(hash_top(claim.top) == key for key, claim in books.claims.items())


def matches_are_between_rivals(books: Books) -> bool:
    """A match is between two members that have shown different claims, lower address first."""
    for pair in books.matches:
        first, second = books.members.get(pair.first), books.members.get(pair.second)
        if first is None or second is None or first.key == second.key:
            return False
        if int(pair.first, 16) >= int(pair.second, 16):
            return False
        if not {first.key, second.key} <= books.claims.keys():
            return False
    return True


def live_matches_are_of_one_meeting(books: Books) -> bool:
    """While both members of a match contend, their claims are in one meeting."""
    for pair in books.matches:
        first, second = books.members[pair.first], books.members[pair.second]
        if first.is_contender and second.is_contender:
            meetings = {books.claims[member.key].meeting for member in (first, second)}
            if len(meetings) != 1 or meetings == {0}:
                return False
    return True


def meetings_are_of_two(books: Books) -> bool:
    """No more than two claims are in one meeting, and no meeting has a number not yet given."""
    counts = Counter(claim.meeting for claim in books.claims.values() if claim.meeting)
    return all(c <= 2 and number <= books.job.meetings for number, c in counts.items())


def _get_rival(books: Books, claim: Claim) -> Claim | None:
    if not claim.meeting:
        return None
    return next((c for c in books.meetings[claim.meeting] if c.top != claim.top), None)


def meetings_have_one_window(books: Books) -> bool:
    """Both claims of a meeting may be joined up to the same block, not after the job's window."""
    for claim in books.claims.values():
        rival = _get_rival(books, claim)
        if rival is not None and rival.window_end != claim.window_end:
            return False
        if claim.window_end > books.job.window_end:
            return False
    return True


def meetings_are_left_by_one_at_most(books: Books) -> bool:
    """Of the two claims of any meeting only one goes on to another, so that no meeting is empty."""
    return len(books.meetings.keys() - {0}) >= books.job.meetings


def only_the_beaten_are_left_behind(books: Books) -> bool:
    """A claim whose rival has gone on to meet another has no contender."""
    return all(
        claim.contenders == 0
        for claim in books.claims.values()
        if claim.meeting and _get_rival(books, claim) is None
    )


def claims_that_never_met_are_whole(books: Books) -> bool:
    """A claim that has met none has a contender, and no window."""
    return all(
        claim.contenders > 0 and claim.window_end == 0
        for claim in books.claims.values()
        if claim.meeting == 0
    )


def closed_jobs_have_one_claim_at_most(books: Books) -> bool:
    """A job that is won has one claim left, and one that is empty none, or an undecided match."""
    job = books.job
    if job.status is Status.WON:
        return job.claims == 1 and not job.is_undecided
    return job.status in {Status.OPEN, Status.VOID} or job.claims <= job.is_undecided


def undecided_jobs_have_released(books: Books) -> bool:
    """A job is undecided exactly if the verifier's silence has released members of it."""
    released = books.count(Standing.RELEASED)
    if books.job.status is Status.OPEN:
        return books.job.is_undecided == (released > 0)
    return books.job.is_undecided or released == 0


def the_client_is_owed_what_nobody_earned(books: Books) -> bool:
    """The client is owed the reward only once the job is closed, and if nobody shares it."""
    job = books.job
    if not job.is_client_owed:
        return True
    sharers = sum(claim.sharers for claim in books.claims.values() if claim.contenders)
    is_lost = job.is_undecided or job.status is Status.VOID or sharers == 0
    return job.status is not Status.OPEN and is_lost


def only_closed_jobs_have_paid(books: Books) -> bool:
    """Nobody is paid before the job is closed."""
    return books.job.status is not Status.OPEN or books.count(Standing.PAID) == 0


def windows_cover_the_challenge(books: Books) -> bool:
    """No job can be settled before the time is over in which new claims may join."""
    return books.job.window_end >= books.job.reveal_deadline + books.job.terms.window_blocks


def terms_are_sound(books: Books) -> bool:
    """Every job has a bond that pays for a match, and counts and clocks within their bounds."""
    terms = books.job.terms
    is_sound = are_terms_sound(terms) or challenges.are_terms_sound(terms)
    return terms.bond_wei >= MIN_BOND_WEI and is_sound


def words_have_room(books: Books) -> bool:
    """All that is remembered fits into the contract's words."""
    try:
        words = [pack_tally(books.job), *map(pack_member, books.members.values())]
        words += map(pack_claim, books.claims.values())
    except AssertionError:
        return False
    return all(word < 1 << 256 for word in words)


def calculate_liability(books: Books) -> int:
    """Return the wei that the referee holds for a job: all of it, or what is not yet collected."""
    job, terms = books.job, books.job.terms
    if job.status is Status.OPEN:
        return job.reward_wei + terms.bond_wei * len(books.members)
    owed = job.reward_wei if job.is_client_owed else 0
    for member in books.members.values():
        if member.keeps_bond(job.status):
            owed += terms.bond_wei
            if job.status is not Status.VOID:
                owed += member.prizes * terms.prize_wei
            if job.status is Status.WON and member.standing is Standing.REVEALED:
                owed += job.reward_wei // books.claims[member.key].sharers
    return owed


def the_balance_is_what_is_owed(store: Store) -> bool:
    """The referee holds to the wei what it owes, or may still owe."""
    return store.balance_wei == sum(map(calculate_liability, open_books(store)))


JOB_INVARIANTS: tuple[Callable[[Books], bool], ...] = (
    claims_are_tallied,
    hidden_are_tallied,
    defeated_are_tallied,
    prizes_are_conserved,
    only_contenders_hold_prizes,
    contenders_are_tallied,
    sharers_are_tallied,
    shown_members_have_a_claim,
    claims_lie_under_their_tops,
    matches_are_between_rivals,
    live_matches_are_of_one_meeting,
    meetings_are_of_two,
    meetings_have_one_window,
    meetings_are_left_by_one_at_most,
    only_the_beaten_are_left_behind,
    claims_that_never_met_are_whole,
    closed_jobs_have_one_claim_at_most,
    undecided_jobs_have_released,
    the_client_is_owed_what_nobody_earned,
    only_closed_jobs_have_paid,
    windows_cover_the_challenge,
    terms_are_sound,
    words_have_room,
)
STORE_INVARIANTS: tuple[Callable[[Store], bool], ...] = (the_balance_is_what_is_owed,)


def check_store(store: Store) -> None:
    """Check all that is true at all times.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    for books in open_books(store):
        require_all(JOB_INVARIANTS, books)
    require_all(STORE_INVARIANTS, store)


def require_all(invariants: Iterable[Callable[[SubjectT], bool]], subject: SubjectT) -> None:
    """Name the first of some invariants that is broken, if one is."""
    for invariant in invariants:
        require_kept(invariant(subject), invariant)


def require_kept(is_kept: bool, invariant: Callable[..., object]) -> None:  # noqa: FBT001 - a result
    """Name the invariant that is broken, if it is."""
    if not is_kept:
        raise BrokenInvariantError(f"{invariant.__name__}: {invariant.__doc__}")
