"""Cases: what a job comes to that some providers run, each under its conduct.

A case says what became of each seat in whole numbers (accounts that kept their bond, prizes), so
that it holds for any bond and any price. `outcomes.py` makes cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.sim.economy.schema import STAGES

Lineup = tuple[str, ...]
"""The conducts of all who take part, providers first; a watcher or griefer comes last."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What became of one party in a case.

    Attributes:
        conduct: what it did.
        accounts: how many bonds it has locked.
        lost: how many of them it has lost.
        prizes: how many prizes it has won; each is half a bond, rounded down.
        shares: how many of its accounts got a share of the reward.
        is_client: whether it has opened the job and paid for it.
        is_right: whether its first account has claimed what an honest run does.
        work: the share of the agreed steps that its claims need, summed over its accounts.
        gas: what its calls used, refused ones included.
        held_blocks: for how many blocks it has kept others' calls out of the chain.
    """

    conduct: str
    accounts: int
    lost: int
    prizes: int
    shares: int
    is_client: bool
    is_right: bool
    work: float
    gas: int
    held_blocks: int


@dataclass(frozen=True, slots=True)
class Move:
    """One accepted call of a case: when, whose, and what it used."""

    block: int
    stage: str
    player: str
    call: str
    gas: int


@dataclass(frozen=True, slots=True)
class CallReceipt:
    """One call of a case that was played on a chain, refused ones among them, and what it cost.

    Attributes:
        block: since the job was opened.
        stage: of the dispute, or `refused`.
        player: who has made it.
        call: the function.
        gas: what it used.
        calldata, execution: the parts of that, as in a receipt; a refused call has none.
        fee_wei: what was paid for it.
    """

    block: int
    stage: str
    player: str
    call: str
    gas: int
    calldata: int | None
    execution: int | None
    fee_wei: int


@dataclass(frozen=True, slots=True)
class AccountReceipt:
    """What became of an account in a case that was played on a chain.

    Attributes:
        account: its name.
        seat: which of the case's seats it belongs to; None of the client and the verifier.
        behaviour: what it did, with its settings; None of those two, as are the next two.
        is_right: whether it has shown the claim of an honest run.
        fate: what became of its bond: won, slashed or refunded.
        gas: what its calls used, refused ones included.
        fees_wei: what it paid for that.
        profit_wei: the change of its balance.
    """

    account: str
    seat: int | None
    behaviour: str | None
    is_right: bool | None
    fate: str | None
    gas: int
    fees_wei: int
    profit_wei: int


@dataclass(frozen=True, slots=True)
class Receipts:
    """What a case that was played on a chain has cost, and what all have of it, to the wei."""

    calls: tuple[CallReceipt, ...]
    accounts: tuple[AccountReceipt, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What a job came to.

    Attributes:
        seats: of each party, in the order of the lineup.
        outcome: right, wrong or void: what the client got.
        sharers: how many accounts shared the reward; 0 if the client got it back.
        defeated: how many bonds were lost in matches.
        forfeits: how many prizes nobody got.
        hidden: how many bonds were lost because a claim was never shown.
        is_disputed: whether two claims met.
        blocks: from the opening of the job to its end.
        client_gas: what the client's calls used, and everybody's who is no party.
        moves: all accepted calls, in order.
        receipts: what it cost on a chain; None of a case that was not played there.
    """

    seats: tuple[Seat, ...]
    outcome: str
    sharers: int
    defeated: int
    forfeits: int
    hidden: int
    is_disputed: bool
    blocks: int
    client_gas: int
    moves: tuple[Move, ...]
    receipts: Receipts | None = None

    @property
    def rounds(self) -> int:
        """The number of calls of matches."""
        return sum(move.stage in STAGES[1:-1] for move in self.moves)

    def sum_stages(self) -> tuple[int, ...]:
        """Return the gas of each of `STAGES`."""
        return tuple(sum(m.gas for m in self.moves if m.stage == stage) for stage in STAGES)

    @property
    def fates(self) -> tuple[object, ...]:
        """All that another way of deciding the case has to agree with."""
        told = [(s.accounts, s.lost, s.prizes, s.shares, s.is_right) for s in self.seats]
        return self.outcome, self.sharers, self.defeated, self.forfeits, self.hidden, *told


def pay_seat(seat: Seat, case: Case, bond: int, reward: int) -> int:
    """Return what a seat gets back in a case, of the bonds and the reward, in their unit."""
    paid = (seat.accounts - seat.lost) * bond + seat.prizes * (bond // 2)
    if case.sharers:
        paid += seat.shares * (reward // case.sharers)
    elif seat.is_client:
        paid += reward
    return paid


def burn(case: Case, bond: int, reward: int) -> int:
    """Return what the referee burns in a case, in the unit of the bond and the reward."""
    prize = bond // 2
    burned = case.hidden * bond
    burned += case.defeated * (bond - prize) + case.forfeits * prize
    return burned + (reward % case.sharers if case.sharers else 0)


def name_lineup(lineup: Sequence[str]) -> str:
    """Return a lineup as tables show it."""
    return "+".join(lineup)
