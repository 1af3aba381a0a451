"""Receipts and vouchers: what providers and clients sign of jobs that nobody opened, by EIP-712.

docs/explanation/receipts.md says what each field is for.
"""

from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Final

from eth_abi.abi import encode

from moot.contracts.model.types import (
    MAX_BLOCKS,
    MAX_BOND_WEI,
    MIN_BOND_WEI,
    NOBODY,
    Address,
    Terms,
)
from moot.contracts.reasons import LeafMode
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS

VERSION = 1
"""The version of the packed form, and of the domain of signatures."""
MAX_WINDOW_BLOCKS = 50_400
"""The longest time between a receipt and its last block: a week of blocks of 12 seconds."""
RECEIPT_TYPES: Final = (
    *[("bytes32", name) for name in ("layout", "programTop", "startRoot", "dataTop")],
    *[("bytes32", name) for name in ("history", "answer")],
    *[("uint32", name) for name in ("operators", "stateSlots", "batchSlots", "answerSlot")],
    *[("uint64", name) for name in ("steps", "checkpointEvery")],
    *[("uint32", name) for name in ("windowBlocks", "clockBlocks", "incrementBlocks")],
    *[("address", name) for name in ("client", "provider")],
    *[("uint64", name) for name in ("number", "issuedBlock", "lastBlock")],
    ("uint96", "stakeWei"),
    ("uint128", "totalWei"),
    ("uint128", "releasedWei"),
    ("uint96", "priceWei"),
)
"""The fields of a receipt, in the order in which they are hashed, encoded and packed."""
WIDTHS: Final = {
    "bytes32": 32,
    "address": 20,
    "uint32": 4,
    "uint64": 8,
    "uint96": 12,
    "uint128": 16,
}
"""Bytes of a field of each type."""
VOUCHER_TYPES: Final = (("address", "client"), ("address", "provider"), ("uint128", "totalWei"))
_DOMAIN = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"


@dataclass(frozen=True, slots=True)
class Domain:
    """The service that receipts and vouchers are for.

    Attributes:
        chain_id: the chain's number.
        service: the address of `service.vy`.
    """

    chain_id: int
    service: Address

    @property
    def separator(self) -> Digest:
        """The EIP-712 domain separator."""
        return _separate(self)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The terms and the claim of a job that was never opened, with what backs them.

    Its attributes are the fields of `RECEIPT_TYPES`: roots of 32 bytes, counts, checksummed
    addresses, blocks, and wei.
    """

    layout: Digest
    program_top: Digest
    start_root: Digest
    data_top: Digest
    history: Digest
    answer: Digest
    operators: int
    state_slots: int
    batch_slots: int
    answer_slot: int
    steps: int
    checkpoint_every: int
    window_blocks: int
    clock_blocks: int
    increment_blocks: int
    client: Address
    provider: Address
    number: int
    issued_block: int
    last_block: int
    stake_wei: int
    total_wei: int
    released_wei: int
    price_wei: int

    @property
    def open_wei(self) -> int:
        """The stakes that had not ended when it was issued, its own among them, as it says."""
        return self.total_wei - self.released_wei

    @property
    def bond_wei(self) -> int:
        """What a challenger brings: its stake, or the least bond of a match if that is more."""
        return max(MIN_BOND_WEI, self.stake_wei)

    def make_terms(self, bond_wei: int) -> Terms:
        """Return the terms of a challenge: joining begins with the next block."""
        return Terms(
            operators=self.operators,
            state_slots=self.state_slots,
            batch_slots=self.batch_slots,
            layout=self.layout,
            program_top=self.program_top,
            start_root=self.start_root,
            data_top=self.data_top,
            steps=self.steps,
            checkpoint_every=self.checkpoint_every,
            leaf_mode=LeafMode.SCALAR,
            verifier=NOBODY,
            bond_wei=bond_wei,
            commit_blocks=0,
            reveal_blocks=0,
            window_blocks=self.window_blocks,
            clock_blocks=self.clock_blocks,
            increment_blocks=self.increment_blocks,
        )

    def hash(self, domain: Domain) -> Digest:
        """Return its EIP-712 digest, which is signed, and by which it is known."""
        return _hash("Receipt", RECEIPT_TYPES, self, domain)


@dataclass(frozen=True, slots=True)
class Voucher:
    """A client's promise that a provider may take so many wei of its balance, in all."""

    client: Address
    provider: Address
    total_wei: int

    def hash(self, domain: Domain) -> Digest:
        """Return its EIP-712 digest, which the client signs."""
        return _hash("Voucher", VOUCHER_TYPES, self, domain)


def is_sound(receipt: Receipt) -> bool:
    """Whether a challenge of a receipt would be accepted, as far as the receipt alone says it."""
    windows = (receipt.window_blocks, receipt.clock_blocks)
    return (
        receipt.answer_slot < receipt.state_slots <= MAX_SLOTS
        and receipt.batch_slots <= MAX_SLOTS
        and receipt.state_slots <= receipt.operators <= MAX_OPERATORS
        and 1 <= receipt.checkpoint_every <= receipt.steps <= MAX_STEPS
        and all(1 <= window <= MAX_BLOCKS for window in windows)
        and 1 <= receipt.increment_blocks <= receipt.clock_blocks
        and receipt.stake_wei <= min(MAX_BOND_WEI, receipt.open_wei)
        and receipt.issued_block <= receipt.last_block <= receipt.issued_block + MAX_WINDOW_BLOCKS
    )


def find_conflict(first: Receipt, second: Receipt) -> bool:
    """Whether two receipts, of one provider and with other digests, do not go together.

    `first` has the lower number, or the same.
    """
    if first.number == second.number:
        return True
    least = first.total_wei + second.stake_wei
    if second.number == first.number + 1 and second.total_wei != least:
        return True
    is_released = first.total_wei <= second.released_wei
    was_open = first.last_block >= second.issued_block
    return second.total_wei < least or (was_open and is_released)


def hash_announcement(
    domain: Domain, sender: Address, subject: tuple[Digest, Digest], salt: Digest
) -> Digest:
    """Return what is announced before a challenge or a proof of fault, so that nobody copies it.

    Args:
        domain: the service.
        sender: who will call.
        subject: the digest of the receipt, and the top, tensor root or listed digest that the
            call brings; or the digests of two receipts.
        salt: 32 bytes that nobody can guess.
    """
    types = ["bytes1", "uint256", "address", "address", "bytes32", "bytes32"]
    about = keccak256(subject[0] + subject[1])
    values = [bytes([Tag.ANNOUNCEMENT]), domain.chain_id, domain.service, sender, about, salt]
    return keccak256(encode(types, values))


def encode_field(kind: str, value: Address | Digest | int) -> bytes:
    """Return the bytes of a field, as few as its type has.

    Raises:
        OverflowError: the number does not fit the type.
    """
    if isinstance(value, int):
        return value.to_bytes(WIDTHS[kind], "big")
    return value if isinstance(value, bytes) else bytes.fromhex(value[2:])


@lru_cache(maxsize=1 << 12)
def _hash(
    name: str, types: tuple[tuple[str, str], ...], struct: Receipt | Voucher, domain: Domain
) -> Digest:
    """Return the EIP-712 digest of a struct, all of whose fields are words."""
    pairs = zip(types, fields(struct), strict=True)
    parts = [encode_field(kind, getattr(struct, field.name)) for (kind, _), field in pairs]
    words = b"".join(part.rjust(32, b"\0") for part in parts)
    return keccak256(b"\x19\x01" + domain.separator + keccak256(_hash_type(name, types) + words))


@cache
def _separate(domain: Domain) -> Digest:
    words = (keccak256(_DOMAIN), keccak256(b"Moot"), keccak256(str(VERSION).encode()))
    types = ["bytes32", "bytes32", "bytes32", "uint256", "address"]
    return keccak256(encode(types, [*words, domain.chain_id, domain.service]))


@cache
def _hash_type(name: str, types: tuple[tuple[str, str], ...]) -> Digest:
    listed = ",".join(f"{kind} {field}" for kind, field in types)
    return keccak256(f"{name}({listed})".encode())
