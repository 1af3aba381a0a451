"""A whole game: a job is opened, providers join it, matches are played, and everybody is paid.

A game looks at the chain, has its actors plan (`planner.py`), sends what is most urgent of that, as
much as fits into a block, and looks again; what is allowed is the referee's. It remembers nothing
that the chain does not: one that is made anew with the number of the job goes on where the other
was stopped. With some of a job's players it is their agent; with all of them, the whole table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from contracts.model.types import NOBODY, Address, Event, Job, Terms
from contracts.reasons import LeafMode, Reason, Standing, Status
from contracts.reasons import Outcome as Ruling
from offchain.chain import Receipt
from offchain.commitments.tree import Digest
from offchain.disputes.actors import (
    Actor,
    Caller,
    Claimant,
    Client,
    Docket,
    Player,
)
from offchain.disputes.board import Board
from offchain.disputes.crowds import count_calls
from offchain.disputes.planner import Planned, Planner, get_stage
from offchain.disputes.referee import Call, Outcome, Referee, open_store
from offchain.disputes.terms import Stakes, make_terms
from offchain.disputes.tournament import Ended, Tournament
from offchain.errors import ChainError, RefereeError, Reverted, TransactionLost
from offchain.providers.task import Task

LEFT = frozenset({Standing.REVEALED, Standing.LATE, Standing.PAID})
"""Where a member stands whose claim has not been defeated."""

OVERTAKEN = frozenset(
    {
        Reason.ALREADY_JOINED,
        Reason.CLAIM_MEETING,
        Reason.CLOCK_EXPIRED,
        Reason.CLOSED,
        Reason.MATCH_EXISTS,
        Reason.NOT_CONTENDER,
        Reason.NOTHING_OWED,
        Reason.STALE,
    }
)
"""Why a call is refused that has been made already, or made pointless, or has come too late.

None of these is a reason to stop: whoever stops for one match has given up all others.
"""


@dataclass(frozen=True, slots=True)
class Played:
    """One accepted call: whose, in which stage, and what it announced and cost."""

    stage: str
    player: str
    call: str
    events: tuple[Event, ...]
    receipt: Receipt | None


Ruler = Callable[[Terms, Board, "Game"], Ruling]
"""The bounded verifier's decision: whose output is right, if anybody's."""


@dataclass
class Game:
    """A job on a referee, with its players in the order in which they join.

    Attributes:
        referee: the contract or the model.
        task: what is agreed.
        client: opens the job, pays for it, starts its matches and settles it.
        players: the providers.
        stakes: money and clocks.
        leaf_mode: who decides the leaves.
        verifier: the account that posts the bounded verifier's rulings.
        ruler: the bounded verifier.
        seed: source of the salts.
        job_id: the number of the job; -1 until it is open.
    """

    referee: Referee
    task: Task
    client: Address
    players: Sequence[Player]
    stakes: Stakes = field(default_factory=Stakes)
    leaf_mode: LeafMode = LeafMode.SCALAR
    verifier: Address = NOBODY
    ruler: Ruler | None = None
    seed: int = 0
    job_id: int = -1

    def play(self) -> Iterator[Played]:
        """Play the game to its end; yield every call that was accepted."""
        while (turn := self.take_turn()) is not None or self.wait():
            yield from turn or ()

    def take_turn(self) -> list[Played] | None:
        """Do once what there is to do now, as far as one block has room for it.

        Returns the calls that were accepted, none if others have been faster; None if there was
        nothing to do.
        """
        if self.job_id < 0:
            return [self._open()]
        plan = self._make_planner().plan(self._look_around())
        planned = list(islice(plan, count_calls(self.referee.block_gas())))
        return self._send(planned) if planned else None

    def wait(self) -> bool:
        """Let time pass until there may be something to do; return whether there may ever be."""
        view = self._look_around()
        if view.job.status is Status.OPEN:
            self.referee.mine(view.count_idle_blocks())
        return view.job.status is Status.OPEN

    def address_of(self, player: str) -> Address:
        """Return the account of a player, the client or the verifier."""
        accounts = {"client": self.client, "verifier": self.verifier}
        return (accounts | {p.name: p.address for p in self.players})[player]

    def find_player(self, address: Address) -> Player | None:
        """Return the player with an account, if it is one of these."""
        return next((player for player in self.players if player.address == address), None)

    @property
    def ended(self) -> Sequence[Ended]:
        """The matches that have ended, in order."""
        return self._look().ended

    def get_winners(self) -> list[str]:
        """Return the names of the members that are left with the winning claim."""
        standings = {p.name: self.referee.member(self.job_id, p.address) for p in self.players}
        return [name for name, member in standings.items() if member.standing in LEFT]

    @cached_property
    def terms(self) -> Terms:
        """The terms of the job."""
        return make_terms(self.task, self.stakes, self.leaf_mode, self.verifier)

    @cached_property
    def _tournament(self) -> Tournament:
        return Tournament(self.job_id, self.terms, self.referee.arithmetic)

    def _make_planner(self) -> Planner:
        docket = Docket(open_store(self.referee), self.job_id, self.terms)
        spawned = np.random.SeedSequence(self.seed).spawn(len(self.players))
        members = [
            Claimant(
                docket, player.name, player.address, player.run, salt.generate_state(8).tobytes()
            )
            for player, salt in zip(self.players, spawned, strict=True)
        ]
        return Planner(members, self._list_others(docket))

    def _list_others(self, docket: Docket) -> list[Actor]:
        """Return who rules, if somebody does, and the client."""
        ruler = self.ruler

        def list_claims() -> set[Digest]:
            return {player.run.history.top for player in self.players}

        client = Client(docket, "client", self.client, list_claims)
        if ruler is None:
            return [client]

        def rule(board: Board) -> Ruling:
            return ruler(self.terms, board, self)

        return [Caller(docket, "verifier", self.verifier, rule), client]

    def _look(self) -> Tournament:
        """Return the tournament as it stands on the chain."""
        self._tournament.read(self.referee.events(self.job_id))
        return self._tournament

    def _look_around(self) -> "Snapshot":
        members = [player.address for player in self.players]
        return look(self.referee, self._tournament, members, [self.client, *members])

    def _open(self) -> Played:
        call = Call("open_job", self.client, (self.terms,), self.stakes.reward_wei)
        (opened,) = self._send([Planned(get_stage(call), "client", call)])
        self.job_id = int(str(opened.events[0].args[0]))
        return opened

    def _send(self, planned: Sequence[Planned]) -> list[Played]:
        """Make calls at once; return those that were accepted.

        What somebody else has made already, or what is in no block in time, is planned again if
        there is still a reason for it: a move that is sent twice changes nothing.

        Raises:
            RefereeError, ChainError: a call was refused for which there should have been a reason,
                or none got into a block.
        """
        answers = self.referee.transact_all([each.call for each in planned])
        played = []
        for each, answer in zip(planned, answers, strict=True):
            if isinstance(answer, Outcome):
                accepted = (each.call.name, answer.events, answer.receipt)
                played.append(Played(each.stage, each.player, *accepted))
            elif not _is_overtaken(answer):
                raise answer
        lost = [answer for answer in answers if isinstance(answer, TransactionLost)]
        if len(lost) == len(answers):
            raise lost[0]
        return played


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a job that the chain shows at one moment: a `View`.

    Attributes:
        job: the job.
        block: the first block in which a call can be.
        tournament: claims and matches, from the job's events.
        standings: where accounts stand, while the job is joined.
        debts_wei: what accounts are owed, once it is closed.
    """

    job: Job
    block: int
    tournament: Tournament
    standings: Mapping[Address, Standing]
    debts_wei: Mapping[Address, int]

    def get_standing(self, address: Address) -> Standing:
        """Return where an account stands."""
        return self.standings[address]

    def get_debt(self, address: Address) -> int:
        """Return what the closed job owes an account, in wei."""
        return self.debts_wei[address]

    def count_idle_blocks(self) -> int:
        """Return how many blocks pass until a clock has run out, or a window is over."""
        job, tournament = self.job, self.tournament
        ends = [board.position.deadline for board in tournament.boards.values()]
        ends += [*tournament.list_windows(), job.commit_deadline, job.reveal_deadline]
        return min(e for e in [*ends, job.window_end] if e >= self.block) + 1 - self.block


def look(
    referee: Referee,
    tournament: Tournament,
    members: Sequence[Address],
    creditors: Sequence[Address] = (),
) -> Snapshot:
    """Return what a referee shows of a tournament's job now, and read the tournament on.

    Args:
        referee: the contract or the model.
        tournament: what was known of the job.
        members: accounts whose standings are asked for, while the job is joined.
        creditors: accounts whose debts are asked for, once it is closed.
    """
    job_id = tournament.job_id
    job, block = referee.job(job_id), referee.block_number() + 1
    tournament.read(referee.events(job_id))
    is_open = job.status is Status.OPEN
    joining = members if is_open and block <= job.reveal_deadline else ()
    return Snapshot(
        job=job,
        block=block,
        tournament=tournament,
        standings={account: referee.member(job_id, account).standing for account in joining},
        debts_wei={a: referee.debt(job_id, a) for a in creditors if not is_open},
    )


def _is_overtaken(answer: RefereeError | ChainError) -> bool:
    if isinstance(answer, RefereeError | Reverted):
        return answer.reason in OVERTAKEN
    return isinstance(answer, TransactionLost)
