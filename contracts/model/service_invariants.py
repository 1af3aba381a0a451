"""What is true of a service after every call, each a sentence and a function.

Tests, the exhaustive search and simulations share them. What is true of the challenges, whose rules
are the referee's, is in `store_invariants.py` and `step_invariants.py`.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

from moot.contracts.model.abi import pack_balance
from moot.contracts.model.bonds import NOTHING, Balance, Service
from moot.contracts.model.receipts import MAX_WINDOW_BLOCKS, Receipt
from moot.contracts.model.service import DEFUND_BLOCKS
from moot.contracts.model.step_invariants import get_changes
from moot.contracts.model.store_invariants import require_all
from moot.contracts.model.types import (
    MIN_BOND_WEI,
    PRIZE_DIVISOR,
    Address,
    Event,
    Message,
    copy_store,
)
from moot.contracts.reasons import Status

_FAULTS = frozenset({"refute_answer", "prove_conflict", "prove_unlisted"})
_KEPT = ("stakes", "funds", "redeemed", "published", "batches", "challenged", "announced")


@dataclass(frozen=True, slots=True)
class ServiceStep:
    """One accepted call: the service before and after it, and what it announced."""

    before: Service
    name: str
    message: Message
    args: tuple[Any, ...]
    after: Service
    events: tuple[Event, ...]

    @property
    def provider(self) -> Address:
        """Whose bond the call may change: the sender's, or that of whoever signed a receipt."""
        if self.name == "challenge" or self.name in _FAULTS:
            shown = self.args[0]
            receipt = shown if isinstance(shown, Receipt) else shown[0]
            return str(receipt.provider)
        return self.message.sender

    @property
    def bonds(self) -> tuple[Balance, Balance]:
        """That bond, before and after."""
        return self.before.get_stake(self.provider), self.after.get_stake(self.provider)

    @property
    def paid_wei(self) -> int:
        """What the call has paid to its sender, as its event says."""
        amounts = {"StakeTaken": 1, "FundsTaken": 2, "Redeemed": 2, "Faulted": 4}
        paid = (event.args[amounts[event.name]] for event in self.events if event.name in amounts)
        return sum(map(int, map(str, paid)))

    @property
    def entered_wei(self) -> int:
        """What the call has brought into a match of either member's bond."""
        if self.name != "challenge":
            return 0
        return self.after.challenges.jobs[len(self.before.challenges.jobs)].terms.bond_wei


def copy_service(service: Service) -> Service:
    """Return a service that remembers the same, and goes its own way."""
    other = Service(service.address, copy_store(service.challenges))
    for field in fields(Service):
        if field.init and field.name not in {"address", "challenges"}:
            setattr(other, field.name, copy(getattr(service, field.name)))
    return other


def is_same(before: Service, after: Service) -> bool:
    """Whether two services remember the same and hold the same: a refused call changes nothing."""
    names = (*_KEPT, "balance_wei", "burned_wei")
    tables = ("jobs", "members", "claims", "matches", "balance_wei", "burned_wei")
    return all(getattr(before, name) == getattr(after, name) for name in names) and all(
        getattr(before.challenges, name) == getattr(after.challenges, name) for name in tables
    )


# At all times.


def the_balance_is_what_is_kept(service: Service) -> bool:
    """The service holds to the wei what bonds and balances say, whether it stands or leaves."""
    kept = [*service.stakes.values(), *service.funds.values()]
    return service.balance_wei == sum(balance.all_wei for balance in kept)


def nobody_owes(service: Service) -> bool:
    """No bond and no balance is below nothing, and all fit into the contract's words."""
    kept = [*service.stakes.values(), *service.funds.values()]
    try:
        return all(pack_balance(balance) < 1 << 256 for balance in kept)
    except AssertionError:
        return False


def who_is_at_fault_has_nothing(service: Service) -> bool:
    """A provider at fault has no bond, and no client's balance is at fault."""
    at_fault = [bond for bond in service.stakes.values() if bond.is_at_fault]
    is_empty = all(bond == Balance(is_at_fault=True) for bond in at_fault)
    return is_empty and not any(balance.is_at_fault for balance in service.funds.values())


def batches_lie_below_the_next_number(service: Service) -> bool:
    """Every batch begins with a number that counts as published, the first with 0."""
    firsts: dict[Address, set[int]] = {}
    for provider, first in service.batches:
        firsts.setdefault(provider, set()).add(first)
    return firsts.keys() == service.published.keys() and all(
        min(firsts[it]) == 0 and max(firsts[it]) < service.published[it] for it in firsts
    )


def receipts_have_jobs_of_their_own(service: Service) -> bool:
    """Every receipt that was challenged has a job, which no other receipt has."""
    numbers = list(service.challenged.values())
    are_there = all(number in service.challenges.jobs for number in numbers)
    return are_there and len(set(numbers)) == len(numbers)


def closed_challenges_have_burned(service: Service) -> bool:
    """A challenge that is over has cost somebody a bond, of which half at least is burned."""
    least_wei = 0
    for job in service.challenges.jobs.values():
        if job.status is Status.OPEN:
            continue
        if job.status is Status.VOID or job.is_undecided or job.defeated == 0:
            return False
        least_wei += job.terms.bond_wei - job.terms.prize_wei
    return service.challenges.burned_wei >= least_wei


# Of every accepted call.


def value_is_conserved(step: ServiceStep) -> bool:
    """What comes in is held, paid to the sender, burned, or in a match, to the wei."""
    before, after = step.before, step.after
    held_wei = after.balance_wei - before.balance_wei
    burned_wei = after.burned_wei - before.burned_wei
    entered_wei = after.challenges.balance_wei - before.challenges.balance_wei
    back_wei = 0
    if step.name == "challenge":
        back_wei = step.message.value_wei - step.entered_wei
    gone_wei = step.paid_wei + burned_wei + entered_wei + back_wei
    return step.message.value_wei == held_wei + gone_wei and entered_wei == 2 * step.entered_wei


def nobody_touches_what_is_anothers(step: ServiceStep) -> bool:
    """A call changes the bond of one provider and the balance of one client and provider."""
    bonds = get_changes(step.before.stakes, step.after.stakes)
    if not bonds <= {step.provider}:
        return False
    own: set[Any] = set()
    if step.name in {"fund", "defund", "take_funds"}:
        own = {(step.message.sender, step.args[0])}
    elif step.name == "redeem":
        own = {(step.args[0], step.message.sender)}
    changes = get_changes(step.before.funds, step.after.funds)
    changes |= get_changes(step.before.redeemed, step.after.redeemed)
    return changes <= own


def a_bond_stands_as_long_as_it_was_said(step: ServiceStep) -> bool:
    """No call lowers what stands up to a block that a receipt of now can have, but by a loss."""
    old, new, block = *step.bonds, step.message.block
    lost_wei = old.all_wei if step.name in _FAULTS else step.entered_wei
    for last in {block, old.last_block, block + MAX_WINDOW_BLOCKS}:
        if not block <= last <= block + MAX_WINDOW_BLOCKS:
            continue
        stands = [service.get_bond(step.provider, last) for service in (step.before, step.after)]
        if stands[1] < stands[0] - lost_wei:
            return False
    return new.all_wei >= 0


def only_losses_take_what_stands(step: ServiceStep) -> bool:
    """What a bond has in all shrinks by what it loses, or by what had left before this block."""
    old, new = step.bonds
    left_wei = old.leaving_wei if step.message.block > old.last_block else 0
    if step.name in _FAULTS:
        return new == Balance(is_at_fault=True)
    if step.name == "take_stake":
        return 0 < left_wei == old.all_wei - new.all_wei == step.paid_wei
    staked_wei = step.message.value_wei if step.name == "stake" else 0
    return new.all_wei == old.all_wei + staked_wei - step.entered_wei


def what_stands_is_lost_first(step: ServiceStep) -> bool:
    """A challenge takes of what leaves only where nothing stands any more."""
    old, new = step.bonds
    is_lost = step.name == "challenge" and new.leaving_wei != old.leaving_wei
    return not is_lost or new.standing_wei == 0


def a_challenge_costs_the_stake(step: ServiceStep) -> bool:
    """A match is about the stake and the least bond at least, or about all that there is."""
    if step.name != "challenge":
        return True
    wanted_wei = max(MIN_BOND_WEI, step.args[0].stake_wei)
    bond_wei = step.entered_wei
    is_due = bond_wei == min(wanted_wei, step.bonds[0].all_wei)
    return is_due and bond_wei >= MIN_BOND_WEI and step.message.value_wei == wanted_wei


def a_fault_burns_half(step: ServiceStep) -> bool:
    """Nothing is burned but by a fault: half of the bond, and the other half is the sender's."""
    burned_wei = step.after.burned_wei - step.before.burned_wei
    if step.name not in _FAULTS:
        return burned_wei == 0
    lost_wei = step.bonds[0].all_wei
    return step.paid_wei == lost_wei // PRIZE_DIVISOR and burned_wei == lost_wei - step.paid_wei


def faults_stay(step: ServiceStep) -> bool:
    """A provider that was at fault once stays at fault, and backs nothing any more."""
    at_fault = {it for it, bond in step.before.stakes.items() if bond.is_at_fault}
    is_idle = step.provider not in at_fault or step.name not in {"stake", "challenge"}
    return is_idle and all(step.after.stakes[it].is_at_fault for it in at_fault)


def vouchers_pay_once(step: ServiceStep) -> bool:
    """What a provider has been paid grows by what it is paid, up to what the client has signed."""
    if step.name != "redeem":
        return step.before.redeemed == step.after.redeemed
    client, total_wei, _ = step.args
    place = (client, step.message.sender)
    after_wei = step.after.redeemed[place]
    is_paid = after_wei == step.before.redeemed.get(place, 0) + step.paid_wei
    return is_paid and step.paid_wei > 0 and after_wei <= total_wei


def balances_stand_a_day(step: ServiceStep) -> bool:
    """What a client takes back had begun to leave a day of blocks before, or longer."""
    if step.name == "defund":
        place = (step.message.sender, step.args[0])
        return step.after.funds[place].last_block == step.message.block + DEFUND_BLOCKS
    if step.name == "take_funds":
        old = step.before.funds.get((step.message.sender, step.args[0]), NOTHING)
        has_left = step.message.block > old.last_block
        return has_left and 0 < old.leaving_wei == step.paid_wei
    return True


def numbers_are_published_once(step: ServiceStep) -> bool:
    """A batch stays as it is, and a provider's next one begins where its last has ended."""
    for place in get_changes(step.before.batches, step.after.batches):
        is_next = place == (step.message.sender, step.before.published.get(place[0], 0))
        if step.name != "publish" or not is_next or place in step.before.batches:
            return False
    changes = get_changes(step.before.published, step.after.published)
    if step.name != "publish":
        return not changes
    first, count, _ = step.args
    return bool(step.after.published[step.message.sender] == first + count > first)


def announcements_age(step: ServiceStep) -> bool:
    """What was announced becomes no younger, and is used once, in a later block."""
    for digest in get_changes(step.before.announced, step.after.announced):
        since = step.before.announced.get(digest)
        if step.name == "commit":
            if since is not None or step.after.announced[digest] != step.message.block:
                return False
        elif since is None or since >= step.message.block or digest in step.after.announced:
            return False
    return True


def jobs_are_of_challenges(step: ServiceStep) -> bool:
    """A receipt gets a job by a challenge alone, within its time, and no other when it has lost."""
    changes = get_changes(step.before.challenged, step.after.challenged)
    if step.name != "challenge":
        return not changes and step.before.challenges.jobs == step.after.challenges.jobs
    job_id = len(step.before.challenges.jobs)
    is_one = [step.after.challenged[digest] for digest in changes] == [job_id]
    job, receipt = step.after.challenges.jobs[job_id], step.args[0]
    is_its = job.client == receipt.client and job.terms == receipt.make_terms(job.terms.bond_wei)
    return is_one and is_its and step.message.block <= receipt.last_block


SERVICE_INVARIANTS: tuple[Callable[[Service], bool], ...] = (
    the_balance_is_what_is_kept,
    nobody_owes,
    who_is_at_fault_has_nothing,
    batches_lie_below_the_next_number,
    receipts_have_jobs_of_their_own,
    closed_challenges_have_burned,
)
STEP_INVARIANTS: tuple[Callable[[ServiceStep], bool], ...] = (
    value_is_conserved,
    nobody_touches_what_is_anothers,
    a_bond_stands_as_long_as_it_was_said,
    only_losses_take_what_stands,
    what_stands_is_lost_first,
    a_challenge_costs_the_stake,
    a_fault_burns_half,
    faults_stay,
    vouchers_pay_once,
    balances_stand_a_day,
    numbers_are_published_once,
    announcements_age,
    jobs_are_of_challenges,
)


def check_service(service: Service) -> None:
    """Check all that is true at all times.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    require_all(SERVICE_INVARIANTS, service)


def check_service_step(step: ServiceStep) -> None:
    """Check all that is true of an accepted call, and of the service after it.

    Raises:
        BrokenInvariantError: something of it is not.
    """
    require_all(STEP_INVARIANTS, step)
    check_service(step.after)
