"""A censor: it fills a share of each block at a tip above everybody's, or leaves calls out."""

from collections.abc import Iterable
from random import Random

from tests.arena.adversary import Adversary
from tests.arena.names import HONEST
from tests.arena.records import BLOCK_GAS, GWEI, Fill, Sent
from tests.arena.story import Params, Terms

ALL = "all"
CALLS = ("leaf", "leaf", ALL, "commit", "reveal", "descend", "pick_segment", "timeout")


class Censor(Adversary):
    """Keeps calls of the provider's out of blocks, for as many blocks as it can pay."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        is_partial = random.random() < 0.7
        return {
            "percent": random.choice((30, 46, 60, 80)) if is_partial else 100,
            "tip_gwei": random.choice((3, 30, 100)),
            "call": random.choice(CALLS),
            "blocks": random.choice((40, 100)) if is_partial else random.randrange(1, 7),
            "drops": random.random() < 0.2 and not is_partial,
        }

    def prepare(self) -> None:
        """Have spent nothing yet."""
        self._left = int(self.params["blocks"])

    def _wants(self, sent: Sent) -> bool:
        return sent.sender == HONEST and self.params["call"] in {ALL, sent.call.name}

    def fill(self, number: int, base_fee_wei: int) -> Iterable[Fill]:
        """Fill a block if something waits that is to be kept out."""
        del number, base_fee_wei
        waiting = self.world.chain.pool.get(HONEST, {}).values()
        if self._left <= 0 or not any(map(self._wants, waiting)):
            return
        self._left -= 1
        if not self.params["drops"]:
            tip_wei = self.params["tip_gwei"] * GWEI
            yield Fill(BLOCK_GAS * self.params["percent"] // 100, tip_wei)

    def drops(self, number: int, sent: Sent) -> bool:
        """Leave a call out of a block of one's own."""
        del number
        if not self.params["drops"] or self._left <= 0 or not self._wants(sent):
            return False
        kept_out = self.world.chain.kept_out
        kept_out[HONEST] = kept_out.get(HONEST, 0) + 1
        return True
