"""Slow values: steps whose values make the same answer take many times as long."""

from dataclasses import replace
from random import Random

from tests.arena.adversary import Adversary
from tests.arena.story import Params, Terms


class Slow(Adversary):
    """A client whose later steps have such values."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {"times": random.choice((24, 91)), "step_s": random.choice((0.5, 5.0, 10.0))}

    def shape(self) -> None:
        """Make the main job's program so."""
        world = self.world
        world.work = replace(world.work, slow=self.params["times"], step_s=self.params["step_s"])
