"""Every reachable state of small jobs, under one adversary who owns all members but one.

What is left out, because it is the same in every respect that the referee sees: which wrong bytes a
wrong node has (one wrong value a place, two where two lies are to differ there); trees of which
somebody has committed to a top and cannot open a node (the same as silence where they are to be
opened); and calls whose arguments are refused (those tried here, and all others in
test_lockstep.py, change nothing). Trees, proofs and leaves are real.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest

from moot.contracts.model.step_invariants import get_match_bound, get_move_bound
from moot.contracts.model.types import Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size, make_task
from tests.quick import only
from tests.referee.search import Found, Search, Villain

ACCOUNTS = tuple(f"0x{number:040x}" for number in range(0x1111, 0x8888, 0x1111))
CLIENT, VERIFIER = ACCOUNTS[-2:]
DAILY = Size(checkpoints=16, checkpoint_every=1, operators=6, rows=1, columns=2, terms=3)
SPARSE = replace(DAILY, checkpoints=5, checkpoint_every=3)
SINGLE = replace(DAILY, checkpoints=1, checkpoint_every=3)
WIDE = replace(DAILY, rows=32, columns=40)
OPERATORS = DAILY.operators
PRODUCT, SINK = 2, 5


@dataclass(frozen=True)
class Scene:
    """A small job: a tree of 16 leaves at most, and clocks of one to three blocks.

    Attributes:
        lies: one for each member of the adversary's, from earlier or later ones of the same claim.
        late: how many of them, the last ones, join late if at all.
        seat: the honest member's among the addresses.
        faces: how many accounts go with each wrong history.
        is_silent: whether the verifier never rules.
    """

    lies: Sequence[Lie]
    clock: int = 1
    increment: int = 1
    late: int = 0
    seat: int = 0
    size: Size = DAILY
    leaf_mode: LeafMode = LeafMode.SCALAR
    censored: int = 0
    faces: int = 4
    is_silent: bool = False


@cache
def get_task(size: Size) -> ProductTask:
    """Return the job of a size."""
    return make_task(size)


def make_faces(task: ProductTask, lie: Lie, faces: int) -> tuple[ProductRun, ...]:
    """Return all accounts that go with one wrong history: another operator, term or sink."""
    steps = range(lie.step, lie.step + 1)
    if task.checkpoint_every > 1:
        first = lie.step - lie.step % task.checkpoint_every
        steps = range(first, first + task.checkpoint_every)
    places = ((PRODUCT, 0), (PRODUCT, 2), (SINK, 0), (OPERATORS, 0))
    lies = [replace(lie, step=s, operator=o, term=t) for s in steps for o, t in places[:faces]]
    runs = tuple(ProductRun(task, other) for other in lies)
    assert len({run.history.top for run in runs}) == 1
    return runs


def search(scene: Scene) -> tuple[Found, Terms]:
    """Visit every state of a scene."""
    task = get_task(scene.size)
    stakes = Stakes(
        commit_blocks=1,
        reveal_blocks=1 + scene.censored,
        window_blocks=1,
        clock_blocks=scene.clock,
        increment_blocks=scene.increment,
    )
    terms = make_terms(task, stakes, scene.leaf_mode, VERIFIER)
    seats = [a for place, a in enumerate(ACCOUNTS) if place != scene.seat]
    on_time = len(scene.lies) - scene.late
    villains = [
        Villain(seat, make_faces(task, lie, scene.faces), is_late=place >= on_time)
        for place, (seat, lie) in enumerate(zip(seats, scene.lies, strict=False))
    ]
    honest = (ACCOUNTS[scene.seat], ProductRun(task))
    made = Search(task, terms, honest, villains, CLIENT, scene.censored, scene.is_silent)
    return made.run(), terms


def check(scene: Scene) -> Found:
    """Visit every state of a scene, print what was found, and check how long it may take."""
    found, terms = search(scene)
    rounds = len({(lie.step, lie.mask) for lie in scene.lies}).bit_length()
    match_bound = get_match_bound(terms, get_move_bound(terms)) + 1
    lag = 1 + scene.censored
    bound = terms.reveal_blocks + rounds * (terms.window_blocks + match_bound + lag) + lag
    print(f"{scene}\n{found}; the bound is {bound} blocks")  # noqa: T201 - the counts are asked for
    assert found.longest_blocks <= bound
    assert found.statuses.keys() <= ({"WON", "EMPTY"} if scene.is_silent else {"WON"})
    assert ("CLOCK UNDECIDED" in found.endings) == scene.is_silent
    return found


EARLY, LATER = Lie(step=4, element=1), Lie(step=9, element=1)
ELSEWHERE = replace(LATER, mask=2)
SWARM = (LATER, LATER)

SCENES = {
    "duel": Scene([LATER]),
    "duel of the second": Scene([LATER], clock=3, seat=1),
    "duel with a longer clock": Scene([EARLY], clock=3, increment=2),
    "duel under censorship": Scene([LATER], clock=3, increment=2, censored=1),
    "one interval": Scene([Lie(step=1, element=1)], clock=2, size=SINGLE),
    "one step": Scene(
        [Lie(step=0, element=1)], clock=2, seat=1, size=replace(DAILY, checkpoints=1)
    ),
    "one interval before the verifier": Scene(
        SWARM[:1],
        size=replace(DAILY, checkpoints=1, checkpoint_every=12),
        leaf_mode=LeafMode.OPERATOR,
    ),
    "sparse checkpoints": Scene([Lie(step=4, element=1)], clock=2, size=SPARSE),
    "sparse checkpoints, the last": Scene([Lie(step=11, element=1)], size=SPARSE, seat=1),
    "tensors of many chunks": Scene([LATER], clock=2, size=WIDE),
    "new claim that comes late": Scene([EARLY, LATER], late=1),
    "three claims": Scene([EARLY, LATER], clock=2, seat=1),
    "three claims, two wrong in one place": Scene([LATER, ELSEWHERE], clock=2, seat=2),
    "bounded verifier": Scene(SWARM, clock=2, leaf_mode=LeafMode.OPERATOR),
    "silent verifier": Scene(SWARM, leaf_mode=LeafMode.OPERATOR, is_silent=True),
    "silent verifier of liars": Scene(
        [EARLY, LATER], leaf_mode=LeafMode.OPERATOR, seat=1, faces=1, is_silent=True
    ),
}

LONGER = {
    *("bounded verifier", "silent verifier", "three claims"),
    "three claims, two wrong in one place",
}


@pytest.mark.parametrize("name", only(set(SCENES) - LONGER, SCENES))
def test_every_reachable_state_keeps_the_invariants(name: str) -> None:
    """Whatever the adversary does and whenever, the honest member wins, in bounded time.

    If the verifier is silent about a match it keeps its bond, and no claim wins.

    In every state all invariants hold, and anybody could close the job and let all be paid.
    """
    assert check(SCENES[name]).states >= 30


LONG_SCENES = {
    "swarm against itself before the verifier": Scene(
        [LATER, LATER, EARLY], leaf_mode=LeafMode.OPERATOR, seat=3
    ),
    "swarm": Scene(SWARM),
    "swarm with longer clocks": Scene(SWARM, clock=3, increment=2),
    "swarm that comes late": Scene(SWARM, late=1, seat=1),
    "swarm under censorship": Scene(SWARM, clock=2, increment=2, censored=1),
    "three claims, one of two": Scene([EARLY, LATER, LATER], faces=2),
    "three claims and a late one": Scene([EARLY, LATER, LATER], late=1, seat=1, faces=1),
    "two claims in one place and a late one": Scene(
        [LATER, ELSEWHERE, LATER], late=1, seat=2, faces=1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_SCENES)
def test_every_reachable_state_of_longer_games_keeps_the_invariants(name: str) -> None:
    """The same with longer clocks, more members, and members that come late."""
    assert check(LONG_SCENES[name]).states > 1000


def test_a_player_who_answers_too_slowly_would_be_found_out() -> None:
    """The search sees a defeat: censored for longer than the increment, honesty does not help."""
    with pytest.raises(AssertionError):
        search(Scene([LATER], clock=1, increment=1, censored=2))
