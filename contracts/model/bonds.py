"""What a service remembers: bonds of providers, balances of clients, batches, challenges."""

from dataclasses import dataclass, field, replace

from moot.contracts.model.checks import require
from moot.contracts.model.receipts import Domain, Receipt, hash_announcement, is_sound
from moot.contracts.model.signatures import is_signed
from moot.contracts.model.types import Address, Event, Message, Store, Undoable
from moot.contracts.reasons import Reason
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tree import Digest


@dataclass(frozen=True, slots=True)
class Balance:
    """A provider's bond, or a client's balance with a provider.

    What leaves can be taken after `last_block`; until it is, it is as liable as what stands.
    """

    standing_wei: int = 0
    leaving_wei: int = 0
    last_block: int = 0
    is_at_fault: bool = False

    @property
    def all_wei(self) -> int:
        """What it has, whether it stands or leaves."""
        return self.standing_wei + self.leaving_wei

    def add(self, amount_wei: int) -> "Balance":
        """Return it with more that stands."""
        return replace(self, standing_wei=self.standing_wei + amount_wei)

    def let_leave(self, amount_wei: int, last_block: int) -> "Balance":
        """Return it with a part that leaves, and with that what leaves already."""
        require(amount_wei > 0, Reason.NO_AMOUNT)
        require(amount_wei <= self.standing_wei, Reason.NOT_THAT_MUCH)
        return replace(
            self,
            standing_wei=self.standing_wei - amount_wei,
            leaving_wei=self.leaving_wei + amount_wei,
            last_block=last_block,
        )

    def take(self, block: int) -> tuple[int, "Balance"]:
        """Return what has left, and what remains."""
        require(self.leaving_wei > 0, Reason.NOTHING_DUE)
        require(block > self.last_block, Reason.NOT_LEFT)
        return self.leaving_wei, Balance(self.standing_wei)

    def draw(self, amount_wei: int) -> "Balance":
        """Return it without an amount that it has: first of what stands, then of what leaves."""
        standing_wei = min(self.standing_wei, amount_wei)
        return replace(
            self,
            standing_wei=self.standing_wei - standing_wei,
            leaving_wei=self.leaving_wei - (amount_wei - standing_wei),
        )


NOTHING = Balance()


@dataclass(frozen=True, slots=True)
class Batch:
    """Receipts that were published: their digests, by number, are the leaves of a tree."""

    first: int
    count: int
    root: Digest

    def hash(self) -> Digest:
        """Return what the contract remembers of it, under its first number."""
        return keccak256(self.count.to_bytes(32, "big") + self.root)


@dataclass(slots=True)
class Service(Undoable):
    """Everything that a service remembers, and the referee of its challenges.

    `redeemed` is what vouchers have paid, by client and provider; `published` how many receipts a
    provider has; `batches` are digests, by provider and first number; `challenged` is a receipt's
    last job; `announced` the block in which something was announced first, and not used since.
    """

    address: Address
    challenges: Store
    stakes: dict[Address, Balance] = field(default_factory=dict)
    funds: dict[tuple[Address, Address], Balance] = field(default_factory=dict)
    redeemed: dict[tuple[Address, Address], int] = field(default_factory=dict)
    published: dict[Address, int] = field(default_factory=dict)
    batches: dict[tuple[Address, int], Digest] = field(default_factory=dict)
    challenged: dict[Digest, int] = field(default_factory=dict)
    announced: dict[Digest, int] = field(default_factory=dict)
    balance_wei: int = 0
    burned_wei: int = 0
    events: list[Event] = field(default_factory=list)

    @property
    def domain(self) -> Domain:
        """What receipts and vouchers are signed for."""
        return Domain(self.challenges.chain_id, self.address)

    def get_stake(self, provider: Address) -> Balance:
        """Return a provider's bond."""
        return self.stakes.get(provider, NOTHING)

    def get_bond(self, provider: Address, last_block: int) -> int:
        """Return what stands of a provider's bond up to a block, if nobody takes it."""
        bond = self.get_stake(provider)
        return bond.all_wei if last_block <= bond.last_block else bond.standing_wei

    def announce(self, name: str, *args: object) -> None:
        """Add an event."""
        self.events.append(Event(name, args))


def require_signed(digest: Digest, signature: bytes, signer: Address) -> None:
    """Refuse a call unless an account has signed a digest."""
    require(is_signed(digest, signature, signer), Reason.BAD_SIGNATURE)


def require_receipt(
    service: Service,
    message: Message,
    receipt: Receipt,
    signature: bytes,
    announced: tuple[Digest, Digest],
) -> Digest:
    """Return the digest of a sound receipt that its provider has signed, of an announced call.

    `announced` are what the call brings besides the receipt, and the salt.
    """
    require(is_sound(receipt), Reason.ABSURD_RECEIPT)
    digest, (shown, salt) = receipt.hash(service.domain), announced
    use_announcement(service, message, (digest, shown), salt)
    require_signed(digest, signature, receipt.provider)
    return digest


def use_announcement(
    service: Service, message: Message, subject: tuple[Digest, Digest], salt: Digest
) -> None:
    """Refuse a call that was not announced in an earlier block; each is for one call."""
    digest = hash_announcement(service.domain, message.sender, subject, salt)
    since = service.announced.get(digest)
    require(since is not None and since < message.block, Reason.NOT_ANNOUNCED)
    service.put(service.announced, digest, None)
