"""The till of the service: standing bonds, clients' balances, vouchers, and who pays which call.

It moves money as `service.vy` does: a bond that stands is locked, and so is a balance, until a
voucher is redeemed; a match takes its bonds from both; half of what is lost is burned.
"""

from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.config import BLOCKS_A_YEAR, GWEI, Config
from moot.sim.economy.deals import price_gas
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.prices import Prices
from moot.sim.economy.service.affairs import Affair
from moot.sim.economy.service.gas import find_gas
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.moves import Moves
from moot.sim.economy.service.scribe import Scribe


@dataclass
class Till:
    """The money of jobs by receipt.

    Attributes:
        config: what is configured.
        ledger: where everybody's money is.
        prices: of gas.
        scribe: writes the calls down.
        moves: is told what is moved, for whoever plays it again.
        gas: what the calls of the current block have used.
        balances: by a client's and a provider's number, what was deposited and is not redeemed.
    """

    config: Config
    ledger: Ledger
    prices: Prices
    scribe: Scribe
    moves: Moves = field(default_factory=Moves)
    gas: int = 0
    balances: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        service = self.config.service
        self._bond_gwei = round(service.bond_eth * GWEI)
        usual_gwei = service.tokens * service.price_gwei
        self._deposit_gwei = round(usual_gwei * service.fund_answers)
        self._fund_gas = find_gas("service.fund")

    def price(self, *calls: str) -> int:
        """Return what calls cost in the current block, in gwei."""
        return price_gas(sum(map(find_gas, calls)), self.prices.price_wei)

    def lock(self, agent: Agent, amount_gwei: int) -> None:
        """Lock money of an agent, which has it; or unlock some, if it is less than nothing."""
        self.ledger.free[agent.number] -= amount_gwei
        self.ledger.locked[agent.number] += amount_gwei
        self.ledger.bonds += amount_gwei

    def use(
        self, name: str, agent: Agent, job: int, amount_gwei: int = 0, receipts: int = 0
    ) -> int:
        """Let an agent pay for a call of the service; return its price in gwei."""
        return self.spend(name, agent, job, find_gas(name), amount_gwei, receipts)

    def spend(
        self,
        name: str,
        agent: Agent,
        job: int,
        gas: int,
        amount_gwei: int = 0,
        receipts: int = 0,
    ) -> int:
        """Let an agent pay for so much gas, or with all that it has, if that is less."""
        free = self.ledger.free
        fees_gwei = min(price_gas(gas, self.prices.price_wei), free[agent.number])
        free[agent.number] -= fees_gwei
        self.ledger.fees += fees_gwei
        self.gas += gas
        self.scribe.note_call(name, agent, job, gas, fees_gwei, amount_gwei, receipts)
        return fees_gwei

    def open(self, house: House, job: int) -> bool:
        """Let a provider deposit its standing bond; return whether it can."""
        agent, cost_gwei = house.agent, self.price("service.stake")
        if self.ledger.free[agent.number] < self._bond_gwei + cost_gwei:
            return False
        self.lock(agent, self._bond_gwei)
        house.bond_gwei, house.charged = self._bond_gwei, self.prices.block
        self.use("service.stake", agent, job, self._bond_gwei)
        self.moves.stake(house, self._bond_gwei)
        return True

    def add(self, house: House, amount_gwei: int, job: int) -> None:
        """Let a provider deposit again what a match has paid it, if it goes on and has that."""
        cost_gwei, agent = self.price("service.stake"), house.agent
        if house.is_open and self.ledger.free[agent.number] >= amount_gwei + cost_gwei:
            self.charge(house, job)
            self.lock(agent, amount_gwei)
            house.bond_gwei += amount_gwei
            self.use("service.stake", agent, job, amount_gwei)
            self.moves.stake(house, amount_gwei)

    def fund(self, client: Agent, house: House, price_gwei: int, job: int) -> bool:
        """See to it that a client's balance with a provider pays one more answer; return if so.

        It is promised then, until a voucher is given or it is known that none will be.
        """
        key = (client.number, house.agent.number)
        promised_gwei = house.promised_gwei.get(client.number, 0) + price_gwei
        left_gwei = self.balances.get(key, 0) - house.owed_gwei.get(client.number, 0)
        if left_gwei >= promised_gwei:
            house.promised_gwei[client.number] = promised_gwei
            return True
        amount_gwei = max(self._deposit_gwei, price_gwei)
        cost_gwei = price_gas(self._fund_gas, self.prices.price_wei)
        if self.ledger.free[client.number] < amount_gwei + cost_gwei:
            return False
        house.promised_gwei[client.number] = promised_gwei
        self.lock(client, amount_gwei)
        self.balances[key] = self.balances.get(key, 0) + amount_gwei
        self.use("service.fund", client, job, amount_gwei)
        self.moves.fund(client.number, house, amount_gwei, self.balances[key])
        return True

    def compute(self, agent: Agent, cost_gwei: int) -> bool:
        """Let an agent pay for computing; return whether it can."""
        free = self.ledger.free
        if free[agent.number] < cost_gwei:
            return False
        free[agent.number] -= cost_gwei
        self.ledger.work += cost_gwei
        return True

    def give(self, giver: Agent, taker: Agent, amount_gwei: int, job: int) -> None:
        """Let one agent pay another, from free money."""
        if amount_gwei:
            self.ledger.free[giver.number] -= amount_gwei
            self.ledger.free[taker.number] += amount_gwei
            self.scribe.book(job, giver, -amount_gwei)
            self.scribe.book(job, taker, amount_gwei)

    def bring(self, agent: Agent, gain_gwei: int, job: int) -> None:
        """Give an agent what a lie is worth to it, from outside."""
        self.ledger.bring(gain_gwei)
        self.ledger.free[agent.number] += gain_gwei
        self.scribe.book(job, agent, gain_gwei)

    def release(self, affair: Affair) -> None:
        """Take back what was promised for an answer."""
        affair.house.promised_gwei[affair.client.number] -= affair.job.price_gwei

    def owe(self, affair: Affair) -> None:
        """Take a client's voucher for an answer, and redeem it when it is about enough of them."""
        house, client, price_gwei = affair.house, affair.client, affair.job.price_gwei
        number, job = client.number, affair.job.number
        affair.is_paid = True
        self.release(affair)
        if not price_gwei:
            return
        self.scribe.book(job, client, -price_gwei)
        self.scribe.book(job, house.agent, price_gwei)
        house.owed_gwei[number] = house.owed_gwei.get(number, 0) + price_gwei
        house.answers[number] = house.answers.get(number, 0) + 1
        if house.answers[number] >= self.config.service.redeem_every:
            self.redeem(house, number, job)

    def redeem(self, house: House, client: int, job: int) -> None:
        """Let a provider redeem what a client owes it."""
        answers, owed_gwei = house.answers[client], self.settle_up(house, client)
        self.use("service.redeem", house.agent, job, owed_gwei, answers)
        self.moves.redeem(client, house, owed_gwei, self.balances[client, house.agent.number])

    def settle_up(self, house: House, client: int) -> int:
        """Move what a client owes a provider; return what that is, in gwei."""
        owed_gwei = house.owed_gwei.pop(client, 0)
        house.answers.pop(client, None)
        ledger, number = self.ledger, house.agent.number
        ledger.locked[client] -= owed_gwei
        ledger.free[number] += owed_gwei
        ledger.bonds -= owed_gwei
        self.balances[client, number] -= owed_gwei
        return owed_gwei

    def charge(self, house: House, job: int) -> None:
        """Let a provider pay for the capital of its standing bond, since it last did."""
        block, agent = self.prices.block, house.agent
        held = house.bond_gwei * (block - house.charged)
        house.charged = block
        rate = self.config.capital.rate / BLOCKS_A_YEAR
        cost_gwei = min(round(held * rate), self.ledger.free[agent.number])
        self.ledger.free[agent.number] -= cost_gwei
        self.ledger.outside += cost_gwei
        agent.capital_cost_gwei += cost_gwei
        self.scribe.clerk.counts_of(job).capital_gwei += cost_gwei
        self.scribe.book(job, agent, -cost_gwei, locked_gwei_blocks=held)

    def take_all(self, house: House, reporter: Agent, job: int) -> tuple[int, int]:
        """Take the whole standing bond for a fault: half is the reporter's, half is burned.

        Returns:
            What it was, and the reporter's half.
        """
        self.charge(house, job)
        lost_gwei, house.bond_gwei = house.bond_gwei, 0
        prize_gwei = lost_gwei // 2
        self.ledger.locked[house.agent.number] -= lost_gwei
        self.ledger.bonds -= lost_gwei
        self.ledger.free[reporter.number] += prize_gwei
        self.ledger.burned += lost_gwei - prize_gwei
        self.scribe.burn(job, lost_gwei - prize_gwei)
        self.scribe.book(job, house.agent, -lost_gwei, slashed=1)
        self.scribe.book(job, reporter, prize_gwei)
        return lost_gwei, prize_gwei
