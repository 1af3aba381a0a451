"""Dust: jobs that cost nearly nothing to open, and for ever to check, or that never end."""

from dataclasses import replace
from random import Random

from moot.contracts.model.types import MAX_BLOCKS
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from tests.arena.adversary import Adversary
from tests.arena.jobs import Work, get_task
from tests.arena.records import name_account
from tests.arena.story import Params, Terms

FIELDS = ("commit_blocks", "reveal_blocks", "window_blocks", "clock_blocks")


class Dust(Adversary):
    """Opens jobs beside the main one, before it or after it."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {
            "count": random.choice((1, 1, 3)),
            "reward_wei": random.choice((0, 10**9, 10**15)),
            "steps": random.choice((4, 1 << 16, 1 << 32)),
            "checkpoints": random.choice((1, 1, 4)),
            "long": random.choice(("", *FIELDS)),
            "blocks": random.choice((1 << 17, MAX_BLOCKS)),
            "at": random.randrange(4),
        }

    def act(self) -> None:
        """Open the jobs at their block."""
        world, it = self.world, self.params
        if world.chain.head.number != 1 + it["at"]:
            return
        for number in range(it["count"]):
            every = it["steps"] // it["checkpoints"]
            lengths = {"checkpoints": it["checkpoints"], "checkpoint_every": every}
            size = replace(world.size, rows=3 + number, **lengths)
            chosen = {it["long"]: it["blocks"]} if it["long"] else {}
            stakes = Stakes(**{"commit_blocks": 40, **chosen})
            terms = make_terms(get_task(size), stakes)
            world.open_job(name_account("duster"), terms, it["reward_wei"], Work(size))
