"""A provider: it takes jobs, computes them, and defends its claims in all matches at once."""

import secrets

from contracts.reasons import Standing
from offchain.disputes.actors import Player
from offchain.parties.keeper import Keeper, Work
from offchain.parties.live import Deputy, Desk, StandIn
from offchain.parties.policy import load_policy
from offchain.parties.recall import Recalled
from offchain.parties.workshop import Checks
from offchain.providers.store import Store

MEMBER, SALT_BYTES = "member", 32


class Provider(Keeper):
    """A provider at its desk."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._policy = load_policy(desk.settings.policy)

    def consider(self, work: Work) -> None:
        """See Keeper."""
        run = self.recall(work)
        block = self.desk.referee.block_number() + 1
        is_joined = work.standing is not Standing.NONE
        if not is_joined and block > work.job.commit_deadline:
            self.leave(work, "it is too late to commit")
        elif is_joined and work.store.get_json(MEMBER) is None:
            self.leave(work, f"{work.store.path} does not have the salt of its claim any more")
        elif run is not None:
            self._sit_down(work, run)
        elif is_joined:
            self.set_aside(work)
            self.compute(work, Checks.NONE)
        elif problem := self._policy.refuse_job(work.job):
            self.leave(work, problem)
        elif problem := self.find_obstacle(work):
            self.wait(work, problem)
        else:
            self.set_aside(work)
            self.compute(work, Checks.ALL)

    def _sit_down(self, work: Work, run: Recalled) -> None:
        """Play a job that was computed."""
        self.set_aside(work)
        work.joins_by = work.job.commit_deadline
        member = Player("provider", self.desk.address, run, _get_salt(work.store))
        deputy = Deputy("provider", self.desk.address, (member,))
        patience = self.desk.settings.stand_in_blocks
        self.sit(work, StandIn([member], [deputy], patience_blocks=patience))


def _get_salt(store: Store) -> bytes:
    """Return the salt of a claim, which is on the disk before it is sent."""
    member = store.get_json(MEMBER)
    if member is None:
        member = {"salt": secrets.token_bytes(SALT_BYTES).hex()}
        store.put_json(MEMBER, member)
    return bytes.fromhex(member["salt"])
