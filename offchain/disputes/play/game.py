"""A whole game: a job is opened, providers join it, matches are played, and everybody is paid.

A game says who sits at a job's table, and the arena (`arena.py`) lets them act; what is allowed is
the referee's. A game remembers nothing that the chain does not: one that is made anew with the
number of the job goes on where the other was stopped. With some of a job's players it is their
agent; with all of them, the whole table.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from moot.contracts.model.types import NOBODY, Address, Event, Terms
from moot.contracts.reasons import LeafMode, Reason, Standing
from moot.contracts.reasons import Outcome as Ruling
from moot.offchain.chain import Receipt
from moot.offchain.disputes.play.actors import Caller, Client, Player
from moot.offchain.disputes.play.arena import Arena, ChainView, Made
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Ended, Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call, Outcome, Referee
from moot.offchain.disputes.referee.stages import get_stage
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import ChainError, RefereeError, Reverted, TransactionLost
from moot.offchain.providers.task import Task

LEFT = frozenset({Standing.REVEALED, Standing.LATE, Standing.PAID})
"""Where a member stands whose claim has not been defeated."""

OVERTAKEN = frozenset(
    {
        Reason.ALREADY_JOINED,
        Reason.CLAIM_MEETING,
        Reason.CLOCK_EXPIRED,
        Reason.CLOSED,
        Reason.MATCH_EXISTS,
        Reason.NO_SUCH_CLAIM,
        Reason.NOT_CONTENDER,
        Reason.NOTHING_OWED,
        Reason.STALE,
        Reason.TOO_LATE,
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
        watchers: further parties, which see the calls of these before they are made.
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
    watchers: Sequence[Party] = ()
    seed: int = 0
    job_id: int = -1

    def play(self) -> Iterator[Played]:
        """Play the game to its end; yield every call that was accepted."""
        if self.job_id < 0:
            yield from self._open()
        for turn in self._arena.play():
            yield from self._check(turn)

    def take_turn(self) -> list[Played] | None:
        """Do once what there is to do now, as far as one block has room for it.

        Returns the calls that were accepted, none if others have been faster; None if there was
        nothing to do.
        """
        if self.job_id < 0:
            return self._open()
        turn = self._arena.take_turn()
        return None if turn is None else self._check(turn)

    def wait(self) -> bool:
        """Let time pass until there may be something to do; return whether there may ever be."""
        return self._arena.wait() is not None

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
        self._tournament.read(self.referee.events(self.job_id))
        return self._tournament.ended

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

    @property
    def _arena(self) -> Arena:
        """The table as it is seated now, with the salts of the players' commitments."""
        spawned = np.random.SeedSequence(self.seed).spawn(len(self.players))
        members = [
            replace(player, salt=salt.generate_state(8).tobytes())
            for player, salt in zip(self.players, spawned, strict=True)
        ]
        party = Party(members, [*self._list_rulers(), Client("client", self.client, members)])
        return Arena(ChainView(self.referee, self._tournament), [party], self.watchers)

    def _list_rulers(self) -> Iterator[Caller]:
        """Yield who rules, if somebody does."""
        ruler = self.ruler
        if ruler is not None:
            yield Caller("verifier", self.verifier, lambda board: ruler(self.terms, board, self))

    def _open(self) -> list[Played]:
        call = Call("open_job", self.client, (self.terms,), self.stakes.reward_wei, "client")
        (answer,) = self.referee.transact_all([call])
        opened = self._check([Made(call, answer)])
        self.job_id = int(str(opened[0].events[0].args[0]))
        return opened + self._check(self._arena.act())

    def _check(self, turn: Sequence[Made]) -> list[Played]:
        """Return the calls of a turn that were accepted.

        What somebody else has made already, or what is in no block in time, is planned again if
        there is still a reason for it: a move that is sent twice changes nothing.

        Raises:
            RefereeError, ChainError: a call was refused for which there should have been a reason,
                or none got into a block.
        """
        played = []
        for made in turn:
            call, answer = made.call, made.answer
            if isinstance(answer, Outcome):
                own = (get_stage(call), call.player, call.name)
                played.append(Played(*own, answer.events, answer.receipt))
            elif not is_overtaken(answer):
                raise answer
        lost = [made.answer for made in turn if isinstance(made.answer, TransactionLost)]
        if lost and len(lost) == len(turn):
            raise lost[0]
        return played


def is_overtaken(answer: RefereeError | ChainError) -> bool:
    """Whether a refused call was made by others, is made pointless, too late, or in no block."""
    if isinstance(answer, RefereeError | Reverted):
        return answer.reason in OVERTAKEN
    return isinstance(answer, TransactionLost)
