"""A deal: a job that providers have taken, with the money that is locked for it until its end.

Calls get into blocks as `traffic.py` has it. What they cost beyond what was locked for them is paid
from money that is free; where that is not enough, with all that is left.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moot.sim.economy.agents import Agent
from moot.sim.economy.cases import Case, Lineup, Seat, burn, pay_seat
from moot.sim.economy.checks import count_delay
from moot.sim.economy.config import GWEI, Chain
from moot.sim.economy.congested import Closed
from moot.sim.economy.delays import count_missed
from moot.sim.economy.facts import Job
from moot.sim.economy.ledger import BrokenLedgerError, Ledger
from moot.sim.economy.strategies.base import FREE_RIDE, WATCHER


@dataclass(slots=True)
class Part:
    """What one agent has in a deal.

    Attributes:
        agent: whose it is.
        conduct: what it does.
        seat: what becomes of it before the referee; None for a watcher that need not go there.
        locked_gwei: its bonds, and its reserve for gas.
        worked_gwei: what it has paid for computing.
        fee_gwei: what it is paid for a check, or for the forced error that it has found.
        profit_gwei: the change of its wealth, once the deal is settled.
        gas_gwei: what its calls have cost by then.
        missed_gwei: what it has less of bonds, prizes and reward because calls had to wait.
        is_late: whether it is a watcher whose check comes too late for any dispute.
    """

    agent: Agent
    conduct: str
    seat: Seat | None = None
    locked_gwei: int = 0
    worked_gwei: int = 0
    fee_gwei: int = 0
    profit_gwei: int = 0
    gas_gwei: int = 0
    missed_gwei: int = 0
    is_late: bool = False


@dataclass(slots=True)
class Deal:
    """A deal that is not settled yet.

    Attributes:
        job: what it is about.
        client: who pays: the client, or a provider that has opened the job itself.
        parts: of the providers, in the order of the lineup.
        watchers: of the watchers that were shown the job and do something about it, those first
            that go before the referee.
        lineup: the conducts of all who go before the referee.
        number: which of the lineup's cases it is.
        case: what it comes to, as far as is known.
        is_forced: whether the providers were told to make an error.
        extra_gwei: what the client pays watchers.
        fund_gwei: what the fund pays them.
        price_wei: the price of gas when it was made.
        client_locked_gwei: what the client has locked.
        bonds_gwei: what all have locked.
        planned: what it comes to if no call has to wait.
        cap_wei: the highest price that its calls may pay.
        reserve_wei: the price for which gas is reserved.
        began: the block in which the slowest provider is ready.
        begins: the same, with the time for which the opening of the job has waited.
        closed: when calls had to wait, as the case counts blocks.
        waited: for how many blocks they had to.
        followed: the block up to which it is known that no other call has to.
        patient_until: the block from which on its calls pay whatever the block costs.
    """

    job: Job
    client: Agent
    parts: list[Part]
    watchers: list[Part]
    lineup: Lineup
    number: int
    case: Case
    is_forced: bool
    extra_gwei: int
    fund_gwei: int
    price_wei: int
    everybody: list[Part] = field(default_factory=list)
    client_locked_gwei: int = 0
    bonds_gwei: int = 0
    planned: Case = field(init=False)
    cap_wei: int = 0
    reserve_wei: int = 0
    began: int = 0
    begins: int = 0
    closed: Closed = ()
    waited: int = 0
    followed: int = 0
    patient_until: int = sys.maxsize

    def __post_init__(self) -> None:
        self.planned = self.case

    @property
    def ends(self) -> int:
        """The block that has its last call."""
        return self.begins + self.case.blocks

    @property
    def missed(self) -> int:
        """How many accounts have come too late because calls had to wait."""
        return count_missed(self.planned, self.case) if self.closed else 0

    def put(self, case: Case) -> None:
        """Let the deal come to another case of the same lineup."""
        self.case = case
        for part, seat in zip(self.everybody, case.seats, strict=False):
            part.seat = seat

    def begin_again(self) -> None:
        """Follow the calls once more, which pay no more now than is reserved for them."""
        self.cap_wei, self.begins, self.closed = self.reserve_wei, self.began, ()
        self.waited = self.followed = 0
        self.put(self.planned)

    def name_players(self) -> Mapping[str, int]:
        """Return which of everybody plays, by the name of its accounts without their numbers."""
        seen: Counter[str] = Counter()
        names = {}
        for place, conduct in enumerate(self.lineup):
            seen[conduct] += 1
            names[f"{conduct}-{seen[conduct]}"] = place
        return names

    @property
    def is_audited(self) -> bool:
        """Whether a watcher says in time that it has checked the job, be it true or not."""
        return bool(self.watchers) and any(
            it.conduct in (WATCHER, FREE_RIDE) and not it.is_late for it in self.watchers
        )

    @property
    def is_checked(self) -> bool:
        """Whether a watcher has really checked the job in time."""
        return bool(self.watchers) and any(
            it.conduct == WATCHER and not it.is_late for it in self.watchers
        )

    @property
    def delay_blocks(self) -> int:
        """By how many blocks the dispute begins later than in its case: the check takes longer."""
        if not self.watchers or not self.case.is_disputed:
            return 0
        first = self.watchers[0]
        joins = first.conduct == WATCHER and first.seat is not None
        if not joins or any(part.seat and part.seat.is_right for part in self.parts):
            return 0
        return count_delay(first.agent.blocks)

    def lock(self, ledger: Ledger, chain: Chain) -> Agent | None:
        """Lock all that the deal needs, and pay for the work; or change nothing.

        Returns:
            Whoever can't pay; None if all can.
        """
        self.cap_wei = int(self.price_wei * chain.fee_cap)
        self.reserve_wei = int(self.price_wei * min(chain.gas_reserve, chain.fee_cap))
        self._reckon(chain, self.reserve_wei)
        free, locked, payer = ledger.free, ledger.locked, self.client
        bonds_gwei = client_gwei = self.client_locked_gwei
        for part in self.everybody:
            agent, needed = part.agent, part.locked_gwei + part.worked_gwei
            if agent is payer:
                needed += client_gwei
            if free[agent.number] < needed:
                return agent
        if free[payer.number] < client_gwei:
            return payer
        for part in self.everybody:
            number, part_gwei, worked_gwei = part.agent.number, part.locked_gwei, part.worked_gwei
            free[number] -= part_gwei + worked_gwei
            locked[number] += part_gwei
            ledger.work += worked_gwei
            bonds_gwei += part_gwei
        free[payer.number] -= client_gwei
        locked[payer.number] += client_gwei
        if self.fund_gwei:
            ledger.fund -= self.fund_gwei
            locked[self.watchers[0].agent.number] += self.fund_gwei
            bonds_gwei += self.fund_gwei
        self.bonds_gwei = bonds_gwei
        ledger.bonds += bonds_gwei
        return None

    def begin_work(self) -> None:
        """Hold a slot of each provider; what it does not compute leaves it free for another job."""
        block = self.job.block
        for part in self.parts:
            work = 1.0 if part.seat is None else part.seat.work
            part.agent.hold(block, block + round(part.agent.blocks * work))

    def _reckon(self, chain: Chain, reserve_wei: int) -> None:
        """Find out who has to lock how much, and what everybody's work costs."""
        case, job = self.case, self.job
        everybody = self.parts
        if self.watchers:
            everybody = [*everybody, *self.watchers]
            for watcher in self.watchers:
                if watcher.conduct == WATCHER:
                    watcher.worked_gwei = watcher.agent.work_gwei
        self.everybody = everybody
        for part, seat in zip(everybody, case.seats, strict=False):
            part.seat = seat
            part.worked_gwei = round(part.agent.work_gwei * seat.work)
            part.locked_gwei = job.bond_gwei * seat.accounts + price_gas(seat.gas, reserve_wei)
            if seat.held_blocks:
                part.locked_gwei += _price_silence(part, seat, chain)
            if seat.is_client:
                self.client = part.agent
        reward_gwei = job.price_gwei * len(self.parts)
        self.client_locked_gwei = reward_gwei + self.extra_gwei
        self.client_locked_gwei += price_gas(case.client_gas, reserve_wei)

    def can_pay(self, ledger: Ledger, prices_wei: Sequence[int]) -> bool:
        """Whether all have what their gas costs at these prices, reserved or free."""
        needed: Counter[int] = Counter()
        for part, seat, price_wei in zip(
            self.everybody, self.planned.seats, prices_wei, strict=False
        ):
            if part.seat is not None:
                reserved_gwei = price_gas(seat.gas, self.reserve_wei)
                needed[part.agent.number] += price_gas(part.seat.gas, price_wei) - reserved_gwei
        reserved_gwei = price_gas(self.planned.client_gas, self.reserve_wei)
        gas_gwei = price_gas(self.case.client_gas, prices_wei[-1])
        needed[self.client.number] += gas_gwei - reserved_gwei
        return all(ledger.free[number] >= gwei for number, gwei in needed.items())

    def settle(
        self, ledger: Ledger, chain: Chain, prices_wei: Sequence[int], *, is_funding: bool
    ) -> "Bill":
        """Unlock everything, and pay whom the referee and the rules pay.

        Args:
            ledger: where the money is.
            chain: what gas and silence cost.
            prices_wei: what a unit of gas has cost each of everybody, the client last.
            is_funding: whether what is burned of lost bonds goes to the fund instead.

        Raises:
            BrokenLedgerError: more or less is paid out than was paid in.
        """
        case, bond_gwei = self.case, self.job.bond_gwei
        reward_gwei = self.job.price_gwei * len(self.parts)
        free, locked = ledger.free, ledger.locked
        burned_gwei = left_gwei = burn(case, bond_gwei, reward_gwei)
        left_gwei -= reward_gwei
        gas, fees_gwei, client = case.client_gas, 0, self.client.number
        for part, price_wei in zip(self.everybody, prices_wei, strict=False):
            number, seat, part_gwei = part.agent.number, part.seat, part.locked_gwei
            change_gwei, free_gwei = part.fee_gwei, free[number]
            if seat is not None:
                bonds_gwei = bond_gwei * seat.accounts
                won_gwei = pay_seat(seat, case, bond_gwei, reward_gwei) - bonds_gwei
                left_gwei += won_gwei
                left_over_gwei = part_gwei - bonds_gwei + free_gwei
                gas += seat.gas
                spent_gwei = min(-(-seat.gas * price_wei // GWEI), left_over_gwei)
                part.gas_gwei = spent_gwei
                fees_gwei += spent_gwei
                if seat.held_blocks:
                    spent_gwei = min(spent_gwei + _price_silence(part, seat, chain), left_over_gwei)
                    ledger.outside += spent_gwei - part.gas_gwei
                change_gwei += won_gwei - spent_gwei
            locked[number] -= part_gwei
            free[number] = free_gwei + part_gwei + change_gwei
            part.profit_gwei = change_gwei - part.worked_gwei
        if self.fund_gwei:
            locked[self.watchers[0].agent.number] -= self.fund_gwei
        owed_gwei, free_gwei = self.extra_gwei + reward_gwei, free[client]
        client_gas_gwei = min(
            price_gas(case.client_gas, prices_wei[-1]),
            self.client_locked_gwei - owed_gwei + free_gwei,
        )
        client_gwei = -owed_gwei - client_gas_gwei
        if not case.sharers and not any(part.seat and part.seat.is_client for part in self.parts):
            client_gwei += reward_gwei
            left_gwei += reward_gwei
        locked[client] -= self.client_locked_gwei
        free[client] = free_gwei + self.client_locked_gwei + client_gwei
        fees_gwei += client_gas_gwei
        if left_gwei:
            raise BrokenLedgerError(f"job {self.job.number} pays {left_gwei} gwei too much")
        if is_funding:
            ledger.fund += burned_gwei
        else:
            ledger.burned += burned_gwei
        ledger.fees += fees_gwei
        ledger.bonds -= self.bonds_gwei
        for part in self.parts:
            if part.agent is self.client:
                part.profit_gwei += client_gwei
        self._compare(reward_gwei)
        return Bill(gas, fees_gwei, burned_gwei, client_gwei)

    def _compare(self, reward_gwei: int) -> None:
        """Find out what everybody has less than it would have if no call had had to wait."""
        bond_gwei, planned = self.job.bond_gwei, self.planned
        if planned is self.case:
            return
        for part, before, now in zip(self.everybody, planned.seats, self.case.seats, strict=False):
            had_gwei = pay_seat(before, planned, bond_gwei, reward_gwei)
            has_gwei = pay_seat(now, self.case, bond_gwei, reward_gwei)
            part.missed_gwei = max(0, had_gwei - has_gwei)


class Bill(NamedTuple):
    """What a deal has come to: gas and its price, what was lost to all, and the client's change."""

    gas: int
    fees_gwei: int
    burned_gwei: int
    client_gwei: int


def price_gas(gas: int, price_wei: int) -> int:
    """Return what gas costs, in gwei, rounded up."""
    return -(-gas * price_wei // GWEI)


def _price_silence(part: Part, seat: Seat, chain: Chain) -> int:
    """Return what it costs an agent to keep others out of so many blocks, in gwei."""
    return round(seat.held_blocks * chain.censor_eth * part.agent.strategy.censor_share * GWEI)
