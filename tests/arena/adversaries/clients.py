"""Clients that leave what they should do to others, or do it in the worst moment."""

from random import Random

from tests.arena.adversary import Adversary
from tests.arena.story import Params, Terms


class LazyClient(Adversary):
    """A client that begins no match and settles nothing."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del random, terms
        return {}

    def prepare(self) -> None:
        """Do nothing from the start."""
        self.world.is_client_active = False
