"""The purse of an account: what its demands of the last days have cost, upon all promises."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from moot.contracts.model.answers import hash_subject
from moot.contracts.model.types import Address
from moot.contracts.reasons import PromiseStatus
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.availability.demands import Place, Promised, cost_demand

BUDGET_BLOCKS = 50_400
"""One budget is for the demands of so many blocks, about seven days."""


@dataclass
class Purse:
    """What demands upon promises have cost; deposits that come back do not count.

    Attributes:
        address: whose demands they are.
    """

    address: Address
    _paid: dict[tuple[Digest, Place], tuple[int, int]] = field(default_factory=dict)

    def pay(self, promise_id: Digest, place: Place, block: int, deposit_wei: int) -> None:
        """Note a demand, unless it is noted already."""
        self._paid.setdefault((promise_id, place), (block, deposit_wei))

    def see(self, views: Iterable[Promised]) -> None:
        """Note what promises show: own demands, and that deposits come back where one is broken.

        What was noted and is not there was refused.
        """
        for view in views:
            name = hash_subject(view.subject)
            is_broken = view.promise.status is PromiseStatus.BROKEN
            own = [] if is_broken else view.list_own(self.address)
            for key in [it for it in self._paid if it[0] == name and it[1] not in own]:
                del self._paid[key]
            for place in own:
                self.pay(name, place, view.block, view.promise.deposit_wei)

    def count_wei(self, block: int, price_wei: int, but: Digest = b"") -> int:
        """Return what all demands but those upon one promise have cost, as of a block."""
        first = block - BUDGET_BLOCKS
        return sum(
            cost_demand(deposit_wei, price_wei)
            for (name, _), (made, deposit_wei) in self._paid.items()
            if made > first and name != but
        )
