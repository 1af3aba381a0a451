"""The referee as adversaries see it: all of it, at once, for nothing."""

from collections.abc import Iterator, Sequence

from moot.contracts.model.types import Address, Event
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.port import Call, ModelReferee
from tests.arena.chain import Chain


class Court(ModelReferee):
    """The referee of a simulated chain, as far as it is read."""

    def __init__(self, chain: Chain) -> None:
        super().__init__({})
        self._chain, self.store = chain, chain.ledger.store
        self._views: dict[tuple[Address, int], ChainView] = {}

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
            self._views[key] = ChainView(self, known)
        yield from party.act(self._views[key].look())
