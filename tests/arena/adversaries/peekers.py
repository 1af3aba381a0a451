"""Peekers: they read a claim that waits to be shown, and replace blocks to commit to it, too."""

from random import Random

from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing, Status
from moot.offchain.disputes.referee.port import Call
from tests.arena.adversary import Adversary
from tests.arena.names import HONEST
from tests.arena.records import name_account
from tests.arena.story import Params, Terms

SALT = b"\4" * 32


class Peekers(Adversary):
    """Builders of blocks that run nothing, and see what waits for one."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {"depth": random.randrange(1, 8)}

    def prepare(self) -> None:
        """Give the account money."""
        self._account, self._top = name_account("peeker"), b""
        self.world.fund(self._account)

    def act(self) -> None:
        """Read the claim, and be the first to commit to it in other blocks; then show it."""
        world, jobs = self.world, dict(self.world.list_jobs())
        if 0 not in jobs or jobs[0].status is not Status.OPEN:
            return
        job, number = jobs[0], world.chain.head.number + 1
        waiting = world.chain.pool.get(HONEST, {}).values()
        shown = [it.call.args[1] for it in waiting if it.call.name == "reveal"]
        if shown and not self._top:
            self._top = shown[0]
            digest = world.hide(0, self._account, self._top, SALT)
            args = (0, digest, hash_job(job))
            first = [Call("commit", self._account, args, job.terms.bond_wei)]
            depth = min(self.params["depth"], world.settings.confirmations - 1)
            world.chain.reorganise(depth, lambda _: False, first)
        elif number > job.commit_deadline and self._has_committed():
            world.submit_once(Call("reveal", self._account, (0, self._top, SALT)))

    def _has_committed(self) -> bool:
        return self.world.standing(0, self._account) is Standing.COMMITTED

    def watch(self) -> None:
        """Note that the account shares a claim which it has only read."""
        own = self.world.court.member(0, HONEST)
        member = self.world.court.member(0, self._account)
        if member.standing is Standing.REVEALED and member.key == own.key:
            self.world.broken.setdefault("copies", "a claim that was read shares the reward")
