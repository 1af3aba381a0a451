"""A party that lives: it looks at the chain, acts, sends, and waits for the next block.

What there is to do is the planner's (`offchain/disputes/party.py`); this adds the time.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eth_utils.address import is_address

from contracts.deployment import bind_referee
from contracts.model.types import Job
from contracts.reasons import Status
from offchain.arithmetic.table import find_arithmetic
from offchain.chain.accounts import FeePolicy, KeyAccount, open_chain, read_password
from offchain.chain.accounts.fees import GWEI
from offchain.chain.accounts.opening import OwnChain
from offchain.chain.head import Head
from offchain.disputes.actors import Client, View
from offchain.disputes.arena import Arena, ChainView, Made
from offchain.disputes.board import Board
from offchain.disputes.chain_referee import ChainReferee
from offchain.disputes.game import is_overtaken
from offchain.disputes.party import Party
from offchain.disputes.referee import Call, Outcome
from offchain.disputes.tournament import Tournament
from offchain.errors import ChainUnavailable, UsageError
from offchain.parties.events import Tell, make_say
from offchain.parties.settings import Settings

PATIENCE_S = 60.0
RETRY_S = 1.0


@dataclass
class Desk:
    """Where a party works: its chain, its account and the referee.

    Attributes:
        settings: what the party was told.
        chain: the chain.
        referee: the referee.
        address: the party's account.
        tell: takes events.
    """

    settings: Settings
    chain: OwnChain
    referee: ChainReferee
    address: str
    tell: Tell

    def find_job(self, job_id: int) -> Job:
        """Return a job, or raise UsageError."""
        job = self.referee.job(job_id)
        if not job.opened_block:
            raise UsageError(f"the referee has no job {job_id}; check the number and the referee")
        return job

    def view(self, job_id: int) -> ChainView:
        """Return what the chain shows of a job."""
        terms = self.find_job(job_id).terms
        known = Tournament(job_id, terms, self.referee.arithmetic)
        return ChainView(self.referee, known)


@contextmanager
def opened_desk(settings: Settings, tell: Tell, *, signs: bool = True) -> Iterator[Desk]:
    """Open the chain and the referee for a party; one that only looks needs no key."""
    settings.require("chain", "referee", *(("key",) if signs else ()))
    if not is_address(settings.referee):
        raise UsageError(
            f"the referee {settings.referee!r:.60} is no address; give 0x and 40 digits"
        )
    signers = []
    if signs:
        password = read_password(settings.password_from or None)
        signers = [KeyAccount.open(Path(settings.key), password)]
    policy = FeePolicy(
        max_fee_wei=int(settings.max_fee_gwei * GWEI), confirmations=settings.confirmations
    )
    arithmetic = find_arithmetic(settings.arithmetic)
    urls = [url.strip() for url in settings.chain.split(",")]
    with open_chain(urls, signers, policy, say=make_say(tell)) as chain:
        contract = bind_referee(chain, settings.referee, arithmetic)
        referee = ChainReferee(chain, contract, 0, arithmetic)
        yield Desk(settings, chain, referee, signers[0].address if signs else "", tell)


@dataclass
class StandIn(Party):
    """A party whose other actors act only where the same is still to do some blocks later.

    So of several strangers who could begin a match or settle, only one has to.

    Attributes:
        patience_blocks: how long it waits.
    """

    patience_blocks: int = 0
    _since: dict[tuple[object, ...], int] = field(default_factory=dict)

    def dispute(self, view: View) -> Iterator[Call]:
        """Go on with all matches."""
        wanted: dict[tuple[object, ...], int] = {}
        for call in super().dispute(view):
            if call.name not in {"start_match", "settle"}:
                yield call
                continue
            key = (call.name, *map(repr, call.args))
            wanted[key] = self._since.get(key, view.block)
            if view.block >= wanted[key] + self.patience_blocks:
                yield call
        self._since = wanted


@dataclass(frozen=True, slots=True)
class Deputy(Client):
    """A provider that begins matches and settles where the client does not."""

    def move(self, view: View, board: Board) -> Call | None:
        """Do nothing in the matches of others: their sides and the client watch the clocks."""
        del view, board
        return None


def play(desk: Desk, view: ChainView, party: Party) -> None:
    """Play a job to its end, which is when it is closed and there is nothing to collect."""
    arena, head = Arena(view, [party]), Head(desk.chain)
    while True:
        try:
            turn = arena.take_turn()
            for made in turn or ():
                _tell_made(desk, view.tournament.job_id, made)
            if turn is None and view.job.status is not Status.OPEN:
                return
            desk.chain.tend()
            head.follow(PATIENCE_S, is_eager=bool(view.tournament.boards))
        except ChainUnavailable as error:
            desk.tell("unavailable", str(error))
            time.sleep(RETRY_S)


def _tell_made(desk: Desk, job_id: int, made: Made) -> None:
    """Tell of a call, and of what came of it."""
    name, is_made = made.call.name, isinstance(made.answer, Outcome)
    result = "made" if is_made else f"refused: {made.answer}"
    if not isinstance(made.answer, Outcome) and not is_overtaken(made.answer):
        raise made.answer
    desk.tell("call", f"job {job_id}: {name} {result}", job=job_id, call=name, accepted=is_made)
