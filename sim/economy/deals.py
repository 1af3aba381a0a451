"""A deal: a job that providers have taken, with the money that is locked for it until its end.

All calls of a deal are paid at the price of the block in which it is settled, up to the cap that
was signed when it was made.
"""

from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.cases import Case, Lineup, Seat, burn, pay_seat
from moot.sim.economy.checks import count_delay
from moot.sim.economy.config import GWEI, Chain
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
        locked_gwei: its bonds, and what its calls may cost.
        worked_gwei: what it has paid for computing.
        fee_gwei: what it is paid for a check, or for the forced error that it has found.
        profit_gwei: the change of its wealth, once the deal is settled.
        gas_gwei: what its calls have cost by then.
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
        case: what it comes to.
        is_forced: whether the providers were told to make an error.
        extra_gwei: what the client pays watchers.
        fund_gwei: what the fund pays them.
        price_wei: the price of gas when it was made.
        client_locked_gwei: what the client has locked.
        bonds_gwei: what all have locked.
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
        cap_wei = int(self.price_wei * chain.fee_cap)
        self._reckon(chain, cap_wei)
        free, locked, payer = ledger.free, ledger.locked, self.client
        client_gwei = self.client_locked_gwei
        for part in self.everybody:
            needed = part.locked_gwei + part.worked_gwei
            if part.agent is payer:
                needed += client_gwei
            if free[part.agent.number] < needed:
                return part.agent
        if free[payer.number] < client_gwei:
            return payer
        bonds_gwei = client_gwei
        for part in self.everybody:
            agent, part_gwei = part.agent, part.locked_gwei
            number = agent.number
            free[number] -= part_gwei + part.worked_gwei
            locked[number] += part_gwei
            ledger.work += part.worked_gwei
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

    def _reckon(self, chain: Chain, cap_wei: int) -> None:
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
            part.locked_gwei = job.bond_gwei * seat.accounts + _round_up(seat.gas, cap_wei)
            if seat.held_blocks:
                part.locked_gwei += _price_silence(part, seat, chain)
            if seat.is_client:
                self.client = part.agent
        reward_gwei = job.price_gwei * len(self.parts)
        gas_gwei = -(-case.client_gas * cap_wei // GWEI)
        self.client_locked_gwei = reward_gwei + self.extra_gwei + gas_gwei

    def settle(self, ledger: Ledger, chain: Chain, price_wei: int, *, is_funding: bool) -> "Bill":
        """Unlock everything, and pay whom the referee and the rules pay.

        Args:
            ledger: where the money is.
            chain: what gas and silence cost.
            price_wei: of gas, now.
            is_funding: whether what is burned of lost bonds goes to the fund instead.

        Raises:
            BrokenLedgerError: more or less is paid out than was paid in.
        """
        price_wei = min(price_wei, int(self.price_wei * chain.fee_cap))
        case, bond_gwei = self.case, self.job.bond_gwei
        reward_gwei = self.job.price_gwei * len(self.parts)
        free, locked = ledger.free, ledger.locked
        burned_gwei = left_gwei = burn(case, bond_gwei, reward_gwei)
        left_gwei -= reward_gwei
        fees_gwei = 0
        client = self.client.number
        for part in self.everybody:
            number, seat = part.agent.number, part.seat
            paid_gwei, spent_gwei = part.fee_gwei, 0
            if seat is not None:
                bonds_gwei = bond_gwei * seat.accounts
                back_gwei = pay_seat(seat, case, bond_gwei, reward_gwei)
                left_gwei += back_gwei - bonds_gwei
                part.gas_gwei = _round_up(seat.gas, price_wei)
                spent_gwei = part.gas_gwei
                if seat.held_blocks:
                    silence_gwei = _price_silence(part, seat, chain)
                    ledger.outside += silence_gwei
                    spent_gwei += silence_gwei
                paid_gwei += back_gwei - bonds_gwei
            fees_gwei += part.gas_gwei
            locked[number] -= part.locked_gwei
            change_gwei = paid_gwei - spent_gwei
            free[number] += part.locked_gwei + change_gwei
            part.profit_gwei = change_gwei - part.worked_gwei
        if self.fund_gwei:
            locked[self.watchers[0].agent.number] -= self.fund_gwei
        client_gas_gwei = _round_up(case.client_gas, price_wei)
        client_gwei = -self.extra_gwei - client_gas_gwei - reward_gwei
        if not case.sharers and not any(part.seat and part.seat.is_client for part in self.parts):
            client_gwei += reward_gwei
            left_gwei += reward_gwei
        locked[client] -= self.client_locked_gwei
        free[client] += self.client_locked_gwei + client_gwei
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
        return Bill(fees_gwei, burned_gwei, client_gwei)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a deal has come to: gas, what was lost to all, and the client's change."""

    fees_gwei: int
    burned_gwei: int
    client_gwei: int


def _round_up(gas: int, price_wei: int) -> int:
    """Return what gas costs, in gwei, rounded up."""
    return -(-gas * price_wei // GWEI)


def _price_silence(part: Part, seat: Seat, chain: Chain) -> int:
    """Return what it costs an agent to keep others out of so many blocks, in gwei."""
    return round(seat.held_blocks * chain.censor_eth * part.agent.strategy.censor_share * GWEI)
