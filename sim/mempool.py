"""A mempool, where calls to the referee wait for a block, and where schemes see and overtake them.

A scheme may put calls of its own into every block. A refused call takes a block, and costs its
sender gas.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from contracts.model.types import Address, Terms
from offchain.disputes.game import Played
from offchain.disputes.planner import get_stage
from offchain.disputes.referee import Call, Outcome
from offchain.disputes.tournament import Tournament
from offchain.errors import RefereeError, Reverted
from sim.relay import Relay
from sim.scheme import LiveView, Scheme
from sim.witness import Witness


class Mempool(Relay):
    """The mempool of one job, between the players, the schemes and a witnessed referee.

    Args:
        witness: the referee.
        job_id: the number that the job will have.
        terms: the job's terms.
        schemes: the actors that see every call before it is made.

    Attributes:
        played: the schemes' accepted calls.
    """

    def __init__(
        self, witness: Witness, job_id: int, terms: Terms, schemes: Sequence[Scheme]
    ) -> None:
        super().__init__(witness)
        self._schemes = schemes
        self._view = LiveView(witness, Tournament(job_id, terms, witness.arithmetic))
        self.played: list[Played] = []

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call, once the schemes let it through."""
        pending = Call(name, sender, args, value_wei)
        if name != "open_job":
            blocks = sum(scheme.hold(self._view, pending) for scheme in self._schemes)
            if blocks:
                super().mine(blocks)
            for scheme in self._schemes:
                self._make(scheme, scheme.precede(self._view, pending))
        outcome = self._send(pending)
        self.act()
        return outcome

    def _send(self, call: Call) -> Outcome:
        return super().transact(call.name, *call.args, sender=call.sender, value_wei=call.value_wei)

    def mine(self, blocks: int) -> None:
        """Let time pass, up to the first block in which a scheme does something."""
        for _ in range(blocks):
            super().mine(1)
            if self.act():
                return

    def act(self) -> bool:
        """Make the calls that each scheme wants to make now; return whether there was one."""
        return sum(self._make(scheme, scheme.act(self._view)) for scheme in self._schemes) > 0

    def _make(self, scheme: Scheme, calls: Iterable[Call]) -> bool:
        """Make the calls of a scheme, as far as they are accepted; return whether one was."""
        has_made = False
        names = {member.address: member.name for member in scheme.members}
        for call in calls:
            try:
                outcome = self._send(call)
            except (RefereeError, Reverted):
                continue
            stage, owner = get_stage(call), names[call.sender]
            self.played.append(Played(stage, owner, call.name, outcome.events, outcome.receipt))
            has_made = True
        return has_made
