"""The people of a simulated market: who is there, who comes, who goes, and what they are told."""

from functools import partial
from typing import Protocol

from moot.sim.economy.agents import Agent, make_agent
from moot.sim.economy.config import BLOCKS_A_YEAR, GWEI, Config, Group
from moot.sim.economy.deals import Deal, Part
from moot.sim.economy.facts import News, Own
from moot.sim.economy.guard import Guard
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.mechanisms.base import Reputing
from moot.sim.economy.prices import Prices
from moot.sim.economy.strategies.base import FREE_RIDE, HONEST, WATCHER, Strategy
from moot.sim.economy.strategies.table import make_strategy
from moot.sim.economy.streams import Stream

MOST_SILENCES = 8
"""How often an agent may be silent before it has to leave: each time takes as long as patience."""


class Diary(Protocol):
    """Whatever notes who comes and goes, and knows the current block."""

    prices: Prices

    def note(self, kind: str, agent: Agent, job: int | None = None, detail: str = "") -> None:
        """Note something about an agent."""


class Population:
    """All agents of a market.

    Args:
        config: the groups.
        ledger: where they get accounts.
        reputing: the rule of reputations.
        diary: notes who comes and goes.

    Attributes:
        everybody: all who have ever been there, by the numbers of their accounts.
        clients, providers, watchers: who is there.
    """

    def __init__(self, config: Config, ledger: Ledger, reputing: Reputing, diary: Diary) -> None:
        self._config, self._ledger, self._reputing, self._diary = config, ledger, reputing, diary
        self._ordinals: dict[tuple[str, str], int] = {}
        self._factor = 1.0
        self.everybody: list[Agent] = []
        self.clients: list[Agent] = []
        self.providers: list[Agent] = []
        self.watchers: list[Agent] = []
        for ordinal in range(config.clients.count):
            self._enter_client(ordinal)
        for role, groups in (("provider", config.providers), ("watcher", config.watchers)):
            for group in groups:
                for _ in range(group.count):
                    self._enter(role, group)

    def show(self, agent: Agent) -> Own:
        """Return what an agent sees of itself."""
        ledger, number = self._ledger, agent.number
        return Own(
            agent.name,
            ledger.free[number],
            ledger.locked[number],
            agent.work_gwei,
            agent.reputation,
            agent.jobs,
            agent.slashed,
        )

    def price_work(self, factor: float) -> None:
        """Let all work cost so many times what it usually does, from now on."""
        if factor != self._factor:
            self._factor = factor
            for agent in (*self.providers, *self.watchers):
                agent.work_gwei = round(agent.usual_work_gwei * factor)

    def enter_anew(self, stream: Stream) -> None:
        """Let a new provider in, like one of those of the beginning."""
        groups = self._config.providers
        index = stream.draw_index(sum(group.count for group in groups))
        for group in groups:
            if index < group.count:
                self._diary.note("entry", self._enter("provider", group))
                return
            index -= group.count

    def pay_gain(self, deal: Deal) -> None:
        """Give those who have placed a wrong answer what it is worth to them, from outside."""
        winners = [p for p in deal.parts if p.seat and p.seat.shares and not p.seat.is_right]
        for part in winners:
            gain_gwei = deal.job.gain_gwei // len(winners)
            self._ledger.bring(gain_gwei)
            self._ledger.free[part.agent.number] += gain_gwei
            part.profit_gwei += gain_gwei

    def charge_capital(self, deal: Deal, block: int) -> int:
        """Let everybody pay for the money that a deal has locked; return what that was together.

        It goes outside. Nobody pays more than it has: what is lost with a bond is not owed, too.
        """
        rate = self._config.capital.rate * (block - deal.job.block) / BLOCKS_A_YEAR
        free, total_gwei = self._ledger.free, 0
        for part in deal.everybody:
            number = part.agent.number
            cost_gwei = min(round(part.locked_gwei * rate), free[number])
            free[number] -= cost_gwei
            part.profit_gwei -= cost_gwei
            part.agent.capital_cost_gwei += cost_gwei
            total_gwei += cost_gwei
        self._ledger.outside += total_gwei
        return total_gwei

    def tell(self, deal: Deal, block: int) -> None:
        """Tell everybody who had a part in a deal what became of it."""
        patience, providers, job = self._config.entry.patience, len(deal.parts), deal.job
        is_said = deal.is_audited
        for place, part in enumerate(deal.everybody):
            agent, seat = part.agent, part.seat
            is_slashed = seat is not None and seat.lost > 0
            is_provider = place < providers
            agent.jobs += 1
            agent.earned_gwei += part.profit_gwei
            if is_slashed:
                agent.slashed += 1
            if is_provider:
                agent.reputation = self._reputing.update(
                    agent.reputation, block - agent.rated, is_good=not is_slashed
                )
                agent.rated = block
            if agent.hears and agent.strategy.hear(
                self._make_news(deal, part, block, is_said=is_said)
            ):
                self.leave(agent, "exit")
            elif is_provider and self._is_ruined(agent, job.bond_gwei):
                self.leave(agent, "bankruptcy")
            elif patience and is_provider and agent.jobs >= patience and agent.earned_gwei < 0:
                self.leave(agent, "exit")

    def _make_news(self, deal: Deal, part: Part, block: int, *, is_said: bool) -> News:
        """Return what an agent hears of a deal that is settled."""
        is_checker = part.conduct == WATCHER
        is_wrong = deal.case.is_disputed or (deal.is_forced and part.conduct != FREE_RIDE)
        is_wrong = is_wrong or (is_checker and deal.case.outcome == "wrong")
        found_gwei = 0
        if is_checker:
            fee_gwei = 0 if deal.is_forced else part.fee_gwei
            found_gwei = part.profit_gwei + part.worked_gwei - fee_gwei
        return News(
            deal.job.number,
            block,
            part.conduct,
            part.conduct not in (HONEST, WATCHER),
            is_said,
            part.seat is not None and part.seat.lost > 0,
            deal.case.outcome,
            part.profit_gwei,
            is_wrong,
            found_gwei,
        )

    def _is_ruined(self, agent: Agent, bond_gwei: int) -> bool:
        """Whether an agent can no longer pay a bond like that of its last job."""
        ledger, number = self._ledger, agent.number
        return ledger.free[number] + ledger.locked[number] < bond_gwei

    def _enter_client(self, ordinal: int) -> None:
        capital_gwei = round(self._config.clients.capital_eth * GWEI)
        number = self._ledger.open(capital_gwei)
        client = Agent(
            number=number,
            name=f"client-{ordinal + 1}",
            role="client",
            strategy_name="client",
            strategy=Strategy(),
            stream=Stream(self._config.seed, "client", number),
            capital_gwei=capital_gwei,
        )
        self.everybody.append(client)
        self.clients.append(client)

    def _enter(self, role: str, group: Group) -> Agent:
        there = self.providers if role == "provider" else self.watchers
        ordinal = self._ordinals.get((role, group.strategy), 0) + 1
        self._ordinals[role, group.strategy] = ordinal
        strategy = make_strategy(f"{role}s", group.strategy, group.parameters)
        number = self._ledger.open(round(group.capital_eth * GWEI))
        agent = make_agent(number, ordinal, role, group, strategy, self._config.seed)
        agent.work_gwei = round(agent.usual_work_gwei * self._factor)
        agent.entered = agent.rated = self._diary.prices.block
        agent.reputation = self._reputing.begin()
        agent.place = len(there)
        agent.complain = partial(self._note_forfeit, agent)
        there.append(agent)
        self.everybody.append(agent)
        return agent

    def _note_forfeit(self, agent: Agent, why: str) -> None:
        """Note a forfeit; whoever never answers is not asked for ever."""
        self._diary.note("forfeit", agent, None, why)
        if isinstance(agent.strategy, Guard) and agent.strategy.silences >= MOST_SILENCES:
            self.leave(agent, "exit")

    def leave(self, agent: Agent, kind: str) -> None:
        """Let an agent go, once; `kind` is `exit` or `bankruptcy`."""
        if agent.left is not None:
            return
        there = self.providers if agent.role == "provider" else self.watchers
        last = there.pop()
        if last is not agent:
            there[agent.place], last.place = last, agent.place
        agent.left, agent.is_bankrupt = self._diary.prices.block, kind == "bankruptcy"
        self._diary.note(kind, agent)
