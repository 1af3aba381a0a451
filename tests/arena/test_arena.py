"""The whole-system adversary: the shipped provider against all that was drawn."""

from pathlib import Path

import pytest

from tests.arena.adversaries.table import FAMILIES
from tests.arena.draw import draw_story
from tests.arena.faults import FAULTS, is_found, search
from tests.arena.play import play, play_in_world
from tests.arena.story import Story, read_story
from tests.arena.unmend import unmended
from tests.quick import every, share

FOUND = Path(__file__).with_name("found")
GAMES = share(40, 2)
MOST_GAMES = 400


def read_found(name: str) -> Story:
    """Return the game that has shown a fault, as it was shrunk."""
    return read_story((FOUND / f"{name}.json").read_text(encoding="utf-8"))


def test_drawn_games_break_no_invariant() -> None:
    """Whatever is drawn, what an honest provider relies on holds."""
    verdicts = [play(draw_story(seed)) for seed in range(GAMES)]
    assert {it.story.seed: it.broken for it in verdicts if it.broken} == {}
    assert sum(it.matches for it in verdicts if not it.outside) >= GAMES // 2


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_is_played_alone(name: str) -> None:
    """No family needs another one to be played, and none of them wins alone."""
    assert play(draw_story(1, (name,))).broken == {}


@pytest.mark.parametrize("name", every(16, FAULTS))
def test_what_was_found_stays_mended(name: str) -> None:
    """A game that an adversary has won is lost now, and won again where the mend is taken out."""
    story = read_found(name)
    assert play(story).broken == {}
    with unmended(name):
        assert is_found(FAULTS[name], *play_in_world(story))


@pytest.mark.parametrize("seed", every(6, [0, 7, 14]))
def test_a_story_comes_to_the_same_end(seed: int) -> None:
    """A game is its story: played again from its text it is the same, block by block."""
    story = draw_story(seed)
    assert read_story(story.to_json()) == story
    assert play(story) == play(read_story(story.to_json()))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if not fault.is_rare])
def test_each_fault_is_found_without_its_mend(name: str) -> None:
    """Of each mend that is taken out the drawn adversaries find the fault."""
    with unmended(name):
        assert search(FAULTS[name], MOST_GAMES) is not None
