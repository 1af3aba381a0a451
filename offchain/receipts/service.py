"""The service contract on a chain: bonds, balances, vouchers, batches and challenges."""

from dataclasses import asdict, astuple, dataclass
from typing import Any, Self

from eth_utils.address import to_checksum_address

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import unpack_balance, unpack_job, unpack_member
from moot.contracts.model.bonds import Balance
from moot.contracts.model.receipts import Domain, Voucher
from moot.contracts.model.signatures import is_signed
from moot.contracts.model.types import Address
from moot.contracts.reasons import Standing, Status
from moot.offchain.chain import Chain, Contract
from moot.offchain.chain.receipts import GAS_LIMIT
from moot.offchain.chain.receipts import Address as ChainAddress
from moot.offchain.chain.receipts import Receipt as Mined
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.errors import BadCall, ChainError, ReceiptError, Reverted, UsageError
from moot.offchain.receipts.book import Sign
from moot.offchain.receipts.packed import SignedReceipt

MOST_GAS = {
    "stake": 60_000,
    "unstake": 60_000,
    "take_stake": 60_000,
    "fund": 60_000,
    "defund": 60_000,
    "take_funds": 60_000,
    "redeem": 110_000,
    "publish": 110_000,
    "commit": 60_000,
    "challenge": 700_000,
}
"""What calls are offered at the most; all others are offered what a transaction may be."""


class ChainService:
    """A service contract on a chain.

    Args:
        chain: the chain.
        address: where the service stands.

    Attributes:
        domain: what receipts and vouchers for it are signed for.

    Raises:
        UsageError: there is none of this version.
        ChainError: the chain fails.
    """

    def __init__(self, chain: Chain, address: Address) -> None:
        self.chain = chain
        self._contract = _bind(chain, address)
        self.domain = Domain(chain.chain_id, _checksum(address))
        self.challenges: Address = _checksum(self._contract.call("challenges_contract"))
        place = ChainAddress(self.challenges.lower())
        self._challenges = chain.at(compile_contract("challenges"), place)

    def get_bond(self, provider: Address, last_block: int) -> int:
        """Return what stands of a provider's bond up to a block, in wei."""
        return int(self._contract.call("get_bond", provider, last_block))

    def get_stake(self, provider: Address) -> Balance:
        """Return a provider's bond, and what leaves it."""
        return unpack_balance(self._contract.call("stakes", provider))

    def get_funds(self, client: Address, provider: Address) -> Balance:
        """Return a client's balance with a provider."""
        return unpack_balance(self._contract.call("funds", client, provider))

    def get_redeemed(self, client: Address, provider: Address) -> int:
        """Return what vouchers of a client have paid a provider in all, in wei."""
        return int(self._contract.call("redeemed", client, provider))

    def count_published(self, provider: Address) -> int:
        """Return how many receipts a provider has published."""
        return int(self._contract.call("published", provider))

    def find_job(self, digest: Digest) -> int | None:
        """Return the number of the latest challenge of a receipt, None if there was none."""
        number = int(self._contract.call("challenged", digest))
        return number - 1 if number else None

    def get_announced(self, digest: Digest) -> int:
        """Return the block in which something was announced; 0 if it was not, or is used."""
        return int(self._contract.call("announced", digest))

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Mined:
        """Make a call, and wait for its block.

        Raises:
            ChainError: as `Contract.transact`.
        """
        transaction = self._contract.prepare(
            name,
            *args,
            sender=ChainAddress(sender.lower()),
            value=value_wei,
            gas_limit=MOST_GAS.get(name, GAS_LIMIT),
        )
        (mined,) = self._contract.send([transaction])
        if isinstance(mined, ChainError):
            raise mined
        return mined

    def challenge(
        self, signed: SignedReceipt, top: Digest, salt: Digest, sender: Address, value_wei: int
    ) -> int:
        """Challenge a receipt, which was announced before, and return the number of the job."""
        args = (astuple(signed.receipt), signed.signature, top, salt)
        mined = self.transact("challenge", *args, sender=sender, value_wei=value_wei)
        (event,) = (it for it in mined.events if it.name == "Challenged")
        return int(event.args["job_id"])

    def is_open(self, job_id: int) -> bool:
        """Whether a challenge goes on."""
        return unpack_job(self._challenges.call("jobs", job_id)).status is Status.OPEN

    def get_standing(self, job_id: int, account: Address) -> Standing:
        """Return how an account stands in a challenge."""
        return unpack_member(self._challenges.call("members", job_id, account)).standing

    def refute_answer(
        self,
        signed: SignedReceipt,
        proven: tuple[Digest, list[Digest], Digest, list[Digest]],
        salt: Digest,
        sender: Address,
    ) -> None:
        """Show that a receipt's own last state has another answer, which was announced before.

        Args:
            signed: the receipt.
            proven: the last state's root and its proof in the history, the answer's root there and
                its proof in the state.
            salt: the salt of the announcement.
            sender: who calls.
        """
        args = (astuple(signed.receipt), signed.signature, *proven, salt)
        self.transact("refute_answer", *args, sender=sender)

    def prove_conflict(
        self, pair: tuple[SignedReceipt, SignedReceipt], salt: Digest, sender: Address
    ) -> None:
        """Show two receipts that do not go together, which was announced before."""
        structs = [astuple(it.receipt) for it in pair]
        signatures = (it.signature for it in pair)
        self.transact("prove_conflict", structs, *signatures, salt, sender=sender)

    def publish(self, receipts: list[SignedReceipt], first: int, provider: Address) -> Digest:
        """Publish a provider's next receipts, and return the top of their tree.

        Raises:
            UsageError: they are not the next.
        """
        if [it.receipt.number for it in receipts] != [*range(first, first + len(receipts))]:
            raise UsageError(f"the receipts to be published are not those from number {first} on")
        top = make_batch_tree([it.digest for it in receipts]).top
        self.transact("publish", first, len(receipts), top, sender=provider)
        return top


def make_batch_tree(digests: list[Digest]) -> Tree:
    """Return the tree of published receipts, whose leaves are their digests by their numbers."""
    return Tree(Tag.RECEIPT_NODE, digests)


@dataclass(frozen=True, slots=True)
class SignedVoucher:
    """A voucher and its client's signature.

    Attributes:
        domain: the service that pays it.
        voucher: what the client promises.
        signature: 65 bytes.
    """

    domain: Domain
    voucher: Voucher
    signature: bytes

    @classmethod
    def make(cls, domain: Domain, voucher: Voucher, sign: Sign) -> Self:
        """Return a voucher that is signed."""
        return cls(domain, voucher, sign(voucher.hash(domain)))

    def to_json(self) -> dict[str, str | int]:
        """Return the voucher as JSON has it."""
        own = {"chain": self.domain.chain_id, "service": self.domain.service}
        return {**asdict(self.voucher), **own, "signature": "0x" + self.signature.hex()}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the voucher that JSON has.

        Raises:
            ReceiptError: it is none, or is not signed by the client that it names.
        """
        try:
            domain = Domain(int(document["chain"]), _checksum(document["service"]))
            parties = (_checksum(document["client"]), _checksum(document["provider"]))
            voucher = Voucher(*parties, int(document["total_wei"]))
            signature = bytes.fromhex(document["signature"].removeprefix("0x"))
            is_clients = is_signed(voucher.hash(domain), signature, voucher.client)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ReceiptError("this is no voucher; `moot service voucher` makes one") from error
        if not is_clients:
            raise ReceiptError(f"the voucher is not signed by {voucher.client}, whom it names")
        return cls(domain, voucher, signature)


def _checksum(address: Any) -> Address:
    return str(to_checksum_address(address))


def _bind(chain: Chain, address: Address) -> Contract:
    refusal = UsageError(f"the contract at {address} is no service of this version; check it")
    try:
        contract = chain.at(compile_contract("service"), ChainAddress(address.lower()))
        contract.call("challenges_contract")
    except (BadCall, Reverted, LookupError, TypeError, ValueError) as error:
        raise refusal from error
    return contract
