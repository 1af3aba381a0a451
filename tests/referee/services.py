"""A service and the contract of its challenges in a bare EVM, beside their models."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from coincurve import PrivateKey

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_service
from moot.contracts.model import challenges, service
from moot.contracts.model.abi import pack_balance
from moot.contracts.model.bonds import Batch, Service
from moot.contracts.model.checks import find_claim, name_job
from moot.contracts.model.receipts import Receipt, Voucher, hash_announcement
from moot.contracts.model.service_invariants import (
    ServiceStep,
    check_service,
    check_service_step,
    copy_service,
    is_same,
)
from moot.contracts.model.step_invariants import Step
from moot.contracts.model.types import (
    MIN_BOND_WEI,
    NOBODY,
    Address,
    Event,
    Message,
    Pair,
)
from moot.contracts.model.watch import Watcher
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from tests.lockstep.contracts import Contract, RefereeContract
from tests.lockstep.twin import Side, Twin, make_store
from tests.machines.base import Deployed, Machine
from tests.projection import compare_words


def _make_key(number: int) -> tuple[Address, PrivateKey]:
    key = PrivateKey(keccak256(f"party {number}".encode()))
    name = keccak256(key.public_key.format(compressed=False)[1:])[-20:]
    return "0x" + name.hex(), key


KEYS = dict(_make_key(number) for number in range(12))
ACCOUNTS = tuple(KEYS)
CLIENT, STRANGER, PROVIDER, RIVAL, *CHALLENGERS = ACCOUNTS
SALT = b"\x5a" * 32

ANSWER, OTHER = b"\x0a" * 32, b"\x0b" * 32
"""The root of the tokens that a client was sent, and of others."""
SLOTS = Tree(Tag.STATE_NODE, [b"\1" * 32, ANSWER, b"\2" * 32])
STATE = hash_root(Tag.STATE_ROOT, 3, SLOTS.top)
HISTORY = Tree(Tag.HISTORY_NODE, [b"\3" * 32, STATE])
"""Two checkpoints, in the last of which slot 1 is the answer."""
TRUTH = b"\xee" * 32
"""The top of another history."""


def sign(digest: Digest, signer: Address) -> bytes:
    """Return an account's signature, as the contract takes it."""
    signed = KEYS[signer].sign_recoverable(digest, hasher=None)
    return signed[:64] + bytes([27 + signed[64]])


def make_receipt(**changes: Any) -> Receipt:
    """Return the first receipt of the provider, with some fields changed."""
    return replace(_FIRST, **changes)


_FIRST = Receipt(
    layout=b"\4" * 32,
    program_top=b"\5" * 32,
    start_root=b"\6" * 32,
    data_top=b"\7" * 32,
    history=HISTORY.top,
    answer=ANSWER,
    operators=9,
    state_slots=3,
    batch_slots=0,
    answer_slot=1,
    steps=8,
    checkpoint_every=4,
    window_blocks=20,
    clock_blocks=10,
    increment_blocks=3,
    client=CLIENT,
    provider=PROVIDER,
    number=0,
    issued_block=1,
    last_block=100,
    stake_wei=MIN_BOND_WEI,
    total_wei=MIN_BOND_WEI,
    released_wei=0,
    price_wei=7,
)


class ChallengeContract(RefereeContract):
    """The deployed challenges and their service."""

    asked = frozenset({"leaf"})
    service: Contract

    def deploy(self, machine: Machine) -> Deployed:
        """Put both into the machine."""
        return self.keep(machine, *deploy_service(machine, NOBODY, self.arithmetic))

    def keep(self, machine: Machine, challenges: Deployed, service: Deployed) -> Deployed:
        """Remember the service of challenges, and return these."""
        self.service = Contract(machine, service)
        self.abi = compile_contract("challenges", arithmetic=self.arithmetic.contracts).abi
        return challenges


class Services(Twin):
    """Both models and, if there are contracts, these: after every call all have to agree.

    Args:
        contract: the contracts, if there are any.
        is_thorough: whether all invariants are checked and all words compared after every call, and
            not only answers and events.
    """

    def __init__(self, contract: ChallengeContract | None, *, is_thorough: bool = True) -> None:
        self.contract, self.store = contract, make_store(contract)
        own = contract.service if contract else None
        self.model = Service(own.address if own else "0x" + "c2" * 20, self.store)
        sides = Side(self.model, service.call, own), Side(self.store, challenges.call, contract)
        super().__init__(ACCOUNTS, *sides, is_thorough=is_thorough)
        self.watcher = Watcher()
        self.log: dict[int, list[Event]] = defaultdict(list)

    def play(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call of the challenges, and compare all that can be seen; return why not."""
        return self.tell(self.sides[1], name, Message(sender, value_wei, self.block), args)

    def remember(self) -> Service | None:
        """Return a copy of what is remembered."""
        return copy_service(self.model) if self.is_thorough else None

    def check(
        self,
        before: Service | None,
        side: Side[Any],
        name: str,
        message: Message,
        args: tuple[Any, ...],
        reason: str | None,
    ) -> None:
        """Check the invariants of the service and of its challenges, and note what these say."""
        store = self.store
        for event in store.events:
            self.log[int(str(event.args[0]))].append(event)
        if before is None:
            return
        if reason is not None:
            assert is_same(before, self.model)
            return
        if side is self.sides[0]:
            events = tuple(self.model.events)
            check_service_step(ServiceStep(before, name, message, args, self.model, events))
            if name != "challenge":
                return
            receipt, _, top, _ = args
            bond_wei = store.jobs[len(before.challenges.jobs)].terms.bond_wei
            members = (receipt.provider, message.sender)
            name = "enter"
            args = (receipt.make_terms(bond_wei), receipt.client, *members, (receipt.history, top))
            message = Message(self.model.address, 2 * bond_wei, message.block)
        else:
            check_service(self.model)
        step = Step(before.challenges, name, message, args, store, tuple(store.events))
        self.watcher.watch(step)

    def compare(self) -> None:
        """Compare every word that is remembered, and everybody's money."""
        assert self.contract is not None
        view, model = self.contract.service.view, self.model
        for provider, bond in model.stakes.items():
            assert view("stakes", provider) == pack_balance(bond)
        for place, balance in model.funds.items():
            assert view("funds", *place) == pack_balance(balance)
        for place, redeemed_wei in model.redeemed.items():
            assert view("redeemed", *place) == redeemed_wei
        for provider, count in model.published.items():
            assert view("published", provider) == count
        for batch, kept in model.batches.items():
            assert view("batches", *batch) == kept
        for digest, job_id in model.challenged.items():
            assert view("challenged", digest) == job_id + 1
        for job_id in range(len(self.store.jobs)):
            compare_words(self.contract.view, self.store, job_id)
        super().compare()

    def announce(
        self, sender: Address, first: Digest, second: Digest, salt: Digest = SALT
    ) -> str | None:
        """Let somebody announce a call, and wait for the next block."""
        digest = hash_announcement(self.model.domain, sender, (first, second), salt)
        reason = self.call("commit", sender, digest)
        if self.contract is not None and self.is_thorough:
            since = self.contract.service.view("announced", digest)
            assert since == self.model.announced.get(digest, 0)
        self.block += 1
        return reason

    def is_left(self, job_id: int, top: Digest) -> bool:
        """Whether a claim has a contender."""
        claim = find_claim(self.store, job_id, top)
        return claim is not None and claim.contenders > 0

    def look(self, job_id: int = -1) -> tuple[Pair, Board]:
        """Return the only match of a job, the last one unless another is named, and its board."""
        job_id = job_id if job_id >= 0 else len(self.store.jobs) - 1
        terms, arithmetic = self.store.jobs[job_id].terms, self.store.arithmetic
        tournament = Tournament(job_id, terms, arithmetic)
        tournament.read(self.log[job_id])
        ((pair, board),) = tournament.boards.items()
        return pair, board

    def settle(self, top: Digest, job_id: int = -1) -> str | None:
        """Let a job be closed once its windows are over; the last one unless another is named."""
        job_id = job_id if job_id >= 0 else len(self.store.jobs) - 1
        self.block = max(self.block, self.store.jobs[job_id].window_end + 1)
        return self.play("settle", STRANGER, job_id, top)

    def sign(self, receipt: Receipt, signer: Address | None = None) -> bytes:
        """Return the signature under a receipt, its provider's unless another is named."""
        return sign(receipt.hash(self.model.domain), signer or receipt.provider)

    def sign_voucher(self, client: Address, provider: Address, total_wei: int) -> bytes:
        """Return a client's signature under a voucher."""
        return sign(self.make_voucher(client, provider, total_wei), client)

    def make_voucher(self, client: Address, provider: Address, total_wei: int) -> Digest:
        """Return the digest of a voucher."""
        return Voucher(client, provider, total_wei).hash(self.model.domain)

    def get_bond(self, provider: Address, last_block: int) -> int:
        """Return what stands of a bond up to a block, as both say."""
        bond_wei = self.model.get_bond(provider, last_block)
        if self.contract is not None:
            assert self.contract.service.view("get_bond", provider, last_block) == bond_wei
        return bond_wei

    def name_job(self, job_id: int) -> int:
        """Return what calls that join a job name it by."""
        return name_job(self.store, job_id)

    def stake(self, amount_wei: int, provider: Address = PROVIDER) -> str | None:
        """Let a provider stake."""
        return self.call("stake", provider, value_wei=amount_wei)

    def challenge(
        self,
        receipt: Receipt,
        challenger: Address = CHALLENGERS[0],
        top: Digest = TRUTH,
        signature: bytes | None = None,
        value_wei: int | None = None,
    ) -> str | None:
        """Let somebody announce a challenge and make it."""
        self.announce(challenger, receipt.hash(self.model.domain), top)
        if value_wei is None:
            value_wei = max(MIN_BOND_WEI, receipt.stake_wei)
        args = (receipt, self.sign(receipt) if signature is None else signature, top, SALT)
        return self.call("challenge", challenger, *args, value_wei=value_wei)

    def refute(
        self,
        receipt: Receipt,
        reporter: Address = STRANGER,
        signature: bytes | None = None,
        **changes: Any,
    ) -> str | None:
        """Let somebody show that a receipt has another answer than its last state."""
        shown = {
            "state": STATE,
            "history_proof": tuple(HISTORY.proof(1)),
            "root": ANSWER,
            "slot_proof": tuple(SLOTS.proof(1)),
        } | changes
        self.announce(reporter, receipt.hash(self.model.domain), shown["root"])
        args = (
            receipt,
            self.sign(receipt) if signature is None else signature,
            *shown.values(),
            SALT,
        )
        return self.call("refute_answer", reporter, *args)

    def prove_conflict(
        self,
        first: Receipt,
        second: Receipt,
        reporter: Address = STRANGER,
        signatures: tuple[bytes, bytes] | None = None,
    ) -> str | None:
        """Let somebody show two receipts that do not go together."""
        domain = self.model.domain
        self.announce(reporter, first.hash(domain), second.hash(domain))
        signatures = signatures or (self.sign(first), self.sign(second))
        return self.call("prove_conflict", reporter, (first, second), *signatures, SALT)

    def prove_unlisted(
        self,
        receipt: Receipt,
        batch: Batch,
        listed: Digest,
        proof: tuple[Digest, ...],
        reporter: Address = STRANGER,
        signature: bytes | None = None,
    ) -> str | None:
        """Let somebody show that another receipt was published under a number."""
        self.announce(reporter, receipt.hash(self.model.domain), listed)
        signature = self.sign(receipt) if signature is None else signature
        args = (receipt, signature, batch, listed, proof, SALT)
        return self.call("prove_unlisted", reporter, *args)

    def redeem(
        self,
        total_wei: int,
        client: Address = CLIENT,
        provider: Address = PROVIDER,
        signature: bytes | None = None,
    ) -> str | None:
        """Let a provider redeem a voucher."""
        if signature is None:
            signature = self.sign_voucher(client, provider, total_wei)
        return self.call("redeem", provider, client, total_wei, signature)
