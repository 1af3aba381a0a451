"""What a job came to: who was right, who was paid, who was slashed, and what it cost whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from contracts.model.types import Address
from contracts.reasons import Standing, Status
from offchain.commitments.tree import Digest
from offchain.disputes.accounts import Cost, calculate_fees, count_burned, get_costs
from offchain.disputes.game import Game, Played
from sim.ledger import Flows


class Fate(StrEnum):
    """What became of a provider in a job."""

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
    """One provider's part in one job.

    Attributes:
        provider: its name.
        strategy: what it is counted under.
        behaviour: what it did, with its settings.
        is_right: whether its claim was the one of an honest run.
        fate: what became of its bond.
        gas: what its transactions used, in gas.
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
        entries: the providers' parts, in the order in which they joined.
        claims: how many different histories were claimed.
        matches: how each match ended, in order.
        outcome: what the client got.
        client_wei: the change of the client's balance.
        verifier_wei: the change of the balance of the account that posts rulings.
        costs: what every transaction cost.
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
class Books:
    """What it takes to judge a game that is over.

    Attributes:
        game: the game.
        played: its calls.
        strategies: the strategy of every seat.
        answer: the top of the history that an honest run claims.
        deltas_wei: the changes of all balances since before the game, the contract's included.
        contract: the referee's address.
    """

    game: Game
    played: Sequence[Played]
    strategies: Sequence[str]
    answer: Digest
    deltas_wei: Mapping[Address, int]
    contract: Address


def judge_job(number: int, books: Books) -> JobResult:
    """Return what a job came to."""
    game = books.game
    entries = tuple(_judge_seat(books, seat) for seat in range(len(game.players)))
    contract_wei = books.deltas_wei[books.contract]
    return JobResult(
        number=number,
        entries=entries,
        claims=len({player.run.history.top for player in game.players}),
        matches=tuple(ended.ending.name.lower() for ended in game.ended),
        outcome=_judge_outcome(entries),
        client_wei=books.deltas_wei[game.client],
        verifier_wei=books.deltas_wei[game.verifier],
        costs=get_costs(books.played),
        flows=Flows(
            accounts_wei=sum(books.deltas_wei.values()) - contract_wei,
            contract_wei=contract_wei,
            burned_wei=count_burned(game),
            fees_wei=sum(calculate_fees(books.played).values()),
        ),
    )


def _judge_seat(books: Books, seat: int) -> Entry:
    game, player = books.game, books.game.players[seat]
    own = [move for move in books.played if move.player == player.name]
    return Entry(
        provider=player.name,
        strategy=books.strategies[seat],
        behaviour=player.run.behaviour.describe(),
        is_right=player.run.history.top == books.answer,
        fate=_judge_fate(game, seat),
        gas=sum(cost.gas for cost in get_costs(own)),
        fees_wei=calculate_fees(own).get(player.name, 0),
        profit_wei=books.deltas_wei[player.address],
    )


def _judge_fate(game: Game, seat: int) -> Fate:
    member = game.referee.member(game.job_id, game.players[seat].address)
    if member.standing is Standing.DEFEATED:
        return Fate.SLASHED
    is_won = game.referee.job(game.job_id).status is Status.WON
    return Fate.WON if is_won else Fate.REFUNDED


def _judge_outcome(entries: Sequence[Entry]) -> Outcome:
    winners = [entry for entry in entries if entry.fate is Fate.WON]
    if not winners:
        return Outcome.VOID
    return Outcome.RIGHT if winners[0].is_right else Outcome.WRONG
