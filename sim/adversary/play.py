"""Play: one game from where it stands to its end, by a temper that draws among what is legal."""

from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from moot.offchain.disputes.referee.port import Call
from moot.sim.adversary.choices import (
    END,
    GO,
    HOLD,
    UNTIL,
    can_hold,
    is_hasty,
    list_choices,
    make_call,
)
from moot.sim.adversary.judge import Verdict, bound_blocks, judge
from moot.sim.adversary.tables import MOST_ACCOUNTS
from moot.sim.adversary.world import Choice, World


@dataclass(frozen=True, slots=True)
class Temper:
    """How an adversary draws its choices: weights of what it may do.

    Attributes:
        weights: by the name of a choice; those of a name share its weight.
        probing: how often it tries what a sound referee refuses.
        dawdles: whether it moves in the last block of its clock, mostly.
    """

    weights: dict[str, float]
    probing: float
    dawdles: bool


KINDS = (
    *("commit", "reveal", "join", "start", "move", "push", "decide", "timeout", "settle"),
    *("collect", "forge", "annul", GO, HOLD, END, UNTIL),
)


_FACTORS = {
    "commit": 2.0,
    "reveal": 4.0,
    "start": 2.0,
    "move": 6.0,
    "push": 2.0,
    "decide": 2.0,
    "settle": 0.2,
    "collect": 0.2,
    "annul": 0.02,
    END: 1.0,
    UNTIL: 0.5,
}
"""What most adversaries do rather than wait, and what is seldom of use."""


def draw_temper(random: Random) -> Temper:
    """Return a temper; each of its weights is a power of four, mostly near one."""
    weights = {kind: 4.0 ** random.choice((-2, -1, 0, 0, 1, 1, 2)) for kind in KINDS}
    for kind, factor in _FACTORS.items():
        weights[kind] *= factor
    return Temper(weights, random.choice((0.0, 0.0, 0.05, 0.3)), random.random() < _DAWDLING)


_DAWDLING, _HURRY = 0.2, 0.02
"""The share of adversaries that dawdle, and how often one of them moves at once all the same."""
_PASSING = frozenset({END, UNTIL})
"""Choices by which blocks pass."""


@dataclass(slots=True)
class Tally:
    """Counts of what was tried: accepted and refused calls of the adversary, by their kind."""

    accepted: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


def count(counts: dict[str, int], name: str) -> None:
    """Count one more."""
    counts[name] = counts.get(name, 0) + 1


def choose(choices: list[Choice], temper: Temper, random: Random, world: World) -> Choice:
    """Draw one of several choices: a kind first, and then one of that kind."""
    kinds: dict[str, list[Choice]] = {}
    for choice in choices:
        kinds.setdefault(choice[0], []).append(choice)
    names, weights, total = [*kinds], [], 0.0
    for name in names:
        total += temper.weights[name]
        weights.append(total)
    while True:
        drawn = kinds[names[bisect(weights, random.random() * total, 0, len(names) - 1)]]
        choice = drawn[int(random.random() * len(drawn))]
        if not temper.dawdles:
            return choice
        if choice[0] == UNTIL:
            return drawn[0]
        if choice[0] != "move" or not is_hasty(world, choice) or random.random() < _HURRY:
            return choice


def apply(world: World, choice: Choice, tally: Tally) -> bool:
    """Do what was chosen; return whether it was possible."""
    name = choice[0]
    if name in _WAITING:
        if name == HOLD and not can_hold(world):
            return False
        world.path = (world.path, choice)
        _WAITING[name](world, choice)
        return True
    call = make_call(world, choice)
    if call is None or not world.attempt(call):
        count(tally.refused, name)
        return False
    count(tally.accepted, name)
    world.path = (world.path, choice)
    if name in {"commit", "join"}:
        said = list(world.said)
        said[choice[1]] = choice[2]
        world.said = tuple(said)
    return True


def _wait(world: World, choice: Choice) -> None:
    """Let blocks pass until one, or until the honest provider has done something."""
    block = world.opened_block + choice[1]
    while world.block < block and not world.is_closed:
        world.advance()
        if world.pending:
            world.release()
            return


_WAITING: Mapping[str, Callable[[World, Choice], None]] = {
    GO: lambda world, _: world.release(),
    HOLD: lambda world, _: world.hold(),
    END: lambda world, _: world.advance(),
    UNTIL: _wait,
}
"""What is done by choices that are no calls."""


def play_out(
    world: World, temper: Temper, random: Random, tally: Tally, at_block: Callable[[World], None]
) -> Verdict:
    """Play a game to its end, and judge it.

    Args:
        world: where it stands; it is changed.
        temper: how the adversary draws.
        random: what it draws from.
        tally: counts what was tried.
        at_block: is shown the world at the beginning of each block.
    """
    bound = world.opened_block + bound_blocks(world.table, MOST_ACCOUNTS)
    while world.block <= bound:
        block, probes = world.block, random.random() < temper.probing
        choices = list_choices(world, probes=probes)
        while not apply(world, choice := choose(choices, temper, random, world), tally):
            choices.remove(choice)
        if choice[0] in _PASSING and world.block != block:
            if world.is_closed:
                break
            at_block(world)
    return finish(world)


def finish(world: World) -> Verdict:
    """Let everybody collect what is owed, and judge the game."""
    last = world.closed_block or world.block
    world.advance()
    world.release()
    table = world.table
    for account in (*table.accounts, table.client):
        if world.is_closed and world.referee.debt(0, account):
            world.attempt(Call("collect", account, (0,)))
    return judge(world, last)
