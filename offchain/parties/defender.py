"""Whoever stands by a receipt's claim, or against it: a party of challenges, with runs of its own.

A challenge is a job in which both have revealed already. The party makes its task of what it knows
of the receipt, and not of what a client has published; then it plays as in any other job.
"""

from collections.abc import Callable
from dataclasses import replace

from moot.contracts.model.types import Terms
from moot.contracts.reasons import Standing, Status
from moot.offchain.datastore.store import open_store
from moot.offchain.errors import NotChallenged
from moot.offchain.parties.context import Deputy, PartyContext, StandIn
from moot.offchain.parties.daemon import PartyDaemon, opened_daemon, play_one
from moot.offchain.parties.events import Tell
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.watcher import Doubter
from moot.offchain.parties.works import Work
from moot.offchain.parties.workshop import Checks
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.task import Task

FindTask = Callable[[int, Terms], Task | None]
"""Returns the task of a challenge, (its number, its terms); None if its receipt is unknown.

It raises NotChallenged where no service says, as yet, that a receipt is challenged by that job:
anybody may open one in anybody's name.
"""


class Defender(PartyDaemon):
    """A member of challenges, which plays all those that its account is in.

    The one that it is told of it joins, if nobody there has claimed what it has computed.

    Args:
        context: where it works; its referee is the contract of challenges.
        find_task: makes the task of a challenge.
        job_id: the one job to be played, with which this ends; None for all.
    """

    def __init__(
        self, context: PartyContext, find_task: FindTask, job_id: int | None = None
    ) -> None:
        super().__init__(context)
        self._find_task, self._only = find_task, job_id

    def consider(self, work: Work) -> None:
        """See PartyDaemon."""
        run = self.recall(work)
        if work.job_id != self._only and (work.standing is Standing.NONE or self._only is not None):
            self.leave(work)
        elif run is not None:
            self._sit_down(work, run)
        else:
            self._prepare(work)

    def _prepare(self, work: Work) -> None:
        """Let a challenge be computed; one that no service names may be named a block later."""
        try:
            task = self._find_task(work.job_id, work.job.terms)
        except NotChallenged as problem:
            self.wait(work, str(problem))
            return
        if task is None:
            self.leave(work, "nothing is known of its receipt")
            return
        put_task(open_store(self.context.settings.store), task)
        self.compute(work, Checks.NONE)

    def leave(self, work: Work, problem: str = "") -> None:
        """See PartyDaemon; with the end of the only job this one's work is over."""
        super().leave(work, problem)
        if work.job_id == self._only:
            self.end_with(work)

    def _sit_down(self, work: Work, run: Recalled) -> None:
        self.set_aside(work)
        member = Doubter("member", self.context.address, run)
        deputy = Deputy("member", self.context.address, (member,))
        patience = self.context.settings.stand_in_blocks
        others = [deputy] if work.job.status is Status.OPEN else []
        self.sit(work, StandIn([member], others, patience_blocks=patience))


def play_challenge(
    settings: Settings, tell: Tell, challenges: str, job_id: int, find_task: FindTask
) -> bool:
    """Play one challenge to its end, and return whether the own account has won.

    Args:
        settings: the party's: the chain, a key, a store and a folder.
        tell: takes events.
        challenges: the address of the contract of challenges.
        job_id: the challenge.
        find_task: makes its task.

    Raises:
        UsageError: a setting is missing.
        ChainError, StoreError: the chain or the disk fails.
    """

    def make(context: PartyContext) -> Defender:
        return Defender(context, find_task, job_id)

    return play_one(make, replace(settings, referee=challenges), tell)


def defend(settings: Settings, tell: Tell, challenges: str, find_task: FindTask) -> None:
    """Play all challenges that the own account is in, until the process is ended.

    Arguments and errors are those of `play_challenge`.
    """

    def make(context: PartyContext) -> Defender:
        return Defender(context, find_task)

    with opened_daemon(make, replace(settings, referee=challenges), tell) as daemon:
        daemon.run()
