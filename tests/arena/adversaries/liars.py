"""Liars: accounts with one wrong claim, that play as late, or as little, as they like.

They commit once the provider has, since without it there is nothing to win.
"""

from collections.abc import Iterator
from random import Random

from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing, Status
from moot.offchain.disputes.play.actors import Client, Player
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import Call
from moot.sim.synthetic.products import Lie
from tests.arena.adversary import Adversary
from tests.arena.jobs import get_run
from tests.arena.names import HONEST
from tests.arena.records import GWEI, name_account
from tests.arena.story import Params, Terms

TIMINGS = ("at once", "late", "silent", "mixed")
CROWDS = (*[1] * 12, *[2] * 8, *[3] * 6, *[7] * 8, 12, 12, 18, 32)


class Liars(Adversary):
    """Accounts behind one wrong claim in the main job."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        return {
            "count": random.choice(CROWDS),
            "step": random.randrange(terms.checkpoints),
            "operator": random.randrange(2, 9),
            "term": random.randrange(4),
            "timing": random.choice(TIMINGS),
            "opens": random.choice(("block", "spread", "never", "others")),
            "slack": random.randrange(3),
            "joins": random.choice(("early", "early", "late")),
            "tip_gwei": random.choice((0, 2, 60)),
        }

    def prepare(self) -> None:
        """Give the accounts money, and let them say the same."""
        it = self.params
        lie = Lie(it["step"], it["operator"], 0, it["term"])
        run = get_run(self.world.size, lie)
        names = [name_account(f"liar {n} {lie}") for n in range(it["count"])]
        for address in names:
            self.world.fund(address)
        self._players = [Player("liar", address, run, b"\7" * 32) for address in names]
        opener = Client("liar", names[0], (self._players[0],))
        self._party = Party(self._players, [opener], joins_at_once=True)
        self._key = f"liars {lie} {it['count']}"

    def act(self) -> None:
        """Send what is due."""
        world = self.world
        if 0 not in dict(world.list_jobs()):
            return
        if world.court.job(0).terms != world.main:
            return
        if self.params["joins"] == "late":
            self._join_late()
        for call in self._choose(world.court.plan(self._key, self._party, 0)):
            world.chain.submit(call, self.params["tip_gwei"] * GWEI)

    @property
    def _opens_others(self) -> bool:
        """Whether it begins matches among liars, instead of those with the provider."""
        return bool(self.params["opens"] == "others")

    def _join_late(self) -> None:
        """Claim once others have shown what they claim."""
        world, job = self.world, self.world.court.job(0)
        if job.status is not Status.OPEN or world.chain.head.number < job.reveal_deadline:
            return
        for player in self._players:
            if world.standing(0, player.address) is Standing.NONE:
                args = (0, player.claim, hash_job(job))
                world.submit_once(Call("join", player.address, args, job.terms.bond_wei))

    def _choose(self, calls: Iterator[Call]) -> Iterator[Call]:
        job, number = self.world.court.job(0), self.world.chain.head.number + 1
        is_early = job.status is Status.OPEN and number < job.commit_deadline - 1
        if is_early and self.world.standing(0) is Standing.NONE:
            return
        opened = 0
        for call in calls:
            if call.name == "commit" and self.params["joins"] == "late":
                continue
            if call.name == "start_match":
                opened += 1
                is_of_others = HONEST not in call.args[1:3]
                if self.params["opens"] == "never" or is_of_others != self._opens_others:
                    continue
                if self.params["opens"] == "spread" and opened > 1:
                    continue
            if self._is_due(call, number):
                yield call

    def _is_due(self, call: Call, number: int) -> bool:
        """Whether a move is made now: some make it in the last block, some never."""
        timing = self.params["timing"]
        position = call.args[1] if len(call.args) > 1 else None
        deadline = getattr(position, "deadline", None)
        if deadline is None or timing == "at once":
            return True
        if timing == "silent":
            return False
        if call.name == "timeout":
            return True
        is_early = timing == "mixed" and int(call.sender, 16) % 2
        return bool(is_early) or number >= deadline - self.params["slack"]
