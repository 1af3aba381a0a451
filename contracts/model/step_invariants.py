"""What is true of every call that a referee accepts: each a sentence and a function.

`check_step` says which of them a call has broken, and which of those of the store after it; what
needs a whole story is in `watch.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model.checks import find_rival
from moot.contracts.model.descent import BOTH, NODE_TAGS
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.store_invariants import check_store, require_all
from moot.contracts.model.types import (
    FOLD_ARITY,
    WIDE_FOLD_ARITY,
    Address,
    Event,
    Facts,
    Member,
    Message,
    Pair,
    Position,
    Store,
    Terms,
)
from moot.contracts.model.words import announce, hash_position
from moot.contracts.reasons import Ending, LeafMode, Outcome, Phase, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import MAX_ARITY_LOG2, get_block, get_height

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


def get_changes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    """Return the keys whose values two tables do not share."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


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
    words = get_changes(step.before.matches, step.after.matches)
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
    changes = get_changes(step.before.jobs, step.after.jobs)
    for before, after in (
        (step.before.members, step.after.members),
        (step.before.claims, step.after.claims),
    ):
        changes |= {job_id for job_id, _ in get_changes(before, after)}
    changes |= {pair.job_id for pair in get_changes(step.before.matches, step.after.matches)}
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
    for key in get_changes(step.before.members, step.after.members):
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
    for key in get_changes(step.before.members, step.after.members):
        old, new = step.before.members.get(key, Member()), step.after.members[key]
        is_own = new.standing is not old.standing and new.standing in own
        if is_own and key[1] not in {step.message.sender, *entered}:
            return False
    return True


def claims_are_never_swapped(step: Step) -> bool:
    """Who has shown a claim never has another."""
    hidden = {Standing.NONE, Standing.COMMITTED}
    for key in get_changes(step.before.members, step.after.members):
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
        for key in get_changes(step.before.members, step.after.members)
        if step.after.members[key].standing is Standing.DEFEATED
    }
    return lost == {(step.job_id, address) for address in step.losers}


def release_takes_a_silent_verifier(step: Step) -> bool:
    """Both members of a match are released, and no others, and only if the verifier is too late."""
    released = {
        key
        for key in get_changes(step.before.members, step.after.members)
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
    for key in get_changes(step.before.members, step.after.members):
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
    return get_changes(step.before.matches, step.after.matches) == {step.args[0]}


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
        for key in get_changes(before, after)
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


def check_step(step: Step) -> None:
    """Check all that is true of an accepted call, and of the store after it.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    require_all(STEP_INVARIANTS, step)
    if not _is_mere_move(step.before, step.after):
        check_store(step.after)


def _is_mere_move(before: Store, after: Store) -> bool:
    """Whether nothing has changed but where matches stand, at which `check_store` does not look."""
    names = ("jobs", "members", "claims", "balance_wei")
    is_same = all(getattr(before, name) == getattr(after, name) for name in names)
    return is_same and before.matches.keys() == after.matches.keys()
