"""Every invariant of a job, a store and a call can be broken, and its check notices that."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from moot.contracts.model import ledger
from moot.contracts.model.step_invariants import (
    STEP_INVARIANTS,
    Step,
    check_step,
    claims_meet_when_free,
    closed_jobs_stay_closed,
    moves_in_closed_jobs_change_a_word,
)
from moot.contracts.model.store_invariants import (
    JOB_INVARIANTS,
    STORE_INVARIANTS,
    Books,
    BrokenInvariantError,
    check_store,
    open_books,
)
from moot.contracts.model.types import Claim, Event, Member, Message, Store, copy_store
from moot.contracts.model.watch import Watcher, finish
from moot.contracts.reasons import Outcome, Standing, Status
from tests.referee.stage import ACCOUNTS
from tests.referee.test_lockstep import walk

LEAST_INVARIANTS = 25


def test_there_are_enough_invariants_and_each_is_a_sentence() -> None:
    """More than 25 functions, each with a name and a sentence of its own."""
    invariants = [*JOB_INVARIANTS, *STORE_INVARIANTS, *STEP_INVARIANTS]
    sentences = {invariant.__doc__ for invariant in invariants}
    assert len(invariants) == len(sentences) >= LEAST_INVARIANTS
    assert all(sentence and sentence.endswith(".") for sentence in sentences)


@cache
def get_story() -> tuple[Step, ...]:
    """Return the accepted calls of a long walk."""
    steps: list[Step] = []
    watch = Watcher.watch

    def note(watcher: Watcher, step: Step) -> None:
        steps.append(replace(step, after=copy_store(step.after)))
        watch(watcher, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watcher, "watch", note)
        for seed in range(12):
            walk(seed, None)
    return tuple(steps)


def find(name: str, matches: Callable[[Step], bool] = lambda _: True) -> Step:
    """Return an accepted call of a name."""
    return next(step for step in get_story() if step.name == name and matches(step))


def change_job(store: Store, job_id: int, **changes: Any) -> None:
    """Corrupt a job."""
    store.jobs[job_id] = replace(store.jobs[job_id], **changes)


def agree(store: Store, job_id: int) -> None:
    """Let both members of a match have one claim."""
    pair = next(pair for pair in store.matches if pair.job_id == job_id)
    store.members[job_id, pair.first] = store.members[job_id, pair.second]


CORRUPTIONS: dict[str, Callable[[Store, int], None]] = {
    "claims_are_tallied": lambda s, j: change_job(s, j, claims=9),
    "hidden_are_tallied": lambda s, j: change_job(s, j, hidden=9),
    "defeated_are_tallied": lambda s, j: change_job(s, j, defeated=9),
    "prizes_are_conserved": lambda s, j: change_job(s, j, forfeits=9),
    "windows_cover_the_challenge": lambda s, j: change_job(s, j, window_end=0),
    "the_client_is_owed_what_nobody_earned": lambda s, j: change_job(s, j, is_client_owed=True),
    "closed_jobs_have_one_claim_at_most": lambda s, j: change_job(s, j, status=Status.EMPTY),
    "undecided_jobs_have_released": lambda s, j: change_job(s, j, is_undecided=True),
    "words_have_room": lambda s, j: change_job(s, j, meetings=1 << 32),
    "terms_are_sound": lambda s, j: change_job(s, j, terms=replace(s.jobs[j].terms, steps=0)),
    "contenders_are_tallied": lambda s, j: change_claim(s, j, contenders=9),
    "sharers_are_tallied": lambda s, j: change_claim(s, j, sharers=9),
    "claims_that_never_met_are_whole": lambda s, j: change_claim(s, j, meeting=0),
    "meetings_have_one_window": lambda s, j: change_claim(s, j, window_end=1 << 30),
    "meetings_are_of_two": lambda s, j: change_claim(s, j, meeting=9),
    "only_the_beaten_are_left_behind": lambda s, j: change_claim(s, j, meeting=9),
    "live_matches_are_of_one_meeting": lambda s, j: change_claim(s, j, meeting=9),
    "claims_lie_under_their_tops": lambda s, j: change_claim(s, j, top=b"\7" * 32),
    "meetings_are_left_by_one_at_most": lambda s, j: change_job(s, j, meetings=9),
    "only_contenders_hold_prizes": lambda s, j: change_member(s, j, Standing.DEFEATED, prizes=1),
    "only_closed_jobs_have_paid": lambda s, j: change_member(s, j, Standing.PAID),
    "shown_members_have_a_claim": lambda s, j: change_member(s, j, Standing.LATE, key=b"\7" * 28),
    "matches_are_between_rivals": agree,
}


def change_member(store: Store, job_id: int, standing: Standing, **changes: Any) -> None:
    """Corrupt a member of a job."""
    key, member = next((k, m) for k, m in store.members.items() if k[0] == job_id)
    store.members[key] = replace(member, standing=standing, **changes)


def change_claim(store: Store, job_id: int, **changes: Any) -> None:
    """Corrupt the claims of a job."""
    key, claim = next((k, c) for k, c in store.claims.items() if k[0] == job_id and c.meeting)
    store.claims[key] = replace(claim, **changes)


@pytest.mark.parametrize("invariant", JOB_INVARIANTS, ids=lambda invariant: invariant.__name__)
def test_a_corrupted_job_is_seen(invariant: Callable[[Books], bool]) -> None:
    """Each tally, window, claim and member, changed by itself, breaks the invariant of its own."""
    step = find("start_match")
    check_store(step.after)
    store = copy_store(step.after)
    CORRUPTIONS[invariant.__name__](store, step.job_id)
    assert not all(map(invariant, open_books(store)))
    with pytest.raises(BrokenInvariantError):
        check_store(store)


def test_a_missing_wei_is_seen() -> None:
    """The balance is compared to the wei."""
    store = copy_store(find("start_match").after)
    store.balance_wei -= 1
    with pytest.raises(BrokenInvariantError, match="the_balance_is_what_is_owed"):
        check_store(store)


def alter_move(**changes: Any) -> Callable[[Step], Step]:
    """Return what changes the position that a move announces."""

    def alter(step: Step) -> Step:
        *args, position, nodes, data = step.events[-1].args
        moved = Event("Moved", (*args, replace(position, **changes), nodes, data))  # type: ignore[type-var]
        return replace(step, events=(*step.events[:-1], moved))

    return alter


def defeat_somebody(step: Step) -> Step:
    """Defeat a member without a match."""
    store = copy_store(step.after)
    key, member = next((k, m) for k, m in store.members.items() if m.is_contender)
    store.members[key] = replace(member, standing=Standing.DEFEATED)
    return replace(step, after=store)


def release_both(step: Step) -> Step:
    """Release the members of a match whose loser was late itself."""
    store, ended = copy_store(step.after), step.ended
    assert ended is not None
    for address in (ended[0].first, ended[0].second):
        member = step.before.members[step.job_id, address]
        store.members[step.job_id, address] = replace(member, standing=Standing.RELEASED)
    *args, _, ending, computed = step.events[-1].args
    event = Event("MatchEnded", (*args, Outcome.UNDECIDED, ending, computed))  # type: ignore[type-var]
    return replace(step, after=store, events=(event,))


def lose_a_wei(step: Step) -> Step:
    """Let a wei disappear."""
    store = copy_store(step.after)
    store.balance_wei -= 1
    return replace(step, after=store)


def reopen(step: Step) -> Step:
    """Open a closed job again."""
    store = copy_store(step.after)
    change_job(store, step.job_id, status=Status.OPEN)
    return replace(step, after=store)


def pay_twice(step: Step) -> Step:
    """Let who has collected keep its standing."""
    store = copy_store(step.after)
    store.members, store.jobs = dict(step.before.members), dict(step.before.jobs)
    return replace(step, after=store)


def swap_winner(step: Step) -> Step:
    """Announce the other side as the winner."""
    *args, outcome, ending, computed = step.events[-1].args
    assert isinstance(outcome, Outcome)
    ended = Event("MatchEnded", (*args, Outcome(1 - outcome), ending, computed))
    return replace(step, events=(*step.events[:-1], ended))


def hurry(step: Step) -> Step:
    """Make the call in the block of the deadline."""
    message = replace(step.message, block=step.position.deadline)
    return replace(step, message=message)


DISTORTIONS: dict[str, tuple[str, Callable[[Step], Step]]] = {
    "another's turn": ("descend", alter_move(mover=0)),
    "less time for the other side": ("descend", alter_move(deadline=1)),
    "less time for the mover": ("descend", alter_move(spare_blocks=0)),
    "more time for the mover": ("descend", alter_move(spare_blocks=1000)),
    "a move uncounted": ("descend", alter_move(moves=0)),
    "too many moves": ("descend", alter_move(moves=200)),
    "the same nodes": ("descend", alter_move(nodes=(bytes(32), bytes(32)))),
    "nobody entered above a leaf": ("descend", alter_move(entered=0)),
    "somebody entered at a leaf": ("pick_element", alter_move(entered=1)),
    "a level left at a leaf": ("pick_element", alter_move(level=1)),
    "a defeat from nowhere": ("descend", defeat_somebody),
    "a wei less": ("commit", lose_a_wei),
    "no bond": ("commit", lambda s: replace(s, message=replace(s.message, value_wei=0))),
    "joined by another": ("commit", lambda s: replace(s, message=replace(s.message, sender="0x1"))),
    "joined too late": ("join", lambda s: replace(s, message=replace(s.message, block=1 << 30))),
    "reopened": ("collect", reopen),
    "paid twice": ("collect", pay_twice),
    "paid to another": ("collect", lambda s: replace(s, message=replace(s.message, sender="0x1"))),
    "the wrong winner": ("timeout", swap_winner),
    "a release of the late": ("timeout", release_both),
    "a timeout in time": ("timeout", hurry),
    "settled in its window": ("settle", lambda s: replace(s, message=replace(s.message, block=0))),
}


def is_plain(step: Step) -> bool:
    """Whether a call is one that the distortions know: a move that goes on, a clock's end."""
    if step.name == "timeout":
        return step.ended is not None and step.ended[1] < Outcome.NEITHER
    if step.name == "collect":
        return any(m.standing is Standing.PAID for m in step.after.members.values())
    return step.name != "descend" or (step.moved is not None and step.moved.mover == 1)


@pytest.mark.parametrize("name", DISTORTIONS)
def test_a_distorted_call_is_seen(name: str) -> None:
    """Each call, with one thing about it changed, breaks an invariant."""
    call, distort = DISTORTIONS[name]
    step = find(call, is_plain)
    check_step(step)
    with pytest.raises(BrokenInvariantError):
        check_step(distort(step))


def goes_on(step: Step) -> bool:
    """Whether a claim that has met another meets a new one."""
    before, after = step.before.claims, step.after.claims
    return any(claim.meeting not in {0, after[key].meeting} for key, claim in before.items())


@pytest.mark.parametrize("changes", [{"contenders": 1}, {"window_end": 1 << 30}, {"meeting": 9}])
def test_a_claim_that_goes_on_too_early_is_seen(changes: dict[str, int]) -> None:
    """No claim goes on while its rival has a contender, or can be joined, or is not shown."""
    step = find("start_match", goes_on)
    assert claims_meet_when_free(step)
    before = copy_store(step.before)
    for key, claim in before.claims.items():
        if claim.meeting and not claim.contenders:
            before.claims[key] = replace(claim, **changes)  # type: ignore[arg-type]  # all of these are integers
    assert not claims_meet_when_free(replace(step, before=before))


def close_before(step: Step) -> Step:
    """Let a call come after its job has been closed."""
    before, after = copy_store(step.before), copy_store(step.after)
    for store in (before, after):
        change_job(store, step.job_id, status=Status.EMPTY)
    return replace(step, before=before, after=after)


def forget_match(step: Step) -> Step:
    """Let the match be over whose word has changed."""
    store = copy_store(step.after)
    del store.matches[step.args[0]]
    return replace(step, after=store)


def test_a_move_in_a_closed_job_changes_a_word_alone() -> None:
    """A move may come late, but no defeat with it, no wei, no end of its match, nor a timeout."""
    move, end = find("descend", is_plain), find("timeout", is_plain)
    late = close_before(move)
    assert closed_jobs_stay_closed(late)
    assert moves_in_closed_jobs_change_a_word(late)
    for distort in (defeat_somebody, lose_a_wei, forget_match):
        assert not moves_in_closed_jobs_change_a_word(close_before(distort(move)))
    assert not closed_jobs_stay_closed(close_before(end))
    assert not moves_in_closed_jobs_change_a_word(close_before(end))


def test_a_referee_that_pays_the_loser_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one line of the model changed, a walk breaks an invariant."""
    defeat = ledger._defeat

    def forget(*args: Any) -> None:
        store, job_id, address, loser, *_ = args
        defeat(*args)
        store.put(store.members, (job_id, address), replace(loser, standing=Standing.DEFEATED))
        store.put(store.jobs, job_id, replace(store.jobs[job_id], forfeits=0))

    monkeypatch.setattr(ledger, "_defeat", forget)
    with pytest.raises(BrokenInvariantError):
        all(walk(seed, None) for seed in range(20))


def test_every_job_of_every_walk_can_be_finished_by_anybody() -> None:
    """After each call of a walk all jobs can be closed and all be paid, whoever has gone silent."""
    rng = random.Random(3)
    positions: dict[Any, Any] = {}
    for step in get_story():
        if step.name == "open_job" and step.job_id == 0:
            positions.clear()
        watcher = Watcher(positions=positions)
        watcher.read(step.events, step.message.block)
        if rng.random() < 0.25:
            finish(copy_store(step.after), positions, step.message.block)


def test_a_locked_bond_is_seen() -> None:
    """A claim that can meet nobody, or a member without its claim, keeps a job from its end."""
    store = copy_store(find("start_match").after)
    for key, claim in store.claims.items():
        store.claims[key] = Claim(claim.top, claim.contenders, claim.sharers, 1, 1 << 39)
    store.matches.clear()
    store.members[0, ACCOUNTS[0]] = Member(Standing.LATE)
    with pytest.raises((BrokenInvariantError, KeyError)):
        finish(store, {}, Message(ACCOUNTS[0], 0, 100).block)
