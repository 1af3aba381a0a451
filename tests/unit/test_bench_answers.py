"""How fast sides answer, as the bench of parties reads it from a log."""

from typing import Any

from moot.bench.answers import list_answers
from moot.contracts.model.types import Event, Position
from moot.contracts.reasons import Ending, Outcome

A, B, C = ("0x" + digit * 40 for digit in "123")


def make(name: str, pair: tuple[str, str], *args: Any) -> Event:
    """Return an event of a match of job 0."""
    return Event(name, (0, *pair, *args))


def turn(mover: int) -> Position:
    """Return a position in which a side is to move."""
    position = object.__new__(Position)
    object.__setattr__(position, "mover", mover)
    return position


def test_answers_are_counted_from_the_move_before() -> None:
    """Each side's blocks, the proof that ends a match, and matches that end with it."""
    log = [
        (10, make("MatchStarted", (A, B), turn(0))),
        (11, make("MatchStarted", (A, C), turn(0))),
        (11, make("Moved", (A, B), turn(1), (), b"")),
        (14, make("Found", (A, B), None)),
        (14, make("Moved", (A, B), turn(0), (), b"")),
        (16, make("MatchEnded", (A, B), Outcome(1), Ending.SCALAR, 0)),
        (17, make("Moved", (A, C), turn(1), (), b"")),
    ]
    found = list_answers(log)
    assert {it: found[it].blocks for it in (A, B, C)} == {A: [1], B: [3, 2], C: []}
    assert (found[A].matches, found[A].most_matches, found[C].most_matches) == (2, 2, 1)
    assert (found[B].worst, found[B].mean, found[C].worst) == (3, 2.5, 0)
    assert not any(it.missed for it in found.values())


def test_a_clock_that_runs_out_is_missed_by_its_side() -> None:
    """Whoever was to move has missed it; a ruling is nobody's answer."""
    log = [
        (10, make("MatchStarted", (A, B), turn(0))),
        (90, make("MatchEnded", (A, B), Outcome(1), Ending.CLOCK, 0)),
        (91, make("MatchStarted", (B, C), turn(0))),
        (92, make("MatchEnded", (B, C), Outcome(0), Ending.VERIFIER, 0)),
    ]
    found = list_answers(log)
    assert {it: (found[it].missed, found[it].blocks) for it in (A, B, C)} == {
        A: (1, []),
        B: (0, []),
        C: (0, []),
    }
