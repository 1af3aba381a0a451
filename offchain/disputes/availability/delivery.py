"""Who promises the result of a job and hands it over, and who takes back a premium.

Whoever shares the reward can promise the state that the winning claim ends with (`register`). A
`Sharer` that has shows what is demanded of it, and takes its part of the premium. What the client
lacks, an `Asker` of `availability.py` demands; the `Buyer` calls for the result, and takes back a
premium that nobody has earned.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from moot.contracts.model.answers import Demand, Subject
from moot.contracts.model.delivery import Premium
from moot.contracts.model.types import Address
from moot.contracts.reasons import PremiumStatus, PromiseStatus, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.disputes.availability.demands import (
    ANSWER_GAS,
    Place,
    Promised,
    list_answers,
    show_tensor,
)
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.port import Call

LEAST_ANSWER_BLOCKS = 4
"""Whoever promises needs so many blocks to see a demand and to get its answer into one."""
LOOKS = 8
"""Whoever has promised looks so many times within the time that a demand is to be answered in."""
SHARER_GAS = 300_000
"""What a sharer's own calls cost at most, in gas: to register, and to take its part."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the chain shows of a premium, and of the result that it is for.

    Attributes:
        subject: the job.
        premium: the premium.
        status: how the job stands.
        promised: the promise of the result, once somebody has registered.
        registered: those who have, in their order.
        shares: those of them that have not taken their part yet, as far as they were asked for.
        block: the block of the next call.
    """

    subject: Subject
    premium: Premium
    status: Status
    promised: Promised | None
    registered: Sequence[Address]
    shares: AbstractSet[Address]
    block: int

    @property
    def can_be_promised(self) -> bool:
        """Whether a sharer of the winning claim can still register."""
        if self.status is not Status.WON or self.premium.status is PremiumStatus.WITHDRAWN:
            return False
        if self.promised is None:
            return self.premium.last_block == 0 or self.block <= self.premium.last_block
        promise = self.promised.promise
        return promise.status is PromiseStatus.KEPT and self.block <= promise.last_block

    def is_due(self, address: Address) -> bool:
        """Whether an account has promised the result, and may have to answer or be paid."""
        is_kept = self.promised is not None and self.promised.promise.status is PromiseStatus.KEPT
        return is_kept and address in self.shares

    def find_next_look(self) -> int:
        """Return the first block for whose calls whoever has promised the result looks again.

        It is the next one while demands wait, and whenever the premium may be due.
        """
        idle_blocks = max(1, self.premium.answer_blocks // LOOKS)
        if self.promised is None or self.promised.list_open():
            return self.block + 1
        return max(
            self.block + 1, min(self.block + idle_blocks, self.promised.promise.last_block + 1)
        )

    def is_over(self, address: Address) -> bool:
        """Whether there is nothing more to do for an account that has promised the result."""
        if self.promised is None:
            return self.premium.status is PremiumStatus.WITHDRAWN
        is_broken = self.promised.promise.status is PromiseStatus.BROKEN
        return is_broken or (address in self.registered and address not in self.shares)


@dataclass(frozen=True, slots=True)
class Sharer:
    """A sharer of the winning claim that has promised the result.

    Attributes:
        address: the account that sends the calls.
        find: returns the call that shows a chunk of the final state.
        most: so many answers are given at once at most, which the premium still pays for.
    """

    address: Address
    find: Callable[[Place], Move]
    most: int | None = None

    def act(self, view: Delivery) -> Iterator[Call]:
        """Yield the answers whose turn it is, and the end."""
        if not view.is_due(self.address):
            return
        assert view.promised is not None, "it is due"
        waiting, subject = view.promised.list_open(), view.promised.subject
        own = self._choose(view, waiting)[: self.most]
        yield from list_answers(view.promised, self.address, own, self.find)
        if view.block > view.promised.promise.last_block and not waiting:
            yield Call("take", self.address, (subject,))

    def _choose(
        self, view: Delivery, waiting: Sequence[tuple[Place, Demand]]
    ) -> list[tuple[Place, Demand]]:
        """Return the demands that this sharer answers now, so that few pay for the same answer.

        The first to register answers at once. Each other waits a block longer than the one before
        it, half of the time to answer at most.
        """
        place, whole = view.registered.index(self.address), view.premium.answer_blocks
        if place == 0:
            return [*waiting]
        left_blocks = max(whole - place, -(-whole // 2))
        return [it for it in waiting if it[1].deadline - view.block < left_blocks]


@dataclass(frozen=True, slots=True)
class Buyer:
    """The client that has bonded a premium. What it lacks of the result, an `Asker` demands.

    Attributes:
        address: the account that sends the calls.
    """

    address: Address

    def act(self, view: Delivery) -> Iterator[Call]:
        """Yield the call that is due: for the result, or to take the premium back."""
        premium, promised = view.premium, view.promised
        if premium.status is PremiumStatus.OFFERED and view.status is not Status.OPEN:
            is_past = 0 < premium.last_block < view.block
            if view.status is not Status.WON or is_past:
                yield Call("withdraw", self.address, (view.subject,))
            elif not premium.last_block:
                yield Call("call_for", self.address, (view.subject,))
        elif promised is not None:
            promise = promised.promise
            if promise.status is PromiseStatus.BROKEN and promise.bond_wei:
                yield Call("take", self.address, (promised.subject,))


def count_payable(view: Delivery, address: Address, spent_wei: int, price_wei: int) -> int:
    """Return how many answers a sharer may still give, so that it never pays more than its part.

    Each may be overtaken by another's, who then has the deposit.

    Args:
        view: what the chain shows.
        address: the sharer.
        spent_wei: what the gas of its calls about this result has cost.
        price_wei: what a unit of gas costs now.
    """
    if view.promised is None:
        return 0
    promise = view.promised.promise
    shown = sum(it == address for it in view.promised.authors.values())
    part_wei = promise.bond_wei // max(1, promise.sharers)
    left_wei = part_wei + shown * promise.deposit_wei - spent_wei
    return max(0, left_wei // (ANSWER_GAS * max(1, price_wei)))


def register(sender: Address, view: Delivery, history: Tree) -> Call:
    """Return the call that promises the last state of a history.

    The sender has not collected its share of the reward before.
    """
    last = history.count - 1
    shown = (history.top, history.node(0, last), tuple(history.proof(last)))
    return Call("register", sender, (view.subject, *shown))


def find_result(roots: Sequence[Digest], load: Callable[[int], Array], place: Place) -> Move:
    """Return the call that shows a chunk of a final state; the subject comes before its arguments.

    Args:
        roots: the roots of the state's tensors.
        load: returns a tensor, by its place.
        place: what is demanded.
    """
    return show_tensor(load(place[1]), Tree(Tag.STATE_NODE, roots), place)


def explain_weakness(premium: Premium, sharers: int, gas_price_wei: int) -> str:
    """Return why a sharer should not promise a result for a premium, or nothing."""
    if premium.answer_blocks < LEAST_ANSWER_BLOCKS:
        return (
            f"it gives {premium.answer_blocks} blocks to answer, fewer than {LEAST_ANSWER_BLOCKS}"
        )
    part_wei, cost_wei = premium.premium_wei // max(1, sharers), SHARER_GAS * gas_price_wei
    if part_wei < cost_wei:
        return f"a part of it is {part_wei} wei, and to earn it costs up to {cost_wei}"
    return ""
