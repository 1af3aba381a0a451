"""The referee as adversaries see it: all of it, at once, for nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

from moot.contracts.model.checks import find_claim, get_member
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.types import Address, Claim, Event, Job, Member
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import Status
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.port import Call
from tests.arena.chain import Chain


class Court:
    """The referee of a simulated chain, as far as it is read; see Referee."""

    arithmetic = ORDERED

    def __init__(self, chain: Chain) -> None:
        self._chain, self._store = chain, chain.ledger.store
        self._views: dict[tuple[Address, int], ChainView] = {}

    def job(self, job_id: int) -> Job:
        """See Referee."""
        return self._store.jobs[job_id]

    def member(self, job_id: int, address: Address) -> Member:
        """See Referee."""
        return get_member(self._store, job_id, address)

    def claim(self, job_id: int, top: Digest) -> Claim | None:
        """See Referee."""
        return find_claim(self._store, job_id, top)

    def debt(self, job_id: int, address: Address) -> int:
        """See Referee."""
        job = self.job(job_id)
        is_open = job.status is Status.OPEN
        return 0 if is_open else calculate_debt(self._store, job_id, job, address)

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """See Referee."""
        return hash_commitment(self._store, job_id, sender, top, salt)

    def events(self, job_id: int) -> Sequence[Event]:
        """See Referee."""
        return [event for _, event in self._chain.logs.get(job_id, ())]

    def block_number(self) -> int:
        """See Referee."""
        return self._chain.head.number

    def plan(self, name: str, party: Party, job_id: int) -> Iterator[Call]:
        """Yield what a party would do in a job now."""
        key = name, job_id
        if key not in self._views:
            known = Tournament(job_id, self.job(job_id).terms)
            referee: Any = self
            self._views[key] = ChainView(referee, known)
        yield from party.act(self._views[key].look())
