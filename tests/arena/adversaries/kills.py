"""Kills: the provider's process is ended at any moment, and started again."""

from random import Random

from tests.arena.adversary import Adversary
from tests.arena.story import Params, Terms


class Kills(Adversary):
    """Ends the provider at some moments of its life."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {"seconds": sorted(random.randrange(1, 700) for _ in range(random.randrange(1, 4)))}

    def prepare(self) -> None:
        """Let it die at these seconds."""
        for second in self.params["seconds"]:
            self.world.clock.schedule(second + 0.5, self.world.kill)
