"""A provider's house: its standing bond, its chains of receipts, and what clients owe it."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moot.sim.economy.agents import Agent
from moot.sim.economy.facts import Pledge
from moot.sim.economy.service.signed import Signed

if TYPE_CHECKING:
    from moot.sim.economy.service.affairs import Affair


@dataclass(slots=True)
class Chain:
    """A chain of receipts: what the next one says of all before it.

    Attributes:
        name: 0 of the first; no other is ever used again.
        born: the number with which it has left the first chain.
        number: of the next receipt.
        total: the stakes of all receipts up to here.
        released: the total up to which all have ended.
        running: of those that have not, the last block and the total up to it.
    """

    name: int = 0
    born: int = 0
    number: int = 0
    total: int = 0
    released: int = 0
    running: deque[tuple[int, int]] = field(default_factory=deque)

    def count_open(self, block: int) -> int:
        """Return the stakes of the receipts that can be challenged in a block, or later."""
        running = self.running
        while running and running[0][0] < block:
            self.released = running.popleft()[1]
        return self.total - self.released

    def fork(self, name: int) -> "Chain":
        """Return a chain that goes on from here by itself."""
        return Chain(name, self.number, self.number, self.total, self.released, deque(self.running))


@dataclass(slots=True)
class House:
    """What a provider has at the service.

    Attributes:
        agent: whose it is.
        bond_gwei: its standing bond; what is in a match is not in it.
        chains: of receipts; the first is the one that it publishes.
        forks: how many chains it has had beside the first.
        hides: whether its receipts say that all before them had ended.
        owed_gwei: by a client's number, what its vouchers are worth that are not redeemed.
        promised_gwei: by a client's number, what answers will cost that are not paid yet.
        answers: by a client's number, how many these are about.
        waiting: the affairs of receipts that are not published yet.
        published: numbers below this one are published.
        is_faulted: whether a fault of it was proven: none of its receipts are worth anything.
        is_leaving: whether it gives no more receipts.
        open_gwei: the stakes of all receipts that can be challenged, whatever they say.
    """

    agent: Agent
    bond_gwei: int = 0
    chains: list[Chain] = field(default_factory=lambda: [Chain()])
    forks: int = 0
    hides: bool = False
    owed_gwei: dict[int, int] = field(default_factory=dict)
    promised_gwei: dict[int, int] = field(default_factory=dict)
    answers: dict[int, int] = field(default_factory=dict)
    waiting: list["Affair"] = field(default_factory=list)
    published: int = 0
    is_publishing: bool = False
    is_faulted: bool = False
    is_leaving: bool = False
    charged: int = 0
    open_gwei: int = 0
    _running: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def is_open(self) -> bool:
        """Whether it gives receipts."""
        return not (self.is_faulted or self.is_leaving)

    def find_chain(self, client: int) -> Chain:
        """Return the chain that a client is shown: always the same one."""
        return self.chains[client % len(self.chains)]

    def fits(self, client: int, block: int, stake_gwei: int) -> bool:
        """Whether a receipt of that stake would say that the standing bond covers it."""
        shown_gwei = 0 if self.hides else self.find_chain(client).count_open(block)
        return shown_gwei + stake_gwei <= self.bond_gwei

    def heed(self, pledge: Pledge) -> None:
        """Keep as many chains as the provider wants, and say of them what it wants."""
        self.hides = pledge.hides
        first = self.chains[0]
        while len(self.chains) < pledge.chains:
            self.forks += 1
            self.chains.append(first.fork(self.forks))
        del self.chains[max(1, pledge.chains) :]

    def join_chains(self) -> None:
        """Let all chains go on from the first one, which has been published up to here."""
        first = self.chains[0]
        self.published = first.number
        for index in range(1, len(self.chains)):
            self.forks += 1
            self.chains[index] = first.fork(self.forks)

    def sign(self, client: int, block: int, stake_gwei: int, window: int) -> Signed:
        """Return the receipt of an answer that was issued in a block."""
        chain, last = self.find_chain(client), block + window
        chain.count_open(block)
        released = chain.total if self.hides else chain.released
        number = chain.number
        chain.number += 1
        chain.total += stake_gwei
        chain.running.append((last, chain.total))
        self._running.append((last, stake_gwei))
        self.open_gwei += stake_gwei
        while self._running[0][0] < block:
            self.open_gwei -= self._running.popleft()[1]
        total = chain.total
        return Signed(chain.name, chain.born, number, block, last, stake_gwei, total, released)
