"""Model and contract in lock-step: any calls in any order, compared after every one of them."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from contracts.reasons import LeafMode, Phase, Status
from tests.referee.coverage import find_gaps
from tests.referee.search import Call
from tests.referee.stage import ACCOUNTS, CLIENT, LIES, PROVIDERS, Cast, Stage, get_run
from tests.referee.twins import Contract, Twins

STEPS = 250
LEAST_SHARE = 0.3


@cache
def get_contract() -> Contract:
    """Return the contract, deployed."""
    return Contract(ACCOUNTS)


@contextmanager
def on_contract() -> Iterator[Contract]:
    """Give the contract as it was deployed."""
    machine = get_contract().machine
    mark = machine.snapshot()
    try:
        yield get_contract()
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
            return [*deeds, (stage.close, 30), (lambda _: stage.open(), 10)]
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


def walk(seed: int, contract: Contract | None, steps: int = STEPS) -> Stage:
    """Do many things, as a seed has it."""
    rng = random.Random(seed)
    stage = Stage(Twins(ACCOUNTS, contract), rng.choice)
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


def walk_on_both(seeds: range) -> Iterator[Stage]:
    """Yield the walks of some seeds, each on a contract that is as it was deployed."""
    for seed in seeds:
        with on_contract() as contract:
            yield walk(seed, contract)


def test_random_walks_stay_in_lockstep() -> None:
    """However calls are mixed, model and contract agree after each, and invariants hold."""
    count(walk_on_both(range(12)))


def test_a_dead_match_cannot_void_the_job() -> None:
    """Who has been defeated elsewhere can't bring a match before the verifier and let it be late.

    Nobody can rule on such a match, so its timeout must not close the job, unlike that of another.
    """
    with on_contract() as contract:
        stage = Stage(Twins(ACCOUNTS, contract), lambda values: values[0])
        stage.open(leaf_mode=LeafMode.OPERATOR)
        cast, loser, others = stage.casts[0], PROVIDERS[0], PROVIDERS[1:3]
        for account, lie in zip((loser, *others), (None, LIES[2], LIES[2]), strict=True):
            stage.commit(cast, account, get_run(cast.size, lie))
        stage.twins.block = 8
        for _ in cast.runs:
            stage.reveal(cast)
        stage.twins.block = 14
        tops = (cast.runs[loser].history.top, cast.runs[others[0]].history.top)
        assert stage.make(cast, Call("start_match", CLIENT, (0, loser, others[0], tops)))
        while next(iter(cast.boards.values())).position.phase is not Phase.VERIFIER:
            assert stage.move(cast)
        assert stage.make(cast, Call("start_match", CLIENT, (0, loser, others[1], tops)))
        stage.wait(10)
        dead, alive = cast.boards.values()
        assert stage.make(cast, Call("timeout", CLIENT, (alive.pair, alive.position)))
        assert not stage.make(cast, Call("timeout", CLIENT, (dead.pair, dead.position)))
        assert stage.twins.store.jobs[0].status is Status.OPEN


@pytest.mark.slow
def test_many_random_walks_stay_in_lockstep() -> None:
    """The same for many more walks, which meet every transition on the contract, too."""
    assert not list(find_gaps(count(walk_on_both(range(400)))))


def test_walks_cover_every_transition() -> None:
    """Walks meet every change of phase, every end of a match, and every reason of every call."""
    assert not list(find_gaps(count(walk(seed, None) for seed in range(200))))


class Lockstep(RuleBasedStateMachine):
    """Hypothesis's own walk over the same stage."""

    calls: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.mark = get_contract().machine.snapshot()
        self.data: Any = None
        self.stage = Stage(Twins(ACCOUNTS, get_contract()), self.pick)

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
        while not self.stage.casts:
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
        """Settle the job, or collect what it owes."""
        self.data = data
        self.stage.close(self.cast)

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
        """Make right and wrong moves."""
        self.data = data
        getattr(self.stage, deed)(self.cast)

    @rule(data=st.data(), is_old=st.booleans())
    def meddle(self, data: Any, *, is_old: bool) -> None:
        """Make a call again, or one whose time it is not."""
        self.data = data
        if is_old:
            self.stage.repeat()
        else:
            self.stage.meddle(self.cast)

    def teardown(self) -> None:
        """Count the calls, and forget them."""
        self.calls.update(accepted=self.stage.accepted, refused=self.stage.refused)
        get_contract().machine.revert(self.mark)


class TestLockstep(Lockstep.TestCase):  # type: ignore[misc,valid-type]  # made by Hypothesis
    """Runs the machine, and counts."""

    settings = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

    def runTest(self) -> None:  # noqa: N802 - unittest's name
        """Model and contract agree after every call, of which enough are accepted."""
        Lockstep.calls.clear()
        super().runTest()
        share = Lockstep.calls["accepted"] / Lockstep.calls.total()
        print(f"{dict(Lockstep.calls)}, {share:.0%} accepted")  # noqa: T201 - the share is asked for
        assert share >= LEAST_SHARE
