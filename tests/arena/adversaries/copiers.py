"""Copiers: accounts that run nothing, and claim whatever history somebody serves in time."""

from random import Random

from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from moot.offchain.datastore.objects import HISTORIES
from moot.offchain.disputes.referee.port import Call
from tests.arena.adversary import Adversary
from tests.arena.names import HONEST
from tests.arena.records import name_account
from tests.arena.story import Params, Terms

SALT = b"\3" * 32


class Copiers(Adversary):
    """Accounts that read what the provider serves."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {"count": random.choice((1, 3))}

    def prepare(self) -> None:
        """Give the accounts money."""
        self._accounts = [name_account(f"copier {n}") for n in range(self.params["count"])]
        self._tops: dict[str, bytes] = {}
        for address in self._accounts:
            self.world.fund(address)

    def act(self) -> None:
        """Commit to what is served, and show it."""
        world = self.world
        jobs = dict(world.list_jobs())
        if 0 not in jobs or jobs[0].status is not Status.OPEN:
            return
        job, number = jobs[0], world.chain.head.number + 1
        for address in self._accounts:
            standing = world.standing(0, address)
            if standing is Standing.NONE and number <= job.commit_deadline:
                if (top := self._read()) is not None:
                    self._tops[address] = top
                    digest = world.hide(0, address, top, SALT)
                    world.submit_once(
                        Call("commit", address, (0, digest, hash_job(job)), job.terms.bond_wei)
                    )
            elif standing is Standing.COMMITTED and number > job.commit_deadline:
                world.submit_once(Call("reveal", address, (0, self._tops[address], SALT)))

    def watch(self) -> None:
        """Note that somebody shares a claim which it has only read."""
        own = self.world.court.member(0, HONEST).key
        for address in self._tops:
            member = self.world.court.member(0, address)
            if member.standing is Standing.REVEALED and member.key == own:
                self.world.broken.setdefault("copies", "a claim that was read shares the reward")

    def _read(self) -> bytes | None:
        """Return the top of a history that is served, if one is."""
        for folder in self.world.served:
            found = sorted((folder / HISTORIES).iterdir()) if (folder / HISTORIES).is_dir() else []
            if found:
                data = found[0].read_bytes()
                roots = [data[at : at + 32] for at in range(0, len(data), 32)]
                return Tree(Tag.HISTORY_NODE, roots).top
        return None
