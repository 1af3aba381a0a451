"""What is true of the referee after every call, each a sentence and a function.

`check_step` says which invariant an accepted call has broken; those that need a whole story are in
`watch.py`. Tests, the exhaustive search and simulations share them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model import challenges
from moot.contracts.model.checks import find_rival
from moot.contracts.model.descent import BOTH, NODE_TAGS
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.referee import are_terms_sound
from moot.contracts.model.types import (
    FOLD_ARITY,
    MIN_BOND_WEI,
    WIDE_FOLD_ARITY,
    Address,
    Claim,
    Event,
    Facts,
    Job,
    Member,
    Message,
    Pair,
    Position,
    Store,
    Terms,
)
from moot.contracts.model.words import (
    announce,
    hash_position,
    hash_top,
    pack_claim,
    pack_member,
    pack_tally,
)
from moot.contracts.reasons import Ending, LeafMode, Outcome, Phase, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import MAX_ARITY_LOG2, Digest, get_block, get_height
from moot.offchain.errors import MootError

_MAX_CHUNK_LEVELS = 55
"""Height of the tree over the chunks of the longest tensor, of 2^63 bytes."""
_MAX_FOLD_ROUNDS = 11
"""Rounds in which FOLD_ARITY segments narrow the longest fold, of fewer than 2^63 terms, to one."""
assert FOLD_ARITY**_MAX_FOLD_ROUNDS >= 1 << 63
_MAX_WIDE_FOLD_ROUNDS = 16
"""Those in which WIDE_FOLD_ARITY segments do."""
assert WIDE_FOLD_ARITY**_MAX_WIDE_FOLD_ROUNDS >= 1 << 63
MAX_MOVES = 43
"""The most moves of any match: `get_move_bound` of the largest terms."""
MAX_WIDE_MOVES = 48
"""The most where accumulators are wider than elements."""


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


@dataclass(frozen=True, slots=True)
class Step:
    """One accepted call: the stores before and after it, and what it announced."""

    before: Store
    name: str
    message: Message
    args: tuple[Any, ...]
    after: Store
    events: tuple[Event, ...]

    @property
    def job_id(self) -> int:
        """The job that the call is about."""
        if self.name in {"open_job", "enter"}:
            return len(self.before.jobs)
        first = self.args[0]
        return int(first.job_id if isinstance(first, Pair) else first)

    @property
    def position(self) -> Position:
        """Where the match stood, as a move or a timeout says."""
        position = self.args[1]
        assert isinstance(position, Position)
        return position

    @property
    def ended(self) -> tuple[Pair, Outcome, Ending] | None:
        """The match that the call has ended, and how."""
        for args in _list_args(self.events, "MatchEnded"):
            return Pair(*args[:3]), args[3], args[4]
        return None

    @property
    def moved(self) -> Position | None:
        """Where the match stands after a move that has not ended it."""
        return next((args[3] for args in _list_args(self.events, "Moved")), None)

    @property
    def losers(self) -> frozenset[Address]:
        """The members that the call has defeated."""
        if self.ended is None:
            return frozenset()
        pair, outcome, _ = self.ended
        members = pair.first, pair.second
        if outcome is Outcome.UNDECIDED:
            return frozenset()
        return frozenset(member for side, member in enumerate(members) if side != outcome)

    @property
    def released(self) -> frozenset[Address]:
        """The members that the call has taken out without a loss."""
        if self.ended is None or self.ended[1] is not Outcome.UNDECIDED:
            return frozenset()
        return frozenset((self.ended[0].first, self.ended[0].second))


def _list_args(events: tuple[Event, ...], name: str) -> Iterator[Any]:
    return (event.args for event in events if event.name == name)


def copy_store(store: Store) -> Store:
    """Return a store that remembers the same, and goes its own way."""
    return Store(
        store.chain_id,
        store.address,
        dict(store.jobs),
        dict(store.members),
        dict(store.claims),
        dict(store.matches),
        store.balance_wei,
        store.burned_wei,
        store.arithmetic,
    )


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


def _get_changes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


# Of every job, at all times.


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


# Of every accepted call.


def value_is_conserved(step: Step) -> bool:
    """What comes in with a call is held, paid to its sender or burned, to the wei."""
    before, after = step.before, step.after
    paid: int = sum(args[2] for args in _list_args(step.events, "Collected"))
    came = step.message.value_wei
    held_wei = after.balance_wei - before.balance_wei
    return held_wei + after.burned_wei - before.burned_wei + paid == came


def only_closing_burns(step: Step) -> bool:
    """Nothing is burned but by the call that closes a job."""
    if step.after.burned_wei == step.before.burned_wei:
        return True
    is_closing = any(True for _ in _list_args(step.events, "Settled"))
    return is_closing and step.after.burned_wei > step.before.burned_wei


def only_who_collects_is_paid(step: Step) -> bool:
    """Wei leave for an account only by its own call to collect, and as many as it was owed."""
    paid = list(_list_args(step.events, "Collected"))
    if step.name != "collect":
        return not paid
    job_id, sender = step.job_id, step.message.sender
    owed = calculate_debt(step.before, job_id, step.before.jobs[job_id], sender)
    return paid == [(job_id, sender, owed)]


def nobody_is_paid_twice(step: Step) -> bool:
    """Who has collected is owed nothing more."""
    if step.name != "collect":
        return True
    job_id = step.job_id
    return calculate_debt(step.after, job_id, step.after.jobs[job_id], step.message.sender) == 0


def closed_jobs_stay_closed(step: Step) -> bool:
    """A closed job never reopens; its debts are collected, and its matches go on for nothing."""
    job = step.before.jobs.get(step.job_id)
    if job is None or job.status is Status.OPEN:
        return True
    is_idle = step.name == "collect" or step.moved is not None
    return is_idle and step.after.jobs[step.job_id].status is job.status


def moves_in_closed_jobs_change_a_word(step: Step) -> bool:
    """A move in a closed job changes the word of its match, which stays, and nothing else."""
    job = step.before.jobs.get(step.job_id)
    if job is None or job.status is Status.OPEN or step.name == "collect":
        return True
    words = _get_changes(step.before.matches, step.after.matches)
    if words != {step.args[0]} or not words <= step.after.matches.keys():
        return False
    return is_unchanged(replace(step.before, matches=step.after.matches), step.after)


def terms_never_change(step: Step) -> bool:
    """What a client asked for, its reward and its deadlines stay as they were."""
    old = step.before.jobs.get(step.job_id)
    new = step.after.jobs[step.job_id]
    kept = ("client", "terms", "reward_wei", "opened_block")
    return old is None or all(getattr(old, name) == getattr(new, name) for name in kept)


def windows_only_grow(step: Step) -> bool:
    """No window, of a job or of a claim, ever ends earlier than was announced."""
    jobs = all(step.after.jobs[i].window_end >= j.window_end for i, j in step.before.jobs.items())
    claims = step.before.claims.items()
    return jobs and all(step.after.claims[k].window_end >= c.window_end for k, c in claims)


def jobs_do_not_mix(step: Step) -> bool:
    """A call about one job changes nothing of another."""
    changes = _get_changes(step.before.jobs, step.after.jobs)
    for before, after in (
        (step.before.members, step.after.members),
        (step.before.claims, step.after.claims),
    ):
        changes |= {job_id for job_id, _ in _get_changes(before, after)}
    changes |= {pair.job_id for pair in _get_changes(step.before.matches, step.after.matches)}
    return changes <= {step.job_id}


_LIVES = {
    Standing.NONE: {Standing.COMMITTED, Standing.REVEALED, Standing.LATE},
    Standing.COMMITTED: {Standing.REVEALED, Standing.PAID},
    Standing.REVEALED: {Standing.DEFEATED, Standing.RELEASED, Standing.PAID},
    Standing.LATE: {Standing.DEFEATED, Standing.RELEASED, Standing.PAID},
    Standing.DEFEATED: {Standing.PAID},
    Standing.RELEASED: {Standing.PAID},
    Standing.PAID: set[Standing](),
}


def members_only_go_on(step: Step) -> bool:
    """A member joins, shows its claim, and then is paid or out, once and for all."""
    for key in _get_changes(step.before.members, step.after.members):
        old, new = step.before.members.get(key, Member()), step.after.members.get(key, Member())
        if new.standing is not old.standing and new.standing not in _LIVES[old.standing]:
            return False
        is_void = step.after.jobs[step.job_id].status is Status.VOID
        if new.standing is Standing.PAID and not old.keeps_bond(Status.WON) and not is_void:
            return False
    return True


def nobody_acts_for_another(step: Step) -> bool:
    """Nobody joins, shows a claim or is paid but by its own call, or is entered with its bond."""
    entered = step.args[2:4] if step.name == "enter" else ()
    own = {Standing.COMMITTED, Standing.REVEALED, Standing.LATE, Standing.PAID}
    for key in _get_changes(step.before.members, step.after.members):
        old, new = step.before.members.get(key, Member()), step.after.members[key]
        is_own = new.standing is not old.standing and new.standing in own
        if is_own and key[1] not in {step.message.sender, *entered}:
            return False
    return True


def claims_are_never_swapped(step: Step) -> bool:
    """Who has shown a claim never has another."""
    hidden = {Standing.NONE, Standing.COMMITTED}
    for key in _get_changes(step.before.members, step.after.members):
        old = step.before.members.get(key, Member())
        if old.standing not in hidden and step.after.members[key].key != old.key:
            return False
    return True


def bonds_are_paid_in_full(step: Step) -> bool:
    """Whoever joins brings exactly the bond, and no other call but a new job's takes value."""
    joined = step.after.members.keys() - step.before.members.keys()
    if step.name == "open_job":
        return not joined
    bond_wei = step.after.jobs[step.job_id].terms.bond_wei
    return step.message.value_wei == len(joined) * bond_wei


def defeat_takes_a_match(step: Step) -> bool:
    """A member is defeated only by the end of a match of its own that names it as a loser."""
    lost = {
        key
        for key in _get_changes(step.before.members, step.after.members)
        if step.after.members[key].standing is Standing.DEFEATED
    }
    return lost == {(step.job_id, address) for address in step.losers}


def release_takes_a_silent_verifier(step: Step) -> bool:
    """Both members of a match are released, and no others, and only if the verifier is too late."""
    released = {
        key
        for key in _get_changes(step.before.members, step.after.members)
        if step.after.members[key].standing is Standing.RELEASED
    }
    if released != {(step.job_id, address) for address in step.released}:
        return False
    if not released:
        return True
    is_late = step.message.block > step.position.deadline
    return step.name == "timeout" and step.position.phase is Phase.VERIFIER and is_late


def void_jobs_burn_nothing(step: Step) -> bool:
    """A job that becomes void is closed without a wei burned, whoever has lost before."""
    new = step.after.jobs[step.job_id]
    if new.status is not Status.VOID:
        return True
    return step.after.burned_wei == step.before.burned_wei


def prizes_go_to_the_winner(step: Step) -> bool:
    """The winner of a match gets one prize, and prizes change in no other way."""
    won: set[tuple[int, Address]] = set()
    if step.ended is not None and step.ended[1] < Outcome.NEITHER:
        pair, outcome, _ = step.ended
        won.add((step.job_id, (pair.first, pair.second)[outcome]))
    for key in _get_changes(step.before.members, step.after.members):
        old, new = step.before.members.get(key, Member()), step.after.members[key]
        if new.standing is not Standing.DEFEATED and new.prizes - old.prizes != (key in won):
            return False
    return True


def ended_matches_were_alive(step: Step) -> bool:
    """A match ends once, between two contenders, and is forgotten."""
    if step.ended is None:
        return True
    pair = step.ended[0]
    members = [step.before.members[pair.job_id, a] for a in (pair.first, pair.second)]
    is_alive = pair in step.before.matches and all(member.is_contender for member in members)
    return is_alive and pair not in step.after.matches


def clocks_punish_only_the_late(step: Step) -> bool:
    """A match that the clock ends goes against the side to move, or nobody if the verifier was."""
    if step.ended is None or step.ended[2] is not Ending.CLOCK:
        return True
    position = step.position
    is_late = step.message.block > position.deadline
    is_verifiers = position.phase is Phase.VERIFIER
    due = Outcome.UNDECIDED if is_verifiers else Outcome(1 - position.mover)
    return step.name == "timeout" and is_late and step.ended[1] is due


def decisions_come_in_time(step: Step) -> bool:
    """No move and no decision is made after the clock of the side to move has run out."""
    is_move = step.moved is not None or (step.ended is not None and step.name != "timeout")
    return not is_move or step.message.block <= step.position.deadline


def the_verdict_is_what_was_computed(step: Step) -> bool:
    """Who said what the contract computes wins, and if neither did, both lose."""
    for *_, outcome, ending, computed in _list_args(step.events, "MatchEnded"):
        if ending is not Ending.SCALAR:
            return bool(computed == 0)
        facts = step.args[2]
        claims = [announce(facts, bits) for bits in facts.bits]
        expected = claims.index(computed) if computed in claims else Outcome.NEITHER
        return bool(claims[0] != claims[1] and outcome == expected)
    return True


def moves_touch_one_match(step: Step) -> bool:
    """A move changes where its match stands and nothing else, unless it ends the match."""
    if step.moved is None:
        return True
    tables = ("jobs", "members", "claims", "balance_wei", "burned_wei")
    if any(getattr(step.before, name) != getattr(step.after, name) for name in tables):
        return False
    return _get_changes(step.before.matches, step.after.matches) == {step.args[0]}


def events_say_what_is_stored(step: Step) -> bool:
    """The position that a move or a start announces is the one whose digest is remembered."""
    for name in ("MatchStarted", "Moved"):
        for args in _list_args(step.events, name):
            pair = Pair(*args[:3])
            if step.after.matches.get(pair) != hash_position(pair, args[3]):
                return False
    return True


def moves_take_turns(step: Step) -> bool:
    """After a move it is the other side's turn, and one more move has been made."""
    if step.moved is None:
        return True
    old = step.position
    return (step.moved.mover, step.moved.moves) == (1 - old.mover, old.moves + 1)


def the_waiting_clock_is_untouched(step: Step) -> bool:
    """A move by X leaves Y all the time that Y had; the verifier has a clock of its own."""
    if step.moved is None:
        return True
    old = step.position
    budget = old.spare_blocks
    if step.moved.phase is Phase.VERIFIER:
        budget = step.after.jobs[step.job_id].terms.clock_blocks
    return step.moved.deadline - step.message.block == budget


def moving_costs_no_time(step: Step) -> bool:
    """Whoever makes a move for a side, that side has as much time left as before, or more."""
    if step.moved is None:
        return True
    terms = step.after.jobs[step.job_id].terms
    left = step.position.deadline - step.message.block
    return left <= step.moved.spare_blocks <= min(left + terms.increment_blocks, terms.clock_blocks)


def every_side_can_answer(step: Step) -> bool:
    """Both sides always have at least the increment to make their next move."""
    if step.moved is None:
        return True
    least = step.after.jobs[step.job_id].terms.increment_blocks
    return min(step.moved.deadline - step.message.block, step.moved.spare_blocks) >= least


def matches_begin_with_full_clocks(step: Step) -> bool:
    """A match begins at the tops of both claims, with full clocks, between two contenders."""
    for *names, position in _list_args(step.events, "MatchStarted"):
        pair = Pair(*names)
        clock = step.after.jobs[pair.job_id].terms.clock_blocks
        members = [step.after.members[pair.job_id, a] for a in (pair.first, pair.second)]
        tops = tuple(step.after.claims[pair.job_id, member.key].top for member in members)
        full = (step.message.block + clock, clock)
        is_full = (position.deadline, position.spare_blocks) == full
        if not is_full or position.nodes != tops or not all(m.is_contender for m in members):
            return False
    return True


def the_sides_never_agree(step: Step) -> bool:
    """The nodes of the two sides in a match differ, and so do the bits at a leaf."""
    for args in _list_args(step.events, "Found"):
        facts: Facts = args[3]
        if facts.high and facts.bits[0] == facts.bits[1]:
            return False
    is_tree = step.moved is not None and step.moved.phase not in {Phase.FOLD, Phase.LEAF}
    return not is_tree or step.moved is None or step.moved.nodes[0] != step.moved.nodes[1]


def every_move_narrows(step: Step) -> bool:
    """A move goes on to a later phase, lets another side enter, goes down a tree or opens it."""
    if step.moved is None:
        return True
    old, new = step.position, step.moved
    if new.phase is Phase.FOLD and old.phase is Phase.FOLD:
        was: Facts = step.args[2]
        facts: Facts = next(_list_args(step.events, "Found"))[3]
        return facts.high - facts.low < was.high - was.low
    ranks = [
        (_RANKS[position.phase], position.entered, -position.level, position.span)
        for position in (old, new)
    ]
    return ranks[0] < ranks[1]


_RANKS = {phase: rank for rank, phase in enumerate(Phase)} | {Phase.STATE: Phase.TENSOR}


def nobody_has_entered_at_leaves(step: Step) -> bool:
    """Exactly where a leaf has been reached has nobody entered, and no level is left to go down."""
    if step.moved is None:
        return True
    moved = step.moved
    if moved.phase in NODE_TAGS:
        return moved.entered in {1, BOTH} and moved.span == get_block(moved.level)
    return moved.entered == moved.level == moved.span == 0


def get_move_bound(terms: Terms, arithmetic: Arithmetic = ORDERED) -> int:
    """Return the most moves that any match of a job can have, however large its tensors are."""
    rounds = _MAX_WIDE_FOLD_ROUNDS if arithmetic.accumulator_bytes else _MAX_FOLD_ROUNDS
    return count_moves(terms, _MAX_CHUNK_LEVELS, rounds)


def count_moves(terms: Terms, chunk_levels: int, fold_rounds: int) -> int:
    """Return the most moves of a match over tensors with so many levels and rounds of a fold.

    A tree is left at a leaf in the move that enters the next one. After the last tree one move
    arrives at a leaf; in a tensor it shows a chunk, and one picks an element of it.
    """
    moves = _count_blocks(get_height(terms.checkpoints))
    moves += _count_in(get_height(terms.operators + 1)) + 1
    if terms.checkpoint_every > 1:
        moves += _count_in(get_height(terms.checkpoint_every))
    state = _count_in(get_height(terms.state_slots))
    if terms.leaf_mode is LeafMode.OPERATOR:
        return moves + state
    return moves + max(state, _count_in(chunk_levels) + 1 + fold_rounds)


def _count_blocks(height: int) -> int:
    """Return the blocks of a tree, each of which one move opens."""
    return -(-height // MAX_ARITY_LOG2)


def _count_in(height: int) -> int:
    """Return the moves that leave a match in a tree that has to be entered, by both sides."""
    return max(BOTH, _count_blocks(height))


def moves_are_bounded(step: Step) -> bool:
    """A match has as many moves as its trees are high at most: 43, or 48 where values are wide."""
    if step.moved is None:
        return True
    arithmetic = step.after.arithmetic
    most = MAX_WIDE_MOVES if arithmetic.accumulator_bytes else MAX_MOVES
    bound = get_move_bound(step.after.jobs[step.job_id].terms, arithmetic)
    return step.moved.moves <= bound <= most


def get_match_bound(terms: Terms, moves: int) -> int:
    """Return the blocks after its first in which a match is over, if somebody wants it to be.

    Both sides have one clock and an increment a move, and the verifier has a clock.
    """
    return 2 * terms.clock_blocks + terms.increment_blocks * moves + terms.clock_blocks


def deadlines_are_bounded(step: Step) -> bool:
    """A move puts off the end of a match, if nobody moves any more, by at most the increment."""
    if step.moved is None:
        return True
    terms, old, new = step.after.jobs[step.job_id].terms, step.position, step.moved
    bound = old.deadline + old.spare_blocks + terms.increment_blocks
    if new.phase is Phase.VERIFIER:
        bound += terms.clock_blocks
    return new.deadline + new.spare_blocks <= bound


def claims_meet_when_free(step: Step) -> bool:
    """Two claims meet only if of those that they met last nobody is left, and nobody can come."""
    before, after = step.before.claims, step.after.claims
    met = [
        before[key]
        for key in _get_changes(before, after)
        if key in before and after[key].meeting != before[key].meeting
    ]
    for claim in met:
        rival = find_rival(step.before, step.job_id, claim)
        is_over = rival and rival.contenders == 0 and step.message.block > rival.window_end
        if claim.meeting and not is_over:
            return False
    return not met or (step.name == "start_match" and len(met) == 2)


def joining_has_its_time(step: Step) -> bool:
    """Nobody joins a claim after its window, nor any job after the last of its windows."""
    if step.after.members.keys() == step.before.members.keys():
        return True
    job = step.after.jobs[step.job_id]
    if step.name == "commit":
        return step.message.block <= job.commit_deadline
    if step.name == "enter":
        return step.message.block == job.opened_block
    return job.reveal_deadline < step.message.block <= job.window_end


def the_verifier_alone_rules(step: Step) -> bool:
    """A match ends by a ruling only if the job's verifier has made it, of one operator."""
    if step.ended is None or step.ended[2] is not Ending.VERIFIER:
        return True
    verifier = step.after.jobs[step.job_id].terms.verifier
    return step.message.sender == verifier and step.position.phase is Phase.VERIFIER


def jobs_close_when_they_may(step: Step) -> bool:
    """A job is closed after all windows, and with one claim or none, or because it is not legal."""
    old, new = step.before.jobs.get(step.job_id), step.after.jobs[step.job_id]
    if old is None or old.status is new.status:
        return True
    if new.status is Status.VOID:
        return step.name in {"prove_operator", "prove_operand"}
    return step.name == "settle" and old.claims <= 1 and step.message.block > old.window_end


def is_unchanged(before: Store, after: Store) -> bool:
    """A refused call changes nothing, not even the balance."""
    names = ("jobs", "members", "claims", "matches", "balance_wei", "burned_wei")
    return all(getattr(before, name) == getattr(after, name) for name in names)


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
STEP_INVARIANTS: tuple[Callable[[Step], bool], ...] = (
    value_is_conserved,
    only_closing_burns,
    only_who_collects_is_paid,
    nobody_is_paid_twice,
    closed_jobs_stay_closed,
    moves_in_closed_jobs_change_a_word,
    terms_never_change,
    windows_only_grow,
    jobs_do_not_mix,
    members_only_go_on,
    nobody_acts_for_another,
    claims_are_never_swapped,
    bonds_are_paid_in_full,
    defeat_takes_a_match,
    release_takes_a_silent_verifier,
    void_jobs_burn_nothing,
    prizes_go_to_the_winner,
    ended_matches_were_alive,
    clocks_punish_only_the_late,
    decisions_come_in_time,
    the_verdict_is_what_was_computed,
    moves_touch_one_match,
    events_say_what_is_stored,
    moves_take_turns,
    the_waiting_clock_is_untouched,
    moving_costs_no_time,
    every_side_can_answer,
    matches_begin_with_full_clocks,
    the_sides_never_agree,
    every_move_narrows,
    nobody_has_entered_at_leaves,
    moves_are_bounded,
    deadlines_are_bounded,
    claims_meet_when_free,
    joining_has_its_time,
    the_verifier_alone_rules,
    jobs_close_when_they_may,
)


def check_store(store: Store) -> None:
    """Check all that is true at all times.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    for books in open_books(store):
        for job_invariant in JOB_INVARIANTS:
            require_kept(job_invariant(books), job_invariant)
    for store_invariant in STORE_INVARIANTS:
        require_kept(store_invariant(store), store_invariant)


def check_step(step: Step) -> None:
    """Check all that is true of an accepted call, and of the store after it.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    for invariant in STEP_INVARIANTS:
        require_kept(invariant(step), invariant)
    if not _is_mere_move(step.before, step.after):
        check_store(step.after)


def _is_mere_move(before: Store, after: Store) -> bool:
    """Whether nothing has changed but where matches stand, at which `check_store` does not look."""
    names = ("jobs", "members", "claims", "balance_wei")
    is_same = all(getattr(before, name) == getattr(after, name) for name in names)
    return is_same and before.matches.keys() == after.matches.keys()


def require_kept(is_kept: bool, invariant: Callable[..., object]) -> None:  # noqa: FBT001 - a result
    """Name the invariant that is broken, if it is."""
    if not is_kept:
        raise BrokenInvariantError(f"{invariant.__name__}: {invariant.__doc__}")
