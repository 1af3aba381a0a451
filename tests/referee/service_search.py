"""The search of all states of a small service that its parties can bring about.

A provider with a few coins may stake, let leave, take, sign and publish receipts; a client may fund
and take back; challengers, one of them the provider's own, challenge every receipt that was signed,
win or lose, and show every fault that there is. Everybody does what he can in every order, and
blocks pass by one. The times in which money leaves and receipts end are a few blocks here, so that
the graph is finite: the states that differ only in what lies in the past are one.

In every state all invariants hold, and so does what a client relies on: of the receipts that are
open and that no fault concerns, those that it would have taken are covered, whatever was signed for
others, or a fault can be shown.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

from moot.contracts.model import receipts, service
from moot.contracts.model.bonds import Service
from moot.contracts.model.challenges import call
from moot.contracts.model.ledger import end_match
from moot.contracts.model.receipts import Receipt, Voucher, find_conflict, hash_announcement
from moot.contracts.model.service_invariants import (
    ServiceStep,
    check_service,
    check_service_step,
    copy_service,
    is_same,
)
from moot.contracts.model.types import MIN_BOND_WEI, NOBODY, Address, Message, Store
from moot.contracts.reasons import Outcome, Revert, Status
from moot.offchain.commitments.tree import Digest
from tests.referee.services import (
    CHALLENGERS,
    CLIENT,
    PROVIDER,
    SALT,
    STRANGER,
    TRUTH,
    make_receipt,
    sign,
)

BOND = MIN_BOND_WEI
WINDOW, DEFUND = 2, 1
"""The blocks in which a receipt can be challenged, and in which balances leave."""


@contextmanager
def hasty() -> Iterator[None]:
    """Let money leave, and receipts end, after a few blocks."""
    places = (
        patch.object(receipts, "MAX_WINDOW_BLOCKS", WINDOW),
        patch.object(service, "UNSTAKE_BLOCKS", WINDOW),
        patch.object(service, "DEFUND_BLOCKS", DEFUND),
        patch("moot.contracts.model.service_invariants.MAX_WINDOW_BLOCKS", WINDOW),
        patch("moot.contracts.model.service_invariants.DEFUND_BLOCKS", DEFUND),
    )
    for place in places:
        place.start()
    try:
        yield
    finally:
        for place in places:
            place.stop()


@dataclass(frozen=True, slots=True)
class World:
    """A state: the service, the block, and what was signed.

    `taken` says of each receipt whether a client would have taken it, which has seen what stands;
    `drawn` of each challenge of which receipt it was, and how much of the bond went into it.
    """

    service: Service
    block: int
    signed: tuple[Receipt, ...] = ()
    taken: tuple[bool, ...] = ()
    drawn: tuple[tuple[int, int], ...] = ()
    staked: int = 0
    funded: int = 0


@dataclass(slots=True)
class Found:
    """The results of a search."""

    states: int = 0
    calls: int = 0
    refused: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    covered: int = 0
    faulty: int = 0


@dataclass(slots=True)
class Search:
    """The search of all states of a service.

    Args:
        coins: how many bonds the provider has.
        most_signed: how many receipts it signs at most.
        last_block: the block after which nothing is done any more.
        has_client: whether a client funds a balance, too.
        has_batches: whether the provider publishes, too.
    """

    coins: int = 2
    most_signed: int = 2
    last_block: int = 6
    has_client: bool = False
    has_batches: bool = False
    found: Found = field(default_factory=Found)

    def run(self) -> Found:
        """Visit every state, and check it."""
        start = World(Service("0x" + "c2" * 20, Store(1, "0x" + "c1" * 20)), 1)
        seen, stack = {self._get_key(start)}, [start]
        while stack:
            world = stack.pop()
            self._visit(world)
            for after in self._list_successors(world):
                key = self._get_key(after)
                if key not in seen:
                    seen.add(key)
                    stack.append(after)
        self.found.states = len(seen)
        return self.found

    def _visit(self, world: World) -> None:
        """Check the state, and what a client may rely on in it."""
        check_service(world.service)
        faults = [
            pair
            for pair in combinations(world.signed, 2)
            if find_conflict(*sorted(pair, key=lambda it: it.number))
        ]
        if faults:
            self.found.faulty += 1
            return
        # The newest that a client has taken covers all that had not ended, its own among them: what
        # is left of the bond is enough for all that were not challenged, unless the bond has gone
        # into matches about others, or into a second one about one, of which half is burned.
        live = [i for i, it in enumerate(world.signed) if it.last_block >= world.block]
        for newest in (i for i in live if world.taken[i]):
            older = [i for i in live if world.signed[i].number <= world.signed[newest].number]
            assert sum(world.signed[i].stake_wei for i in older) <= world.signed[newest].open_wei
            others = Counter(i for i, _ in world.drawn)
            gone = sum(wei for i, wei in world.drawn if i not in older or others[i] > 1)
            untouched = sum(world.signed[i].stake_wei for i in older if not others[i])
            assert untouched <= world.service.get_stake(PROVIDER).all_wei + gone
            self.found.covered += 1

    def _list_successors(self, world: World) -> Iterator[World]:
        """Yield all states that a call, a signature or a block makes of one."""
        if world.block > self.last_block:
            return
        yield replace(world, block=world.block + 1)
        yield from self._sign(world)
        for name, sender, args, value in self._list_calls(world):
            after = self._make(world, name, sender, args, value)
            if after is not None:
                yield after
        yield from self._end_matches(world)

    def _sign(self, world: World) -> Iterator[World]:
        """Let the provider sign a receipt: the next one, or one of a second chain."""
        if len(world.signed) >= self.most_signed:
            return
        taken = [it.number for it in world.signed]
        last = max(world.signed, key=lambda it: it.number, default=None)
        number = last.number + 1 if last else 0
        total = last.total_wei if last else 0
        ended = [it.total_wei for it in world.signed if it.last_block < world.block]
        for released in {0, max(ended, default=0), total}:
            for stake in (BOND, 2 * BOND):
                yield self._add(world, number, stake, total + stake, released)
        if taken:
            yield self._add(world, taken[-1], BOND, BOND, 0)

    def _add(self, world: World, number: int, stake: int, total: int, released: int) -> World:
        receipt = make_receipt(
            number=number,
            stake_wei=stake,
            total_wei=total,
            released_wei=released,
            issued_block=world.block,
            last_block=world.block + WINDOW,
            window_blocks=1,
            clock_blocks=1,
            increment_blocks=1,
            price_wei=len(world.signed),
        )
        is_covered = receipt.open_wei <= world.service.get_bond(PROVIDER, receipt.last_block)
        taken = (*world.taken, is_covered)
        return replace(world, signed=(*world.signed, receipt), taken=taken)

    def _list_calls(self, world: World) -> Iterator[tuple[str, Address, tuple[Any, ...], int]]:
        """Yield the calls that anybody could make, also some that must be refused."""
        if world.staked < self.coins:
            yield "stake", PROVIDER, (), BOND
        yield "unstake", PROVIDER, (BOND,), 0
        yield "take_stake", PROVIDER, (), 0
        if world.signed and self.has_batches:
            yield "publish", PROVIDER, (0, 1, TRUTH), 0
        for receipt in world.signed:
            by = CHALLENGERS[0]
            signature = _sign(world.service, receipt.hash(world.service.domain), PROVIDER)
            value = max(BOND, receipt.stake_wei)
            yield "challenge", by, (receipt, signature, TRUTH, SALT), value
        for pair in combinations(world.signed, 2):
            first, second = sorted(pair, key=lambda it: it.number)
            domain = world.service.domain
            signatures = [_sign(world.service, it.hash(domain), PROVIDER) for it in (first, second)]
            yield "prove_conflict", STRANGER, ((first, second), *signatures, SALT), 0
        if self.has_client:
            yield from self._list_payments(world)

    def _list_payments(self, world: World) -> Iterator[tuple[str, Address, tuple[Any, ...], int]]:
        if world.funded < 2:
            yield "fund", CLIENT, (PROVIDER,), 1
        yield "defund", CLIENT, (PROVIDER, 1), 0
        yield "take_funds", CLIENT, (PROVIDER,), 0
        for total in (1, 2, 3):
            digest = Voucher(CLIENT, PROVIDER, total).hash(world.service.domain)
            yield "redeem", PROVIDER, (CLIENT, total, _sign(world.service, digest, CLIENT)), 0

    def _make(
        self, world: World, name: str, sender: Address, args: tuple[Any, ...], value: int
    ) -> World | None:
        """Make a call, announced a block before, and check it; None if it is refused."""
        before = copy_service(world.service)
        for subject in _list_subjects(before, name, args):
            digest = hash_announcement(before.domain, sender, subject, SALT)
            before.announced[digest] = world.block - 1
        after = copy_service(before)
        message = Message(sender, value, world.block)
        self.found.calls += 1
        try:
            events = service.call(after, name, message, *args)
        except Revert:
            self.found.refused += 1
            assert is_same(before, after)
            return None
        check_service_step(ServiceStep(before, name, message, args, after, events))
        self.found.accepted[name] += 1
        staked = world.staked + (name == "stake")
        drawn = world.drawn
        if name == "challenge":
            bond = after.challenges.jobs[len(before.challenges.jobs)].terms.bond_wei
            drawn = (*drawn, (world.signed.index(args[0]), bond))
        funded = world.funded + (name == "fund")
        return replace(world, service=after, staked=staked, funded=funded, drawn=drawn)

    def _end_matches(self, world: World) -> Iterator[World]:
        """Let each challenge that goes on be won by either side, and its job be settled."""
        for job_id, job in world.service.challenges.jobs.items():
            if job.status is not Status.OPEN:
                continue
            members = (PROVIDER, CHALLENGERS[0])
            for loser, winner in (members, members[::-1]):
                after = copy_service(world.service)
                _decide(after.challenges, job_id, loser, winner)
                check_service(after)
                yield replace(world, service=after)

    def _get_key(self, world: World) -> int:
        """Return what tells states apart."""
        it = world.service
        parts = (
            world.block,
            world.signed,
            world.taken,
            world.drawn,
            world.staked,
            world.funded,
            tuple(sorted(it.stakes.items(), key=lambda e: e[0])),
            tuple(sorted(it.funds.items(), key=lambda e: e[0])),
            tuple(sorted(it.redeemed.items())),
            tuple(sorted(it.published.items())),
            tuple(sorted(it.challenged.items())),
            tuple((job_id, job.status, job.defeated) for job_id, job in it.challenges.jobs.items()),
            frozenset((k, m.standing) for k, m in it.challenges.members.items()),
        )
        return hash(parts)


_signatures: dict[tuple[Digest, Address], bytes] = {}


def _sign(_: Service, digest: Digest, signer: Address) -> bytes:
    """Return a signature, made once."""
    key = digest, signer
    if key not in _signatures:
        _signatures[key] = sign(digest, signer)
    return _signatures[key]


def _list_subjects(
    it: Service, name: str, args: tuple[Any, ...]
) -> Iterator[tuple[Digest, Digest]]:
    """Yield what a call has to announce."""
    if name == "challenge":
        yield args[0].hash(it.domain), args[2]
    if name == "prove_conflict":
        yield args[0][0].hash(it.domain), args[0][1].hash(it.domain)


def _decide(store: Store, job_id: int, loser: Address, winner: Address) -> None:
    """Let a match be lost by one side and its job be settled, by the referee's own functions."""
    pair = next(pair for pair in store.matches if pair.job_id == job_id)
    sides = (pair.first, pair.second)
    rivals = tuple(store.members[job_id, it] for it in sides)
    outcome = Outcome(sides.index(winner))
    end_match(store, pair, outcome, rivals=rivals)  # type: ignore[arg-type]
    claim = store.claims[job_id, store.members[job_id, winner].key]
    block = store.jobs[job_id].window_end + 1
    call(store, "settle", Message(NOBODY, 0, block), job_id, claim.top)
    assert loser != winner
