"""A party that lives: it looks at the chain, acts, sends, and waits for the next block.

What there is to do is the planner's (`offchain/disputes/party.py`); this adds the time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from eth_utils.address import is_address

from contracts.deployment import bind_referee
from contracts.model.types import NOBODY, Job
from contracts.reasons import Standing, Status
from offchain.arithmetic.table import find_arithmetic
from offchain.chain.accounts import FeePolicy, KeyAccount, open_chain, read_password
from offchain.chain.accounts.fees import GWEI
from offchain.chain.accounts.opening import OwnChain
from offchain.chain.head import Head
from offchain.disputes.actors import Client, View
from offchain.disputes.arena import ChainView, Made
from offchain.disputes.board import Board
from offchain.disputes.crowds import count_calls
from offchain.disputes.game import is_overtaken
from offchain.disputes.party import Party
from offchain.disputes.referee import Call, Outcome
from offchain.disputes.tournament import Tournament
from offchain.errors import BadCall, ChainUnavailable, RefereeError, Reverted, UsageError
from offchain.parties.events import Tell, make_say
from offchain.parties.settings import Settings
from offchain.parties.sight import Sight

PATIENCE_S = 60.0
RETRY_S = 1.0
FAR_BLOCKS = 1 << 32
"""Where nothing of one's own ends, anything else is more urgent."""


@dataclass
class Desk:
    """Where a party works: its chain, its account and the referee.

    Attributes:
        settings: what the party was told.
        chain: the chain.
        referee: the referee.
        address: the party's account; nobody's if it only looks.
        tell: takes events.
    """

    settings: Settings
    chain: OwnChain
    referee: Sight
    address: str
    tell: Tell

    @property
    def folder(self) -> Path:
        """What the party keeps."""
        return Path(self.settings.folder)

    def find_job(self, job_id: int) -> Job:
        """Follow a job and return it, or raise UsageError."""
        job = self.referee.follow(job_id)
        if not job.opened_block:
            raise UsageError(f"the referee has no job {job_id}; check the number and the referee")
        return job

    def view(self, job_id: int) -> ChainView:
        """Return what the chain shows of a job as of now."""
        terms = self.find_job(job_id).terms
        self.referee.look()
        known = Tournament(job_id, terms, self.referee.arithmetic)
        return ChainView(self.referee, known).look()


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
        address = signers[0].address if signs else NOBODY
        referee = Sight(chain, contract, arithmetic, address)
        _require_referee(referee)
        referee.look()
        yield Desk(settings, chain, referee, address, tell)


def _require_referee(referee: Sight) -> None:
    """Refuse an address at which another contract stands, or a referee of another version."""
    try:
        referee.job(0)
    except (BadCall, Reverted, IndexError, TypeError, ValueError):
        raise UsageError(
            f"the contract at {referee.address} is no referee of this version; check the address"
        ) from None


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

    def manage(self, view: View) -> Iterator[Call]:
        """Begin and settle nothing in a job that its account has not joined."""
        if view.get_standing(self.address) is not Standing.NONE:
            yield from Client.manage(self, view)


@dataclass(frozen=True, slots=True)
class Closer(Client):
    """A client that ends what can be ended, and begins nothing."""

    def manage(self, view: View) -> Iterator[Call]:
        """Settle if no claim is left to be met."""
        yield from (call for call in Client.manage(self, view) if call.name == "settle")


@dataclass
class Seat:
    """A party at a job's table.

    Attributes:
        view: what the chain shows of the job.
        party: who acts.
        refused: what was refused for a reason that stays, and is not to be paid for again.
    """

    view: ChainView
    party: Party
    refused: set[str] = field(default_factory=set)

    @property
    def job_id(self) -> int:
        """The job's number."""
        return self.view.tournament.job_id

    def get_deadline(self) -> int:
        """Return the block in which something of the party's own ends soonest."""
        view, own = self.view, {member.address for member in self.party.members}
        clocks = [
            board.position.deadline
            for pair, board in view.tournament.boards.items()
            if not own.isdisjoint((pair.first, pair.second))
        ]
        ends = [*clocks, view.job.commit_deadline, view.job.reveal_deadline]
        return min((end for end in ends if end >= view.block), default=view.block + FAR_BLOCKS)


def take_turns(desk: Desk, seats: Sequence[Seat]) -> list[tuple[Seat, Made]]:
    """Let parties do at once what there is to do in all jobs, the most urgent first.

    The views are those of this look. As much is sent as one's share of a block has room for.
    Planning takes a block's time at most: what it has not come to is planned at the next look,
    after what is more urgent by then.
    """
    share = count_calls(desk.referee.block_gas())
    end = time.monotonic() + desk.settings.block_seconds
    planned: list[tuple[Seat, Call]] = []
    for seat in sorted(seats, key=Seat.get_deadline):
        for call in seat.party.act(seat.view):
            if _name(call) not in seat.refused:
                planned.append((seat, call))
            if len(planned) >= share or time.monotonic() > end:
                break
        if planned and (len(planned) >= share or time.monotonic() > end):
            break
    if not planned:
        return []
    answers = desk.referee.transact_all([call for _, call in planned])
    return [
        (seat, Made(call, answer)) for (seat, call), answer in zip(planned, answers, strict=True)
    ]


def note_refusal(seat: Seat, made: Made) -> None:
    """See to it that a call which was refused for a reason that stays is not made again."""
    answer = made.answer
    if isinstance(answer, RefereeError | Reverted) and not is_overtaken(answer):
        seat.refused.add(_name(made.call))


def tell_made(desk: Desk, seat: Seat, made: Made) -> None:
    """Tell of a call, and of what came of it."""
    name, is_made = made.call.name, isinstance(made.answer, Outcome)
    result = "made" if is_made else f"refused: {made.answer}"
    line = f"job {seat.job_id}: {name} {result}"
    desk.tell("call", line, job=seat.job_id, call=name, accepted=is_made)


def play(
    desk: Desk, view: ChainView, party: Party, each_block: Callable[[], None] | None = None
) -> None:
    """Play a job to its end, which is when it is closed and there is nothing to collect.

    Args:
        desk: where the party works.
        view: what the chain shows of the job.
        party: who acts.
        each_block: what else is done once a block.

    Raises:
        RefereeError, ChainError: a call was refused for which there should have been a reason.
    """
    seat, head = Seat(view, party), Head(desk.chain)
    while True:
        try:
            desk.referee.look()
            view.look()
            turn = take_turns(desk, [seat])
            for _, made in turn:
                tell_made(desk, seat, made)
                if not isinstance(made.answer, Outcome) and not is_overtaken(made.answer):
                    raise made.answer
            if each_block is not None:
                each_block()
            if not turn and view.job.status is not Status.OPEN:
                return
            desk.chain.tend()
            head.follow(PATIENCE_S, is_eager=bool(view.tournament.boards))
        except ChainUnavailable as error:
            desk.tell("unavailable", str(error))
            time.sleep(RETRY_S)


def _name(call: Call) -> str:
    """Return what tells a call from another."""
    return sha256(repr((call.name, call.sender, call.args)).encode()).hexdigest()
