"""Random draws in a market: each depends on (seed, purpose, job, provider) and on nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from moot.sim.draws import JobDraws, draw_jobs

seeds = st.integers(0, 2**64 - 1)
counts = st.integers(1, 8)


def show(draws: JobDraws) -> tuple[object, ...]:
    """Return draws in a form that can be compared; uses up their streams."""
    first = tuple(int(stream.integers(2**63)) for stream in draws.cheats)
    return draws.seats, first, draws.salt_seed


@given(seeds, counts, st.integers(2, 8))
def test_the_same_seed_draws_the_same(seed: int, jobs: int, providers: int) -> None:
    """Drawing is a function of its arguments."""
    once, again = (list(map(show, draw_jobs(seed, jobs, providers))) for _ in range(2))
    assert once == again


@given(seeds, counts, counts, st.integers(2, 8))
def test_a_longer_market_begins_like_a_shorter_one(
    seed: int, jobs: int, more: int, providers: int
) -> None:
    """A job's draws do not depend on how many jobs follow."""
    short = list(map(show, draw_jobs(seed, jobs, providers)))
    long = list(map(show, draw_jobs(seed, jobs + more, providers)))
    assert long[:jobs] == short


@given(seeds, counts, st.integers(2, 8), counts)
def test_a_provider_draws_the_same_whoever_else_plays(
    seed: int, jobs: int, providers: int, more: int
) -> None:
    """A provider's stream and the salts do not depend on the number of providers."""
    few = map(show, draw_jobs(seed, jobs, providers))
    many = map(show, draw_jobs(seed, jobs, providers + more))
    for (_, own, salt), (_, others, same) in zip(few, many, strict=True):
        assert isinstance(own, tuple)
        assert isinstance(others, tuple)
        assert (others[:providers], same) == (own, salt)


@given(seeds, counts, st.integers(2, 8))
def test_seats_are_two_or_three_different_providers(seed: int, jobs: int, providers: int) -> None:
    """Nobody sits in two seats, and nobody sits who is not there."""
    for draws in draw_jobs(seed, jobs, providers):
        assert len(draws.seats) in {2, min(3, providers)}
        assert len(set(draws.seats)) == len(draws.seats)
        assert set(draws.seats) <= set(range(providers))


def test_the_purposes_have_streams_of_their_own() -> None:
    """No two streams of a market begin alike, in one job or in different ones."""
    shown = list(map(show, draw_jobs(1, 20, 6)))
    salts = {salt for _, _, salt in shown}
    firsts = {first for _, own, _ in shown if isinstance(own, tuple) for first in own}
    assert len(salts) == 20
    assert len(firsts) == 120


def test_every_provider_and_every_number_of_seats_is_drawn() -> None:
    """Over many jobs all providers sit in every place, and jobs go to two as well as to three."""
    seats = [draws.seats for draws in draw_jobs(0, 200, 4)]
    assert {len(seated) for seated in seats} == {2, 3}
    for place in range(2):
        assert {seated[place] for seated in seats} == set(range(4))
