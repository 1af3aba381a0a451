"""The base of adversaries: whatever somebody can do who is none of the honest."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from tests.arena.records import Fill, Sent
from tests.arena.story import Params, Terms

if TYPE_CHECKING:
    from tests.arena.world import World


class Adversary:
    """An adversary that does nothing: a family overrides what it does.

    Args:
        world: where it plays.
        params: what was drawn for it.
    """

    def __init__(self, world: "World", params: Params) -> None:
        self.world, self.params = world, params

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """Return what is drawn for a game whose main job has these terms."""
        del random, terms
        return {}

    def shape(self) -> None:
        """Change the main job before its terms are made."""

    def prepare(self) -> None:
        """Do what is done before the first block."""

    def act(self) -> None:
        """Send what is sent for the next block, knowing all that waits."""

    def watch(self) -> None:
        """Do something once a block is there, such as replace it."""

    def fill(self, number: int, base_fee_wei: int) -> Iterable[Fill]:
        """Return the gas that is filled of a block."""
        del number, base_fee_wei
        return ()

    def drops(self, number: int, sent: Sent) -> bool:
        """Whether the builder of a block, who is an adversary's, leaves a transaction out."""
        del number, sent
        return False

    def twist(
        self, url: str, questions: Sequence[tuple[str, Sequence[Any]]], answers: list[Any]
    ) -> list[Any]:
        """Return what a node makes of its answers."""
        del url, questions
        return answers

    def withholds(self, url: str) -> bool:
        """Whether a node keeps what it is sent to itself."""
        del url
        return False
