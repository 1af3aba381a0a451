"""The result of a job: who was right, who was paid, who was slashed, and what it cost whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from moot.contracts.model.checks import get_member
from moot.contracts.model.types import Address, Member, Store
from moot.contracts.model.words import hash_top
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.accounts import Cost, calculate_fees, get_costs
from moot.offchain.disputes.actors import Player
from moot.offchain.disputes.game import Game, Played
from moot.sim.agents import Work
from moot.sim.ledger import Flows
from moot.sim.witness import Refusal


class Fate(StrEnum):
    """What became of an account in a job: it won, it lost its bond, or it has lost nothing."""

    WON = "won"
    SLASHED = "slashed"
    REFUNDED = "refunded"


class Outcome(StrEnum):
    """What the client got: the answer of an honest run, another one, or its money back."""

    RIGHT = "right"
    WRONG = "wrong"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Entry:
    """The part of one account of a provider in one job.

    Attributes:
        provider: its name; that of further accounts has their number behind a dot.
        strategy: the strategy under which it is counted.
        behaviour: what it did, with its settings.
        is_right: whether it has shown the claim of an honest run.
        fate: what became of its bond.
        gas: what its transactions used, refused ones included.
        fees_wei: what it paid for that.
        profit_wei: the change of its balance, fees included.
    """

    provider: str
    strategy: str
    behaviour: str
    is_right: bool
    fate: Fate
    gas: int
    fees_wei: int
    profit_wei: int


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that is settled.

    Attributes:
        number: which job.
        entries: the providers' parts, in the order in which they sit.
        claims: how many different histories were shown.
        matches: how each match ended, in order.
        outcome: what the client got.
        client_wei: the change of the client's balance.
        verifier_wei: the change of the balance of the account that posts rulings.
        costs: what every accepted transaction cost.
        flows: where the money went.
    """

    number: int
    entries: tuple[Entry, ...]
    claims: int
    matches: tuple[str, ...]
    outcome: Outcome
    client_wei: int
    verifier_wei: int
    costs: tuple[Cost, ...]
    flows: Flows


@dataclass(frozen=True, slots=True)
class Party:
    """A provider in a job: its strategy, what it does, and its accounts."""

    strategy: str
    work: Work
    seats: tuple[Player, ...]


@dataclass(frozen=True, slots=True)
class Books:
    """The records by which a game that is over is judged.

    Attributes:
        game: the game.
        store: what the referee remembers.
        parties: the providers, in the order in which they sit.
        played: all accepted calls.
        refusals: the calls that were refused.
        answer: the top of the history that an honest run claims.
        deltas_wei: the changes of all balances since before the game, the contract's included.
        burned_wei: what the rules have burned since then.
    """

    game: Game
    store: Store
    parties: Sequence[Party]
    played: Sequence[Played]
    refusals: Sequence[Refusal]
    answer: Digest
    deltas_wei: Mapping[Address, int]
    burned_wei: int

    def get_member(self, address: Address) -> Member:
        """Return how an account has ended."""
        return get_member(self.store, self.game.job_id, address)


def judge_job(number: int, books: Books) -> JobResult:
    """Return what a job came to; what a client gets that is a provider, too, is the provider's."""
    game = books.game
    entries = tuple(
        _judge_seat(books, party.strategy, seat) for party in books.parties for seat in party.seats
    )
    contract_wei = books.deltas_wei[books.store.address]
    is_outsider = all(seat.address != game.client for p in books.parties for seat in p.seats)
    return JobResult(
        number=number,
        entries=entries,
        claims=sum(job_id == game.job_id for job_id, _ in books.store.claims),
        matches=tuple(ended.ending.name.lower() for ended in game.ended),
        outcome=_judge_outcome(entries),
        client_wei=books.deltas_wei[game.client] if is_outsider else 0,
        verifier_wei=books.deltas_wei[game.verifier],
        costs=get_costs(books.played),
        flows=Flows(
            accounts_wei=sum(books.deltas_wei.values()) - contract_wei,
            contract_wei=contract_wei,
            burned_wei=books.burned_wei,
            fees_wei=sum(calculate_fees(books.played).values())
            + sum(refusal.fee_wei for refusal in books.refusals),
        ),
    )


def _judge_seat(books: Books, strategy: str, seat: Player) -> Entry:
    names = {seat.name} | ({"client"} if seat.address == books.game.client else set())
    own = [move for move in books.played if move.player in names]
    refused = [refusal for refusal in books.refusals if refusal.sender == seat.address]
    member = books.get_member(seat.address)
    is_shown = member.standing not in {Standing.NONE, Standing.COMMITTED}
    return Entry(
        provider=seat.name,
        strategy=strategy,
        behaviour=seat.run.behaviour.describe(),
        is_right=is_shown and member.key == hash_top(books.answer),
        fate=_judge_fate(books, member),
        gas=sum(cost.gas for cost in get_costs(own)) + sum(r.gas for r in refused),
        fees_wei=sum(calculate_fees(own).values()) + sum(r.fee_wei for r in refused),
        profit_wei=books.deltas_wei[seat.address],
    )


def _judge_fate(books: Books, member: Member) -> Fate:
    if member.standing in {Standing.COMMITTED, Standing.DEFEATED}:
        return Fate.SLASHED
    is_won = books.store.jobs[books.game.job_id].status is Status.WON
    return Fate.WON if is_won and member.standing is not Standing.NONE else Fate.REFUNDED


def _judge_outcome(entries: Sequence[Entry]) -> Outcome:
    winners = [entry for entry in entries if entry.fate is Fate.WON]
    if not winners:
        return Outcome.VOID
    return Outcome.RIGHT if winners[0].is_right else Outcome.WRONG
