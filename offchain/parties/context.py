"""The context of a party: its chain, account and referee.

What there is to do is the planner's (`offchain/disputes/play/party.py`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eth_utils.address import is_address

from moot.contracts.deployment import bind_referee
from moot.contracts.model.abi import unpack_job
from moot.contracts.model.types import NOBODY, Job, Pair
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Standing
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.backends.table import use_engine
from moot.offchain.chain import Contract
from moot.offchain.chain.accounts import FeePolicy, KeyAccount, open_chain, read_password
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.accounts.keystore import find_exposure
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.disputes.play.actors import Client, View
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import (
    BadCall,
    Reverted,
    UsageError,
)
from moot.offchain.native.binary64.table import DEFAULT
from moot.offchain.parties.events import Tell, make_say
from moot.offchain.parties.polled_referee import PolledReferee
from moot.offchain.parties.settings import Settings

TRIES = 3
"""How often it is asked whether the referee is one before a user is told that it is not."""


@dataclass
class PartyContext:
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
    referee: PolledReferee
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

    def view(self, job_id: int, meant: Job | None = None) -> ChainView:
        """Return what the chain shows of a job as of now, or of another that was looked at before.

        A reorganisation may have given the number of the job that is meant to another one.
        """
        job = self.find_job(job_id) if meant is None else meant
        self.referee.look()
        known = Tournament(job_id, job.terms, self.referee.arithmetic)
        try:
            return ChainView(self.referee, known, named=hash_job(job)).look()
        except ValueError as error:
            raise self.referee.distrust(f"what it tells of job {job_id} cannot be") from error


@contextmanager
def opened_context(settings: Settings, tell: Tell, *, signs: bool = True) -> Iterator[PartyContext]:
    """Open the chain and the referee for a party; one that only looks needs no key."""
    with connected_context(settings, tell, open_signers(settings, tell, signs=signs)) as context:
        yield context


def open_signers(settings: Settings, tell: Tell, *, signs: bool) -> Sequence[KeyAccount]:
    """Refuse settings of which no context can be made, and return the accounts that sign.

    It is told if a key is open to others.

    Raises:
        UsageError: a setting is missing or wrong.
        KeystoreError: the key can't be opened.
    """
    settings.require("chain", "referee", *(("key",) if signs else ()))
    if not is_address(settings.referee):
        raise UsageError(
            f"the referee {settings.referee!r:.60} is no address; give 0x and 40 digits"
        )
    return open_keys(settings, tell) if signs else ()


def open_keys(settings: Settings, tell: Tell) -> Sequence[KeyAccount]:
    """Return the accounts that sign; it is told if a key is open to others.

    Raises:
        KeystoreError: the key can't be opened.
    """
    password = read_password(settings.password_from or None)
    if line := find_exposure(Path(settings.key)):
        tell("exposed", line, key=settings.key)
    return [KeyAccount.open(Path(settings.key), password)]


@contextmanager
def connected_context(
    settings: Settings, tell: Tell, signers: Sequence[KeyAccount]
) -> Iterator[PartyContext]:
    """Open the chain and the referee for accounts; without any, the party only looks."""
    arithmetic = find_arithmetic(settings.arithmetic)
    if settings.engine != DEFAULT:
        use_engine(settings.engine, arithmetic, settings.backend)
    with opened_chain(settings, tell, signers) as chain:
        contract = _bind(chain, settings.referee, arithmetic)
        address = signers[0].address if signers else NOBODY
        referee = PolledReferee(chain, contract, arithmetic, address, settings.block_seconds)
        referee.look_first(len(_list_urls(settings)))
        yield PartyContext(settings, chain, referee, address, tell)


@contextmanager
def opened_chain(
    settings: Settings, tell: Tell, signers: Sequence[KeyAccount]
) -> Iterator[OwnChain]:
    """Open the chain of some settings, on which these accounts sign."""
    policy = FeePolicy(
        max_fee_wei=int(settings.max_fee_gwei * GWEI), confirmations=settings.confirmations
    )
    with open_chain(_list_urls(settings), signers, policy, say=make_say(tell)) as chain:
        yield chain


def _list_urls(settings: Settings) -> list[str]:
    return [url.strip() for url in settings.chain.split(",")]


def _bind(chain: OwnChain, address: str, arithmetic: Arithmetic) -> Contract:
    """Return the referee at an address; refuse another contract, or one of another version.

    A node may err, so that a wrong answer is asked for again, of another node if there is one.
    """
    problem = UsageError(
        f"the contract at {address} is no referee of this version; check the address"
    )
    for _ in range(TRIES):
        try:
            contract = bind_referee(chain, address, arithmetic)
            unpack_job(contract.call("jobs", 0))
        except UsageError as error:  # there is no contract
            problem = error
        except (BadCall, Reverted, LookupError, TypeError, ValueError):
            pass
        else:
            return contract
        chain.node.distrust("it has no referee of this version")
    raise problem


@dataclass
class StandIn(Party):
    """A party whose other actors act only where the same is still to do some blocks later.

    So of several strangers who could begin a match or settle, only one has to: each of those that
    have claimed waits a block longer than the one before, twice the patience at most.

    Attributes:
        patience_blocks: how long it waits at least.
        hidden_blocks: for so many blocks claims stay hidden though they can be shown.
    """

    patience_blocks: int = 0
    hidden_blocks: int = 0
    _since: dict[tuple[object, ...], int] = field(default_factory=dict)

    def reveal(self, view: View) -> Iterator[Call]:
        """Show the claims, once they can't be copied any more."""
        if view.block > view.job.commit_deadline + self.hidden_blocks:
            yield from super().reveal(view)

    def dispute(self, view: View) -> Iterator[Call]:
        """Go on with all matches."""
        wanted: dict[tuple[object, ...], int] = {}
        patience_blocks = self.patience_blocks + self._find_place(view)
        for call in super().dispute(view):
            if call.name not in {"start_match", "settle"} and not self._is_of_others(call):
                yield call
                continue
            key = (call.name, *map(repr, call.args))
            wanted[key] = self._since.get(key, view.block)
            if view.block >= wanted[key] + patience_blocks:
                yield call
        self._since = wanted

    def _is_of_others(self, call: Call) -> bool:
        """Whether a call ends a match of others, whose own sides may do it first."""
        pair = call.args[0] if call.name == "timeout" else None
        own = {member.address for member in self.members}
        return isinstance(pair, Pair) and own.isdisjoint({pair.first, pair.second})

    def _find_place(self, view: View) -> int:
        """Return how many blocks others are given before this party."""
        own = {member.address for member in self.members}
        claimed = view.tournament.contenders
        place = next((n for n, address in enumerate(claimed) if address in own), 0)
        return place % max(1, self.patience_blocks)


@dataclass(frozen=True, slots=True)
class Deputy(Client):
    """A provider that begins matches, ends those of others and settles where the client does not.

    Else two silent members in a match with each other would hold up the bonds of all.
    """

    def move(self, view: View, board: Board) -> Call | None:
        """Say that the time of a side is over in a match of others, once its account has joined."""
        is_own = self.address in {board.pair.first, board.pair.second}
        if is_own or view.get_standing(self.address) is Standing.NONE:
            return None
        return Client.move(self, view, board)

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
