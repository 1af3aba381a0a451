"""An accuser: whoever has run a receipt's answer, and takes its wrong claim to the chain.

Its own claim is announced first and shown later, so that nobody copies it. Whoever is killed goes
on from the folder and the chain: what was announced is announced, and a challenge is played on.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from moot.contracts.model.receipts import hash_announcement
from moot.contracts.model.types import MIN_BOND_WEI, Terms
from moot.contracts.reasons import Fault, Standing
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import Reverted, UsageError
from moot.offchain.parties.defender import play_challenge
from moot.offchain.parties.events import Tell
from moot.offchain.parties.services import ServiceContext, opened_service
from moot.offchain.parties.settings import Settings, to_wei
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.receipts.packed import SignedReceipt, require_same
from moot.offchain.receipts.service import ChainService
from moot.offchain.receipts.weakness import ANNOUNCING_BLOCKS, list_weaknesses

SALT = "salt"


@dataclass(frozen=True, slots=True)
class _Case:
    """A receipt, what was found of it, and where that is kept."""

    signed: SignedReceipt
    run: Run
    store: Store


def accuse(settings: Settings, tell: Tell, signed: SignedReceipt, task: Task) -> bool:
    """Run a receipt's task, challenge its claim if it is wrong, and play that to its end.

    Args:
        settings: the party's: the chain, the service, a key, a store and a folder.
        tell: takes events.
        signed: the receipt.
        task: what it is about.

    Returns:
        Whether the receipt's provider has lost by it.

    Raises:
        UsageError: a setting is missing, or the claim is right.
        ChainError, StoreError: the chain or the disk fails.
    """
    settings.require("folder", "store")
    require_worth(settings, tell, signed)
    store = Store(Path(settings.folder) / "receipts" / signed.digest.hex())
    store.disk.make_private()
    steps = f"running {task.steps} steps of receipt 0x{signed.digest.hex()}"
    tell("running", steps, steps=task.steps)
    run = Run(task, Behaviour(), store)
    run.compute()
    case = _Case(signed, run, store)
    with opened_service(settings, tell, signs=True) as context:
        require_same(context.service.domain, signed.domain, "receipt")
        if run.history.top == signed.receipt.history:
            return _refute_answer(context, tell, case)
        challenges = context.service.challenges

    def find_task(_: int, terms: Terms) -> Task | None:
        return task if terms.start_root == signed.receipt.start_root else None

    while True:  # an accomplice of the provider may challenge first, and lose
        with opened_service(settings, tell, signs=True) as context:
            job_id, is_own = _find_job(context, settings, case, tell)
        has_won = play_challenge(settings, tell, challenges, job_id, find_task)
        if has_won or is_own:
            return has_won
        with opened_service(settings, tell, signs=False) as context:
            if _has_lost(context.service, job_id, signed):
                return True


def accuse_of_conflict(
    settings: Settings, tell: Tell, pair: tuple[SignedReceipt, SignedReceipt]
) -> None:
    """Show two receipts that do not go together, for half of their provider's bond.

    Args:
        settings: the party's: the chain, the service, a key and a folder.
        tell: takes events.
        pair: the receipts, the lower number first.

    Raises:
        UsageError: a setting is missing, or they are for another service.
        ChainError, StoreError: the chain or the disk fails.
    """
    settings.require("folder")
    require_worth(settings, tell, pair[0])
    digests = (pair[0].digest, pair[1].digest)
    store = Store(Path(settings.folder) / "conflicts" / (digests[0] + digests[1]).hex()[:96])
    store.disk.make_private()
    with opened_service(settings, tell, signs=True) as context:
        require_same(context.service.domain, pair[0].domain, "receipt")
        salt = _get_salt(store)
        _announce(context, digests, salt)
        context.service.prove_conflict(pair, salt, context.address)
    provider = pair[0].receipt.provider
    line = f"{provider} has lost its bond: two of its receipts do not go together"
    tell("faulted", line, fault=Fault.CONFLICT.name, provider=provider)


def require_worth(settings: Settings, tell: Tell, signed: SignedReceipt) -> None:
    """Refuse to run or send anything about a receipt of whose provider nothing is to be had.

    Anybody may sign receipts with a key that has no bond, and hand them over.

    Raises:
        UsageError: the provider's bond is gone, or the receipt is for another service.
        ChainError: the chain fails.
    """
    with opened_service(settings, tell, signs=False) as context:
        require_same(context.service.domain, signed.domain, "receipt")
        service, provider = context.service, signed.receipt.provider
        is_open = _find_open(context, signed) is not None
        if not is_open and service.get_stake(provider).all_wei == 0:
            raise UsageError(f"nothing stands of the bond of {provider}: there is nothing to win")


def _require_chance(service: ChainService, settings: Settings, signed: SignedReceipt) -> None:
    """Refuse to bond on a challenge that the service or the clocks would not let be won."""
    receipt = signed.receipt
    if (weakness := next(list_weaknesses(receipt), None)) is not None:
        raise UsageError(f"the receipt is not challenged: {weakness}")
    if service.chain.block_number() + ANNOUNCING_BLOCKS > receipt.last_block:
        raise UsageError(
            f"it is too late to challenge the receipt: block {receipt.last_block} is the last"
        )
    left_wei = service.get_stake(receipt.provider).all_wei
    if left_wei < MIN_BOND_WEI:
        raise UsageError(
            f"{left_wei:,} wei are left of the provider's bond, too little for a challenge"
        )
    risked_wei = min(left_wei, receipt.bond_wei)
    if risked_wei > to_wei(settings.most_bond):
        raise UsageError(
            f"a challenge needs a bond of {risked_wei:,} wei, above the highest bond (most_bond); "
            "raise that to challenge it"
        )


def _has_lost(service: ChainService, job_id: int, signed: SignedReceipt) -> bool:
    standing = service.get_standing(job_id, signed.receipt.provider)
    return standing is Standing.DEFEATED


def _get_salt(store: Store) -> Digest:
    """Return the salt of an announcement, which is on the disk before it is used."""
    noted = store.get_json(SALT)
    if noted is None:
        noted = secrets.token_hex(32)
        store.put_json(SALT, noted)
    return bytes.fromhex(noted)


def _refute_answer(context: ServiceContext, tell: Tell, case: _Case) -> bool:
    """Show that a claim's own last state has another answer, if it has."""
    receipt, run = case.signed.receipt, case.run
    tree = run.state_tree(receipt.steps)
    found = tree.node(0, receipt.answer_slot)
    if found == receipt.answer:
        raise UsageError("the receipt is right; whoever challenges it loses a bond")
    salt = _get_salt(case.store)
    _announce(context, (case.signed.digest, found), salt)
    history, place = run.history, receipt.answer_slot
    state = (history.node(0, history.count - 1), history.proof(history.count - 1))
    proven = (*state, found, tree.proof(place))
    context.service.refute_answer(case.signed, proven, salt, context.address)
    line = "the provider has lost its bond: its receipt's answer is not that of its own last state"
    tell("faulted", line, fault=Fault.OTHER_ANSWER.name, provider=receipt.provider)
    return True


def _find_job(
    context: ServiceContext, settings: Settings, case: _Case, tell: Tell
) -> tuple[int, bool]:
    """Return the number of a receipt's challenge, and whether it is one's own, made now or before.

    Another one that goes on is joined if need be.
    """
    service, signed, top = context.service, case.signed, case.run.history.top
    if (known := _find_open(context, signed)) is None:
        _require_chance(service, settings, signed)
        salt = _get_salt(case.store)
        _announce(context, (signed.digest, top), salt)
        value_wei = signed.receipt.bond_wei
        try:
            job_id = service.challenge(signed, top, salt, context.address, value_wei)
        except Reverted:
            if (known := _find_open(context, signed)) is None:
                raise
        else:
            line = f"the receipt is challenged, in job {job_id}"
            tell("challenged", line, job=job_id, is_own=True)
            return job_id, True
    is_own = service.get_standing(known, context.address) is not Standing.NONE
    line = f"the receipt is being challenged already, in job {known}, which is joined if need be"
    tell("challenged", line, job=known, is_own=is_own)
    return known, is_own


def _find_open(context: ServiceContext, signed: SignedReceipt) -> int | None:
    """Return the job in which a receipt is being challenged, if it is."""
    known = context.service.find_job(signed.digest)
    return known if known is not None and context.service.is_open(known) else None


def _announce(context: ServiceContext, subject: tuple[Digest, Digest], salt: Digest) -> None:
    """Announce a call, if that is not done; whatever is sent afterwards is in a later block."""
    service = context.service
    digest = hash_announcement(service.domain, context.address, subject, salt)
    if not service.get_announced(digest):
        service.transact("commit", digest, sender=context.address)
