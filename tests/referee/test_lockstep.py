"""Model and contract in lock-step: any calls in any order, compared after every one of them."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from moot.contracts.model.descent import NODE_TAGS
from moot.contracts.model.referee import are_terms_sound
from moot.contracts.model.step_invariants import (
    MAX_MOVES,
    MAX_WIDE_MOVES,
    count_moves,
    get_move_bound,
)
from moot.contracts.model.types import FOLD_ARITY, Message
from moot.contracts.reasons import LeafMode, Outcome, Phase, Reason, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.commitments.tree import fold_children
from moot.offchain.disputes.play.players import Move, decide, find_move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS
from moot.sim.synthetic.products import Lie, Size
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.twin import RefereeTwin
from tests.projection import compare_words
from tests.quick import every, only, share
from tests.referee.coverage import find_gaps
from tests.referee.search import Call
from tests.referee.stage import (
    ACCOUNTS,
    CLIENT,
    DEEP,
    LIES,
    NO_TOPS,
    PROVIDERS,
    SINGLE,
    SIZES,
    VERIFIER,
    Cast,
    Stage,
)

ALL = (ORDERED, EXACT, HOPPER, AMPERE)
STEPS = 250
MOST_WALKS = 200
RARE = (107, 124, 118, 29, 64, 96, 8, 23, 27, 30, 32, 39, 159)
"""Walks that meet all that `coverage` lists, together with the matches that outlive their jobs."""
LEAST_SHARE = 0.3
DECIDED = frozenset({Phase.LEAF, Phase.SINK, Phase.VERIFIER})
"""The phases in which a call ends a match, other than the clock."""


@cache
def get_contract(arithmetic: Arithmetic = ORDERED) -> RefereeContract:
    """Return the contract, deployed."""
    return RefereeContract(ACCOUNTS, arithmetic)


@contextmanager
def on_contract(arithmetic: Arithmetic = ORDERED) -> Iterator[RefereeContract]:
    """Give the contract as it was deployed."""
    machine = get_contract(arithmetic).machine
    mark = machine.snapshot()
    try:
        yield get_contract(arithmetic)
    finally:
        machine.revert(mark)


class Act:
    """Chooses what is done next: mostly something whose time it is."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.stage, self.rng = stage, rng
        while not stage.casts:
            stage.open()

    def step(self) -> None:
        """Do one thing in one of the last two jobs."""
        stage = self.stage
        cast = self.rng.choice(stage.casts[-2:])
        if self.rng.random() < 0.01:
            self.rng.choice((stage.open, stage.open_absurdly))()
        deeds = self._list_deeds(cast)
        self.rng.choices([deed for deed, _ in deeds], [weight for _, weight in deeds])[0](cast)

    def _list_deeds(self, cast: Cast) -> list[tuple[Callable[[Cast], Any], int]]:
        stage, job = self.stage, self.stage.twins.store.jobs[cast.job_id]
        block = stage.twins.block
        deeds: list[tuple[Callable[[Cast], Any], int]] = [
            (stage.meddle, 3),
            (lambda _: stage.repeat(), 3),
        ]
        if job.status is not Status.OPEN:
            deeds += [(stage.close, 30), (lambda _: stage.open(), 10)]
            vain = [(stage.play, 12), (stage.spoil, 4), (stage.time_out, 8)]
            return deeds + (vain if cast.boards else [])
        if block <= job.commit_deadline:
            return [*deeds, (stage.join, 60), (stage.reveal, 1), (stage.wait_for, 10)]
        if block <= job.reveal_deadline:
            return [*deeds, (stage.reveal, 60), (stage.join, 1), (stage.wait_for, 10)]
        if not cast.boards:
            late = [(stage.join, 10), (stage.start, 25), (stage.close, 10), (stage.wait_for, 5)]
            return [*deeds, *late]
        deeds += [(stage.play, 35), (stage.spoil, 25), (stage.confuse, 9), (stage.start, 6)]
        waits = [(lambda _: stage.wait(self.rng.choice((1, 2, 5))), 3), (stage.close, 2)]
        return [*deeds, *waits, (stage.time_out, 9), (stage.join, 2)]


def walk(seed: int, contract: RefereeContract | None, steps: int = STEPS) -> Stage:
    """Do many things, as a seed has it."""
    rng = random.Random(seed)
    stage = Stage(RefereeTwin(ACCOUNTS, contract), rng.choice)
    act = Act(stage, rng)
    for _ in range(steps):
        act.step()
    return stage


def count(stages: Iterable[Stage]) -> Counter[tuple[str, str, str]]:
    """Print and check the share of accepted calls, and return what was met."""
    seen: Counter[tuple[str, str, str]] = Counter()
    accepted = refused = 0
    for stage in stages:
        seen += stage.twins.seen
        accepted, refused = accepted + stage.accepted, refused + stage.refused
    print(f"{accepted} calls accepted, {refused} refused, {len(seen)} kinds")  # noqa: T201 - asked for
    assert accepted / (accepted + refused) >= LEAST_SHARE
    return seen


def walk_on_both(seeds: range, arithmetic: Arithmetic = ORDERED) -> Iterator[Stage]:
    """Yield the walks of some seeds, each on a contract that is as it was deployed."""
    for seed in seeds:
        with on_contract(arithmetic) as contract:
            yield walk(seed, contract)


def fathom(contract: RefereeContract | None) -> Stage:
    """Play a match through the deepest trees, to its end; picks of nothing in dispute are tried."""
    stage = meet(DEEPEST, LeafMode.SCALAR, contract, DEEP)
    cast = stage.casts[0]
    pair = next(iter(cast.boards))
    while pair in cast.boards:
        move = find_call(stage, cast, cast.boards[pair])
        for stray in _list_strays(move, cast.boards[pair].position.phase):
            assert not stage.make(cast, stray)
        assert stage.make(cast, move)
    return stage


def _list_strays(move: Call, phase: Phase) -> Iterator[Call]:
    """Yield a move with another pick: a node on which both agree, a segment that there is not."""
    *others, last = move.args
    if move.name == "descend":
        own = fold_children(NODE_TAGS[phase], last.nodes)
        yield replace(move, args=(*others, replace(last, node=own)))
    elif move.name == "pick_segment":
        yield replace(move, args=(*move.args[:4], FOLD_ARITY, *move.args[5:]))


def play_on_both(arithmetic: Arithmetic) -> Iterator[Stage]:
    """Yield matches that are long, or outlive their jobs, played on the contract, too."""
    for lie, mode, _ in OUTLIVED:
        with on_contract(arithmetic) as contract:
            yield outlive(lie, mode, contract)
    with on_contract(arithmetic) as contract:
        yield fathom(contract)


@pytest.mark.parametrize(
    ("arithmetic", "walks"),
    every(2, [(ORDERED, 3), (EXACT, 2), (HOPPER, 2), (AMPERE, 1)]),
    ids=str,
)
def test_random_walks_stay_in_lockstep(arithmetic: Arithmetic, walks: int) -> None:
    """However calls are mixed, model and contract agree after each, and invariants hold."""
    count(walk_on_both(range(share(walks)), arithmetic))


def test_a_dead_match_cannot_void_the_job() -> None:
    """Who has been defeated elsewhere can't bring a match before the verifier and let it be late.

    Nobody can rule on such a match, so its timeout must not take its other member out.
    """
    with on_contract() as contract:
        stage = Stage(RefereeTwin(ACCOUNTS, contract), lambda values: values[0])
        stage.open(leaf_mode=LeafMode.OPERATOR)
        cast, loser, others = stage.casts[0], PROVIDERS[0], PROVIDERS[1:3]
        for account, lie in zip((loser, *others), (None, LIES[2], LIES[2]), strict=True):
            stage.commit(cast, account, stage.get_run(cast, lie))
        stage.twins.block = 8
        for _ in cast.runs:
            stage.reveal(cast)
        stage.twins.block = 14
        tops = (cast.runs[loser].history.top, cast.runs[others[0]].history.top)
        assert stage.make(cast, Call("start_match", CLIENT, (0, loser, others[0], tops, NO_TOPS)))
        while next(iter(cast.boards.values())).position.phase is not Phase.VERIFIER:
            assert stage.move(cast)
        assert stage.make(cast, Call("start_match", CLIENT, (0, loser, others[1], tops, NO_TOPS)))
        stage.wait(10)
        dead, alive = cast.boards.values()
        assert stage.make(cast, Call("timeout", CLIENT, (alive.pair, alive.position)))
        assert not stage.make(cast, Call("timeout", CLIENT, (dead.pair, dead.position)))
        assert stage.twins.store.jobs[0].status is Status.OPEN


OUTLIVED = (
    (LIES[2], LeafMode.SCALAR, "leaf"),
    (LIES[7], LeafMode.SCALAR, "prove_sink"),
    (LIES[2], LeafMode.OPERATOR, "rule"),
)
"""Matches that outlive their jobs: the lie, the mode, and what would decide them."""
DEEPEST = Lie(step=299 * 300 - 77, operator=200, element=128 * 136 - 90, term=10)
"""In it, no tree is left early: there are two rounds of a fold, too."""


def meet(
    lie: Lie, mode: LeafMode, contract: RefereeContract | None, size: Size = SIZES[0]
) -> Stage:
    """Let a liar meet three honest members at once."""
    stage = Stage(RefereeTwin(ACCOUNTS, contract), lambda values: values[0])
    stage.open(size, leaf_mode=mode)
    cast, liar, rivals = stage.casts[0], PROVIDERS[0], PROVIDERS[1:4]
    for account in (liar, *rivals):
        stage.commit(cast, account, stage.get_run(cast, lie if account == liar else None))
    stage.twins.block = 8
    for _ in cast.runs:
        stage.reveal(cast)
    stage.twins.block = 14
    tops = (cast.runs[liar].history.top, cast.runs[rivals[0]].history.top)
    for rival in rivals:
        assert stage.make(cast, Call("start_match", CLIENT, (0, liar, rival, tops, NO_TOPS)))
    return stage


def find_call(stage: Stage, cast: Cast, board: Board) -> Call:
    """Return the next call of a match, and at its end the one by which the second member wins."""
    position, pair = board.position, board.pair
    if position.phase is Phase.VERIFIER:
        return Call("rule", VERIFIER, (pair, position, Outcome.SECOND))
    if position.phase in {Phase.LEAF, Phase.SINK}:
        move: Move | None = decide(cast.runs[pair.second], board, 1)
        sender = CLIENT
    else:
        sender = (pair.first, pair.second)[position.mover]
        move = find_move(cast.runs[sender], stage.get_terms(cast), board, position.mover)
    assert move is not None
    return Call(move.call, sender, (pair, position, *move.args))


def outlive(lie: Lie, mode: LeafMode, contract: RefereeContract | None) -> Stage:
    """Play matches of a beaten member on, up to what would decide them.

    One is played at once, one when the job has been won; and that one's clock runs out, too.
    """
    stage = meet(lie, mode, contract)
    cast = stage.casts[0]
    decided, dead, left = cast.boards
    while decided in cast.boards:
        assert stage.make(cast, find_call(stage, cast, cast.boards[decided]))
    while stage.make(cast, find_call(stage, cast, cast.boards[dead])):
        pass
    stage.wait(5)
    top = cast.runs[decided.second].history.top
    assert stage.make(cast, Call("settle", CLIENT, (0, top)))
    while stage.make(cast, find_call(stage, cast, cast.boards[left])):
        pass
    position = cast.boards[left].position
    stage.twins.block = position.deadline + 1
    assert not stage.make(cast, Call("timeout", CLIENT, (left, position)))
    return stage


@pytest.mark.parametrize(
    ("lie", "mode", "size", "shape", "moves"),
    [
        (LIES[2], LeafMode.SCALAR, SIZES[0], (0, 1), 8),
        (LIES[7], LeafMode.SCALAR, SIZES[0], (0, 0), 6),
        (LIES[2], LeafMode.OPERATOR, SIZES[0], (0, 0), 4),
        (LIES[2], LeafMode.SCALAR, SINGLE, (0, 1), 9),
        (LIES[2], LeafMode.OPERATOR, SINGLE, (0, 0), 5),
        (DEEPEST, LeafMode.SCALAR, DEEP, (9, 2), 16),
    ],
)
def test_matches_take_the_moves_that_they_are_bounded_by(
    lie: Lie, mode: LeafMode, size: Size, shape: tuple[int, int], moves: int
) -> None:
    """A match that ends at a scalar has as many moves as the bound for its trees and fold says.

    One that ends at a sink or an operator has no more.
    """
    stage = meet(lie, mode, None, size)
    cast = stage.casts[0]
    pair, terms = next(iter(cast.boards)), stage.get_terms(cast)
    while (at := cast.boards[pair].position).phase not in DECIDED:
        assert stage.make(cast, find_call(stage, cast, cast.boards[pair]))
    bound = count_moves(terms, *shape)
    assert at.moves == moves <= bound
    assert at.moves == bound or at.phase is not Phase.LEAF


@pytest.mark.parametrize("size", [SINGLE, replace(SINGLE, checkpoint_every=1)])
@pytest.mark.parametrize(
    ("lie", "mode", "ending"),
    [
        (LIES[0], LeafMode.SCALAR, ("leaf", "LEAF", "SCALAR SECOND")),
        (replace(LIES[7], step=0), LeafMode.SCALAR, ("prove_sink", "SINK", "SINK SECOND")),
        (LIES[0], LeafMode.OPERATOR, ("rule", "VERIFIER", "VERIFIER SECOND")),
    ],
)
def test_matches_over_one_checkpoint_stay_in_lockstep(
    size: Size, lie: Lie, mode: LeafMode, ending: tuple[str, str, str]
) -> None:
    """A history of one leaf is played to each kind of end, and only an entrance leaves it."""
    with on_contract() as contract:
        stage = meet(lie, mode, contract, size)
        cast = stage.casts[0]
        pair = next(iter(cast.boards))
        position = cast.boards[pair].position
        assert (position.level, position.count, position.entered) == (0, 1, 2)
        first = find_call(stage, cast, cast.boards[pair])
        assert first.name == "enter_claimed"
        own = position.nodes[position.mover]
        pick = replace(first.args[-1], nodes=(own,))
        assert not stage.make(cast, replace(first, name="descend", args=(pair, position, pick)))
        assert stage.twins.seen["descend", "HISTORY", str(Reason.WRONG_PHASE)] == 1
        while pair in cast.boards:
            assert stage.make(cast, find_call(stage, cast, cast.boards[pair]))
        assert stage.twins.seen[ending] == 1


def test_no_match_takes_more_moves_than_the_greatest() -> None:
    """Of all terms that are allowed, those for which the bound is the greatest have 43 moves.

    In `exact` they have 48.
    """
    stage = meet(LIES[2], LeafMode.SCALAR, None)
    largest = replace(
        stage.get_terms(stage.casts[0]),
        operators=MAX_OPERATORS,
        state_slots=MAX_SLOTS,
        steps=MAX_STEPS,
    )
    lengths = {min(MAX_STEPS, (1 << k) + more) for k in range(33) for more in (0, 1)}
    every = [replace(largest, checkpoint_every=length) for length in sorted(lengths)]
    assert all(map(are_terms_sound, every))
    assert max(map(get_move_bound, every)) == MAX_MOVES == 43
    assert max(get_move_bound(terms, EXACT) for terms in every) == MAX_WIDE_MOVES == 48


@pytest.mark.parametrize(("lie", "mode", "decision"), every(6, OUTLIVED))
def test_a_match_that_outlives_its_job_ends_in_nothing(
    lie: Lie, mode: LeafMode, decision: str
) -> None:
    """Moves go on when a member is beaten, and in a closed job, and neither decides a match.

    Both referees agree on every call, and each move changes no more than its match's word.
    """
    with on_contract() as contract:
        stage = outlive(lie, mode, contract)
        seen = stage.twins.seen
        (phase,) = {board.position.phase.name for board in stage.casts[0].boards.values()}
        assert seen[decision, phase, str(Reason.NOT_CONTENDER)] == 1
        assert seen[decision, phase, str(Reason.CLOSED)] == 1
        assert seen["timeout", phase, str(Reason.CLOSED)] == 1
        assert stage.twins.store.jobs[0].status is Status.WON


@pytest.mark.parametrize("arithmetic", only({ORDERED, EXACT, HOPPER}, ALL), ids=str)
def test_only_the_contract_of_leaves_decides_one(arithmetic: Arithmetic) -> None:
    """Whoever else tells the referee what a leaf should be is refused, and nothing changes."""
    with on_contract(arithmetic) as contract:
        stage = meet(LIES[2], LeafMode.SCALAR, contract)
        cast = stage.casts[0]
        pair = next(iter(cast.boards))
        while cast.boards[pair].position.phase is not Phase.LEAF:
            assert stage.make(cast, find_call(stage, cast, cast.boards[pair]))
        bits = cast.boards[pair].facts.bits
        said = (bits[0] | bits[1] << 64, bits[0]) if arithmetic == ORDERED else (0, 0)
        for sender in (pair.first, pair.second, CLIENT, VERIFIER, contract.address):
            message = Message(sender, 0, stage.twins.block)
            args = (pair, *said)
            assert contract.call("decide_leaf", message, args).reason == Reason.NOT_YOURS
            compare_words(contract.view, stage.twins.store, 0)
        assert stage.make(cast, find_call(stage, cast, cast.boards[pair]))
        assert stage.twins.seen["leaf", "LEAF", "SCALAR SECOND"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", only({ORDERED, EXACT, HOPPER}, ALL), ids=str)
def test_many_random_walks_stay_in_lockstep(arithmetic: Arithmetic) -> None:
    """The same for many more walks, which meet every transition on the contract, too."""
    walks = chain(walk_on_both(range(400), arithmetic), play_on_both(arithmetic))
    assert not list(find_gaps(count(walks)))


def test_a_wide_match_stays_in_lockstep() -> None:
    """A match of sums through the deepest trees, and two rounds of a fold, ends as it should."""
    with on_contract(EXACT) as contract:
        stage = fathom(contract)
        assert stage.twins.seen["pick_segment", "FOLD", "FOLD"] == 1
        assert stage.twins.seen["leaf", "LEAF", "SCALAR SECOND"] == 1


@pytest.mark.slow
def test_walks_cover_every_transition() -> None:
    """Walks, and matches that are long or outlive their jobs, meet all that `coverage` lists.

    That is every change of phase, every end of a match, and every reason of every call. There are
    as many walks as it takes, first those that met what is rare when they were chosen.
    """
    outlived = [outlive(lie, mode, None) for lie, mode, _ in OUTLIVED]
    seen = count([*outlived, fathom(None)])
    for seed in dict.fromkeys((*RARE, *range(MOST_WALKS))):
        if not list(find_gaps(seen)):
            return
        seen += walk(seed, None).twins.seen
    assert not list(find_gaps(seen))


class Lockstep(RuleBasedStateMachine):
    """Hypothesis's own walk over the same stage."""

    calls: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.mark = get_contract().machine.snapshot()
        self.data: Any = None
        self.stage = Stage(RefereeTwin(ACCOUNTS, get_contract()), self.pick)

    def pick(self, values: Any) -> Any:
        """Let Hypothesis choose."""
        return self.data.draw(st.sampled_from(list(values)))

    @property
    def cast(self) -> Cast:
        """The latest job."""
        return self.stage.casts[-1]

    def is_time(self, *, early: bool) -> bool:
        """Whether members may still join or show their claims in time."""
        job = self.stage.twins.store.jobs[self.cast.job_id]
        return early == (self.stage.twins.block <= job.reveal_deadline)

    @initialize(data=st.data(), revealed=st.sampled_from([4, 4, 2]))
    def open(self, data: Any, revealed: int) -> None:
        """Open a job, let four come to it, and most of them show their claims."""
        self.data = data
        self.begin(revealed)

    def begin(self, revealed: int) -> None:
        """Open a job, let four come to it, and some of them show their claims."""
        known = len(self.stage.casts)
        while len(self.stage.casts) == known:
            self.stage.open()
        job = self.stage.twins.store.jobs[self.cast.job_id]
        for _ in range(4):
            self.stage.join(self.cast)
        self.stage.twins.block = job.commit_deadline + 1
        for _ in range(revealed):
            self.stage.reveal(self.cast)
        self.stage.wait(self.pick((job.terms.reveal_blocks, 0)))

    @rule(data=st.data())
    def wait(self, data: Any) -> None:
        """Let time go by."""
        self.data = data
        self.stage.wait_for(self.cast)

    @precondition(lambda self: self.stage.twins.store.jobs[self.cast.job_id].claims <= 1)
    @rule(data=st.data())
    def close(self, data: Any) -> None:
        """Settle the job, or collect what it owes; when it is closed, there may be another."""
        self.data = data
        self.stage.close(self.cast)
        job = self.stage.twins.store.jobs[self.cast.job_id]
        if job.status is not Status.OPEN and self.pick((True, False)):
            self.begin(4)

    @precondition(lambda self: self.is_time(early=True))
    @rule(data=st.data())
    def show(self, data: Any) -> None:
        """Show a claim."""
        self.data = data
        self.stage.reveal(self.cast)

    @precondition(lambda self: self.is_time(early=False) and len(self.cast.boards) < 2)
    @rule(data=st.data(), deed=st.sampled_from(["start", "start", "join"]))
    def meet(self, data: Any, deed: str) -> None:
        """Begin a match, or come late."""
        self.data = data
        getattr(self.stage, deed)(self.cast)

    @precondition(lambda self: self.cast.boards)
    @rule(
        data=st.data(),
        deed=st.sampled_from([*["play"] * 5, "spoil", "spoil", "confuse", "time_out"]),
    )
    def dispute(self, data: Any, deed: str) -> None:
        """Make a right move, after a wrong one perhaps."""
        self.data = data
        if deed != "play":
            getattr(self.stage, deed)(self.cast)
        self.go_on()

    @rule(data=st.data(), is_old=st.booleans())
    def meddle(self, data: Any, *, is_old: bool) -> None:
        """Make a call again, or one whose time it is not."""
        self.data = data
        if is_old:
            self.stage.repeat()
        else:
            self.stage.meddle(self.cast)
        self.go_on()

    def go_on(self) -> None:
        """Make a right move, if there is a match."""
        if self.cast.boards:
            self.stage.play(self.cast)

    def teardown(self) -> None:
        """Count the calls, and forget them."""
        self.calls.update(accepted=self.stage.accepted, refused=self.stage.refused)
        get_contract().machine.revert(self.mark)


def make_settings(examples: int) -> settings:
    """Return how many times the machine runs, and for how many steps."""
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class TestLockstep(Lockstep.TestCase):  # type: ignore[misc,valid-type]  # made by Hypothesis
    """Runs the machine, and counts."""

    settings = make_settings(8)

    def runTest(self) -> None:  # noqa: N802 - unittest's name
        """Model and contract agree after every call, of which enough are accepted."""
        Lockstep.calls.clear()
        super().runTest()
        share = Lockstep.calls["accepted"] / Lockstep.calls.total()
        print(f"{dict(Lockstep.calls)}, {share:.0%} accepted")  # noqa: T201 - the share is asked for
        assert share >= LEAST_SHARE


@pytest.mark.slow
class TestLongLockstep(TestLockstep):
    """Runs it more often."""

    settings = make_settings(60)
