"""An accuser: whoever has run a receipt's answer, and takes its wrong claim to the chain.

Its own claim is announced first and shown later, so that nobody copies it. Whoever is killed goes
on from the folder and the chain: what was announced is announced, and a challenge is played on.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from moot.contracts.model.receipts import hash_announcement
from moot.contracts.model.types import MIN_BOND_WEI, Terms
from moot.contracts.reasons import Fault
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import UsageError
from moot.offchain.parties.defender import play_challenge
from moot.offchain.parties.events import Tell
from moot.offchain.parties.services import ServiceContext, opened_service
from moot.offchain.parties.settings import Settings
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.receipts.packed import SignedReceipt

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
    store = Store(Path(settings.folder) / "receipts" / signed.digest.hex())
    store.disk.make_private()
    steps = f"running {task.steps} steps of receipt 0x{signed.digest.hex()}"
    tell("running", steps, steps=task.steps)
    run = Run(task, Behaviour(), store)
    run.compute()
    case = _Case(signed, run, store)
    with opened_service(settings, tell, signs=True) as context:
        _require_service(context, signed)
        if run.history.top == signed.receipt.history:
            return _refute_answer(context, tell, case)
        job_id = _find_job(context, case, tell)
        challenges = context.service.challenges

    def find_task(terms: Terms) -> Task | None:
        return task if terms.start_root == signed.receipt.start_root else None

    return play_challenge(settings, tell, challenges, job_id, find_task)


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
    digests = (pair[0].digest, pair[1].digest)
    store = Store(Path(settings.folder) / "conflicts" / (digests[0] + digests[1]).hex()[:96])
    store.disk.make_private()
    with opened_service(settings, tell, signs=True) as context:
        _require_service(context, pair[0])
        salt = _get_salt(store)
        _announce(context, digests, salt)
        context.service.prove_conflict(pair, salt, context.address)
    provider = pair[0].receipt.provider
    line = f"{provider} has lost its bond: two of its receipts do not go together"
    tell("faulted", line, fault=Fault.CONFLICT.name, provider=provider)


def _require_service(context: ServiceContext, signed: SignedReceipt) -> None:
    if context.service.domain != signed.domain:
        raise UsageError(
            f"the receipt is for service {signed.domain.service} on chain "
            f"{signed.domain.chain_id}; choose that --service"
        )


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


def _find_job(context: ServiceContext, case: _Case, tell: Tell) -> int:
    """Return the number of the challenge of a receipt: one's own, or another that goes on."""
    service, top = context.service, case.run.history.top
    known = service.find_job(case.signed.digest)
    if known is not None and service.is_open(known):
        line = (
            f"the receipt is being challenged already, in job {known}, which is joined if need be"
        )
        tell("challenged", line, job=known, is_own=False)
        return known
    salt = _get_salt(case.store)
    _announce(context, (case.signed.digest, top), salt)
    value_wei = max(MIN_BOND_WEI, case.signed.receipt.stake_wei)
    job_id = service.challenge(case.signed, top, salt, context.address, value_wei)
    tell("challenged", f"the receipt is challenged, in job {job_id}", job=job_id, is_own=True)
    return job_id


def _announce(context: ServiceContext, subject: tuple[Digest, Digest], salt: Digest) -> None:
    """Announce a call, if that is not done; whatever is sent afterwards is in a later block."""
    service = context.service
    digest = hash_announcement(service.domain, context.address, subject, salt)
    if not service.get_announced(digest):
        service.transact("commit", digest, sender=context.address)
