"""A node that changes its answers makes nobody act on them, and ends nobody."""

import pytest

from tests.parties.lies import World, campaign
from tests.quick import share


@pytest.fixture(scope="module")
def world() -> World:
    """A referee on a chain, and an account."""
    return World()


def test_changed_answers_are_right_or_an_error_of_the_chain(world: World) -> None:
    """Drawn changes, of every answer to every method: form, order and content."""
    counts = campaign(world, draws=share(480), seed=42)
    assert counts["right"] > 0 < counts["ChainUnavailable"]
    assert counts["another"] < counts.total() // 10
