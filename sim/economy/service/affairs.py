"""An affair: a request that was answered with a receipt, until nothing more can come of it."""

from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.facts import Job
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.signed import Signed
from moot.sim.economy.strategies.base import HONEST

LIE, CONFLICT, UNLISTED, FRIVOLOUS = "lie", "conflict", "unlisted", "frivolous"
"""What a receipt was taken to the service for; the last is a lie of the challenger's."""


@dataclass(slots=True)
class Tally:
    """What calls about a request have used and cost, and what it has changed of wealth.

    Attributes:
        gas, fees_gwei, burned_gwei: of everybody.
        client_gwei: of the client, without the value of the answer.
        provider_gwei: of the provider.
    """

    gas: int = 0
    fees_gwei: int = 0
    burned_gwei: int = 0
    client_gwei: int = 0
    provider_gwei: int = 0


@dataclass(slots=True)
class Affair:
    """A receipt, and what has become of it.

    Attributes:
        job: as everybody sees it.
        client: who asked.
        house: of the provider that signed.
        signed: the receipt.
        conduct: what the provider did.
        case: which case a challenge of it is.
        tokens: of the answer.
        shown_bytes: what the client was shown.
        is_covered: whether all receipts that its provider had open were within the bond.
        is_relied: whether the client has relied on the answer.
        is_paid: whether it has given a voucher for it.
        checker: who has computed the answer again, if anybody has.
        finding: what the receipt was taken to the service for.
        challenged: the block of its first challenge.
        is_challenged: whether a match about it goes on, or its provider has lost one.
        lost_gwei: what its provider has lost by it.
        pending: how many things are to come.
        tally: what was spent, gained and lost by it.
    """

    job: Job
    client: Agent
    house: House
    signed: Signed
    conduct: str
    case: int
    tokens: int
    shown_bytes: int = 0
    is_covered: bool = True
    is_relied: bool = False
    is_paid: bool = False
    checker: Agent | None = None
    finding: str | None = None
    challenged: int | None = None
    is_challenged: bool = False
    lost_gwei: int = 0
    pending: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def is_lie(self) -> bool:
        """Whether the answer is another than what is agreed."""
        return self.conduct != HONEST

    @property
    def outcome(self) -> str:
        """What the client got: nothing that it would rely on, a right answer, or a wrong one."""
        if not self.is_relied:
            return "void"
        return "wrong" if self.is_lie else "right"
