"""The random draws of a market, each from a stream of its own.

A stream depends on (seed, purpose, job, provider) alone. So the first jobs of a longer market are
those of a shorter one, and what a provider draws does not depend on who else plays: that is what
lets a cheat be compared with its honest twin.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SEATS = (2, 3)
"""The fewest and the most providers that get the same job."""


@dataclass(frozen=True, slots=True)
class JobDraws:
    """What chance decides about one job.

    Attributes:
        seats: the providers that get it, by index, in the order in which they join.
        cheats: every provider's own stream, whether it gets the job or not.
        salt_seed: seed of the salts of the commitments, 64 bits.
    """

    seats: tuple[int, ...]
    cheats: tuple[np.random.Generator, ...]
    salt_seed: int


def draw_jobs(seed: int, jobs: int, providers: int) -> Iterator[JobDraws]:
    """Return the draws of so many jobs among so many providers, of whom there are two or more."""
    purposes = np.random.SeedSequence(seed).spawn(3)
    streams = zip(*(purpose.spawn(jobs) for purpose in purposes), strict=True)
    for assignment, cheats, salts in streams:
        yield JobDraws(
            seats=_draw_seats(np.random.default_rng(assignment), providers),
            cheats=tuple(np.random.default_rng(own) for own in cheats.spawn(providers)),
            salt_seed=int(salts.generate_state(1, np.uint64)[0]),
        )


def _draw_seats(rng: np.random.Generator, providers: int) -> tuple[int, ...]:
    fewest, most = SEATS
    count = int(rng.integers(fewest, min(most, providers) + 1))
    return tuple(int(seat) for seat in rng.permutation(providers)[:count])
