"""A search in a unit cube under constraints: scipy's differential evolution, in generations.

A generation is asked for as a whole, so that its markets are played side by side, and the seed
decides what is asked, whatever plays them. Of two points of which one breaks a constraint, the one
that breaks less wins (Lampinen 2002), so that what is asked for first is to meet them.
"""

from collections.abc import Callable

import numpy as np

from moot.sim.estimates import Floats

MEMBERS_PER_KEY = 8
"""Points of a generation for each key."""
FEWEST, MOST = 8, 48
"""Points of a generation."""

Evaluate = Callable[[Floats], Floats]
"""Returns for points, a row for each, what is to be small, and after it what is to be 0 or less."""


def count_members(keys: int) -> int:
    """Return how many points a generation has."""
    return min(max(FEWEST, MEMBERS_PER_KEY * keys), MOST)


def search(evaluate: Evaluate, keys: int, limits: int, trials: int, seed: int) -> None:
    """Ask for points of a unit cube, as many as there are trials, the better ones' neighbours.

    What comes of them is the caller's to keep: the best is found among all that were asked for.

    Args:
        evaluate: measures points; the same point is asked for again now and then.
        keys: dimensions of the cube.
        limits: how many constraints there are.
        trials: the most points, in whole generations; one generation at the least.
        seed: decides which points are asked for.
    """
    from scipy.optimize import NonlinearConstraint, differential_evolution  # noqa: PLC0415 - slow
    from scipy.stats import qmc  # noqa: PLC0415 - likewise

    members = count_members(keys)
    rng = np.random.default_rng(seed)
    first = qmc.LatinHypercube(keys, rng=rng).random(members)
    evaluate(first)  # all at once, as scipy asks for one of them first

    def aim(points: Floats) -> Floats:
        if not points.size:  # of a generation in which every point breaks a limit
            return np.zeros(0)
        return evaluate(np.atleast_2d(points.T))[:, 0]

    def exceed(points: Floats) -> Floats:
        return evaluate(np.atleast_2d(points.T))[:, 1:].T

    differential_evolution(
        aim,
        [(0.0, 1.0)] * keys,
        constraints=(NonlinearConstraint(exceed, -np.inf, 0.0),) if limits else (),
        init=first,
        maxiter=max(0, trials // members - 1),
        tol=0.0,
        polish=False,
        updating="deferred",
        vectorized=True,
        rng=rng,
    )
