"""The drawing of stories: which adversaries meet, how much gas costs, what the provider holds."""

from collections.abc import Sequence
from random import Random

from tests.arena.adversaries.table import FAMILIES
from tests.arena.story import Move, Story, Terms

BONDS_WEI = (2 * 10**17, 5 * 10**17, 10**18)
CEILING_GWEI = 50.0
CROWDS = (1, 3, 8, 40, 100)
HIGHEST_GWEI = 48.0
"""Base fees end here, so that a tip of one fits under the ceiling."""
WEIGHTS = {"liars": 6, "censor": 3, "reorganiser": 2, "nodes": 2, "demands": 1}
"""How often a family is drawn; 1 for the others."""


def draw_story(seed: int, families: tuple[str, ...] = ()) -> Story:
    """Return the story of a seed: of some families, all of them in half of the games, or of any."""
    random = Random(f"arena {seed}")
    terms = Terms(
        bond_wei=random.choice(BONDS_WEI),
        reward_wei=random.choice((10**16, 10**17, 10**18)),
        commit_blocks=random.choice((6, 16, 16, 30)),
        reveal_blocks=30,
        window_blocks=random.choice((16, 30)),
        clock_blocks=random.choice((0, 0, 64, 100)),
        checkpoints=random.choice((2, 4, 9)),
    )
    names = families or tuple(FAMILIES)
    weights = [WEIGHTS.get(name, 1) for name in names]
    chosen = random.choices(names, weights, k=random.choice((1, 2, 2, 3)))
    if families and random.random() < 0.5:
        chosen = list(families)
    moves = [Move(name, FAMILIES[name].draw(random, terms)) for name in chosen]
    if random.random() < 0.5:
        moves = _agree(moves)
    moves = [move for place, move in enumerate(moves) if _is_new(move, moves[:place])]
    moves = _leave_one(moves)
    liars = sum(it.params["count"] for it in moves if it.family == "liars")
    crowds = [crowd for crowd in CROWDS if crowd >= liars]
    settings = {"max_fee_gwei": CEILING_GWEI, "crowd": random.choice(crowds)}
    if "demands" in chosen:
        settings |= {"demand_budget": random.choice((0.1, 0.5))}
    return Story(
        seed=seed,
        levels=_draw_levels(random),
        spare_wei=None if random.random() < 0.3 else 0,
        settings=settings,
        terms=terms,
        moves=tuple(moves),
    )


def _agree(moves: Sequence[Move]) -> list[Move]:
    """Let all liars play in the same way."""
    ways = [it.params for it in moves if it.family == "liars"]
    shared = {name: ways[0][name] for name in ("timing", "opens", "tip_gwei")} if ways else {}
    return [
        Move(it.family, {**it.params, **shared}) if it.family == "liars" else it for it in moves
    ]


def _leave_one(moves: Sequence[Move]) -> list[Move]:
    """Let all that nodes say wrong be said by the same one: the other says what is true."""
    told = [it.params["node"] for it in moves if "node" in it.params]
    return [
        Move(it.family, {**it.params, "node": told[0]}) if "node" in it.params else it
        for it in moves
    ]


def _is_new(move: Move, others: Sequence[Move]) -> bool:
    """Whether a move can be beside others: one of a family, and liars only with another lie."""
    if move.family != "liars":
        return all(it.family != move.family for it in others)
    lie = [move.params[name] for name in ("step", "operator", "term")]
    return all(
        [it.params[name] for name in ("step", "operator", "term")] != lie
        for it in others
        if it.family == "liars"
    )


def _draw_levels(random: Random) -> tuple[tuple[int, float], ...]:
    """Return where base fees go: they stay, or rise and fall at drawn blocks."""
    levels = [(0, random.choice((1.0, 5.0, 20.0, 40.0)))]
    changes = range(random.choice((0, 0, 1, 3)))
    levels += [(random.randrange(1, 80), random.choice((1.0, 20.0, HIGHEST_GWEI))) for _ in changes]
    return tuple(sorted(dict(levels).items()))
