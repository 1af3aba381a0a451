"""The arena of a job: it shows the chain to parties, and puts their calls into blocks.

Most parties look once a turn, and each sends as much at once as its share of a block has room for.
Some watch instead: they see every call of those before it is made, may overtake it or keep it
waiting, and act after it and after every block; where there are such, a call takes a block. The
arena remembers nothing that the chain does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from moot.contracts.model.types import Address, Job
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.crowds import count_calls
from moot.offchain.disputes.referee.port import Answer, Call, Outcome, Referee


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made, and what came of it."""

    call: Call
    answer: Answer


@dataclass
class ChainView:
    """What a referee shows of a tournament's job: a `View`, as of the last look.

    Attributes:
        referee: the contract or the model; it is only read.
        tournament: claims and matches, from the job's events.
        job: the job.
        block: the first block in which a call can be.
        named: the digest of the job that is meant, `hash_job`; 0 for the job of the first look.
    """

    referee: Referee
    tournament: Tournament
    job: Job = field(init=False)
    block: int = field(init=False)
    named: int = 0

    def look(self) -> Self:
        """Read what has happened since the last look, and return the view."""
        job_id = self.tournament.job_id
        self.job, self.block = self.referee.job(job_id), self.referee.block_number() + 1
        self.named = self.named or hash_job(self.job)
        self.tournament.read(self.referee.events(job_id))
        return self

    def get_standing(self, address: Address) -> Standing:
        """Return where an account stands."""
        return self.referee.member(self.tournament.job_id, address).standing

    def get_debt(self, address: Address) -> int:
        """Return what the job, which is closed, owes an account, in wei."""
        return self.referee.debt(self.tournament.job_id, address)

    def hide(self, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest with which an account commits to a claim."""
        return self.referee.commitment(self.tournament.job_id, sender, top, salt)

    def count_idle_blocks(self) -> int:
        """Return how many blocks pass until a clock has run out, or a window is over."""
        job, tournament = self.job, self.tournament
        ends = [board.position.deadline for board in tournament.boards.values()]
        ends += [*tournament.list_windows(), job.commit_deadline, job.reveal_deadline]
        return min(e for e in [*ends, job.window_end] if e >= self.block) + 1 - self.block


@dataclass(frozen=True, slots=True)
class Arena:
    """A job on a referee, with the parties that play for it.

    Attributes:
        view: what the chain shows to all of them.
        parties: those that act in turns, in the order in which their calls are sent.
        watchers: those that see what waits; calls of theirs that are refused are not returned.
    """

    view: ChainView
    parties: Sequence[Party]
    watchers: Sequence[Party] = ()

    @property
    def referee(self) -> Referee:
        """The contract or the model."""
        return self.view.referee

    def play(self) -> Iterator[list[Made]]:
        """Play the job to its end; yield the calls of every turn."""
        while (turn := self.take_turn()) is not None or (turn := self.wait()) is not None:
            yield turn

    def take_turn(self) -> list[Made] | None:
        """Let the parties do once what there is to do now; return None if that is nothing."""
        view = self.view.look()
        share = count_calls(self.referee.block_gas())
        calls: list[Call] = []
        for party in self.parties:
            is_free = party.joins_at_once and view.block <= view.job.reveal_deadline
            calls += islice(party.act(view), None if is_free else share)
        return self._send(calls) if calls else None

    def wait(self) -> list[Made] | None:
        """Let time pass until there may be something to do, or a watcher has done something.

        Returns what the watchers have done; None if the job is closed, and that is nothing.
        """
        view = self.view.look()
        if view.job.status is not Status.OPEN:
            return self.act() or None
        blocks = view.count_idle_blocks()
        if not self.watchers:
            self.referee.mine(blocks)
            return []
        for _ in range(blocks):
            self.referee.mine(1)
            if made := self.act():
                return made
        return []

    def act(self) -> list[Made]:
        """Let the watchers do what there is to do now."""
        return [made for each in self.watchers for made in self._try(each.act(self.view.look()))]

    def _send(self, calls: Sequence[Call]) -> list[Made]:
        """Make calls: at once if nobody watches, and else one after the other."""
        if self.watchers:
            return [made for call in calls for made in self._send_seen(call)]
        answers = self.referee.transact_all(calls)
        return [Made(*each) for each in zip(calls, answers, strict=True)]

    def _send_seen(self, call: Call) -> Iterator[Made]:
        """Make a call, once those who watch let it through."""
        view = self.view.look()
        blocks = sum(each.hold(view, call) for each in self.watchers)
        if blocks:
            self.referee.mine(blocks)
        for each in self.watchers:
            yield from self._try(each.precede(view.look(), call))
        (answer,) = self.referee.transact_all([call])
        yield Made(call, answer)
        if isinstance(answer, Outcome):
            yield from self.act()

    def _try(self, calls: Iterable[Call]) -> Iterator[Made]:
        """Make the calls of a watcher, each before it is asked for the next; yield the accepted."""
        for call in calls:
            (answer,) = self.referee.transact_all([call])
            self.view.look()
            if isinstance(answer, Outcome):
                yield Made(call, answer)
