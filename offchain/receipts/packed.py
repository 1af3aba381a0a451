"""The packed form of a signed receipt: 450 bytes that are the same for everybody."""

import base64
import binascii
from dataclasses import dataclass, fields
from typing import Any, Self

from eth_utils.address import to_checksum_address

from moot.contracts.model.receipts import (
    RECEIPT_TYPES,
    VERSION,
    WIDTHS,
    Domain,
    Receipt,
    encode_field,
)
from moot.contracts.model.signatures import SIGNATURE_BYTES, is_signed
from moot.contracts.model.types import Address
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import ReceiptError, UsageError

_CHAIN_BYTES, _ADDRESS_BYTES = 8, 20
_HEAD_BYTES = 1 + _CHAIN_BYTES + _ADDRESS_BYTES
SIGNED_BYTES = _HEAD_BYTES + sum(WIDTHS[kind] for kind, _ in RECEIPT_TYPES)
PACKED_BYTES = SIGNED_BYTES + SIGNATURE_BYTES


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A receipt, the service that it is for, and the provider's signature.

    Attributes:
        domain: the service.
        receipt: the terms and the claim.
        signature: 65 bytes, r, s and v, which is 27 or 28.
    """

    domain: Domain
    receipt: Receipt
    signature: bytes

    @property
    def digest(self) -> Digest:
        """The EIP-712 digest that is signed; a receipt is known by it."""
        return self.receipt.hash(self.domain)

    def pack(self) -> bytes:
        """Return the packed form."""
        domain, data = self.domain, bytearray([VERSION])
        data += domain.chain_id.to_bytes(_CHAIN_BYTES, "big") + bytes.fromhex(domain.service[2:])
        for (kind, _), field in zip(RECEIPT_TYPES, fields(self.receipt), strict=True):
            data += encode_field(kind, getattr(self.receipt, field.name))
        return bytes(data) + self.signature

    @classmethod
    def unpack(cls, data: bytes, *, is_own: bool = False) -> Self:
        """Return a receipt whose signature is the provider's.

        Args:
            data: the packed form.
            is_own: whether we have packed it: the signature is not looked at then.

        Raises:
            ReceiptError: the bytes are of another version or length, or are not signed by the
                provider that they name.
        """
        if len(data) != PACKED_BYTES or data[0] != VERSION:
            version = f"version {data[0]}" if data else "no version"
            raise ReceiptError(
                f"this is no receipt of version {VERSION}: it has {len(data)} bytes and {version}, "
                f"not {PACKED_BYTES}"
            )
        chain_id = int.from_bytes(data[1 : 1 + _CHAIN_BYTES], "big")
        service = _read_address(data[1 + _CHAIN_BYTES : _HEAD_BYTES])
        values, at = [], _HEAD_BYTES
        for kind, _ in RECEIPT_TYPES:
            values.append(_unpack_field(kind, data[at : at + WIDTHS[kind]]))
            at += WIDTHS[kind]
        signed = cls(Domain(chain_id, service), Receipt(*values), data[at:])
        if not is_own and not is_signed(signed.digest, signed.signature, signed.receipt.provider):
            raise ReceiptError(
                f"the receipt names {signed.receipt.provider} as its provider, who has not signed "
                "it; ask for it again"
            )
        return signed

    def encode(self) -> str:
        """Return the packed form as text, for a header or JSON."""
        return base64.b64encode(self.pack()).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the receipt of `encode`; raises as `unpack` does."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ReceiptError("the receipt is not base64") from error
        return cls.unpack(data)


def require_same(service: Domain, signed: Domain, what: str) -> None:
    """Refuse what is signed for another service, a receipt or a voucher (`UsageError`)."""
    if signed != service:
        raise UsageError(
            f"the {what} is for service {signed.service} on chain {signed.chain_id}; choose that "
            "--service"
        )


def _unpack_field(kind: str, data: bytes) -> Any:
    if kind == "address":
        return _read_address(data)
    return data if kind == "bytes32" else int.from_bytes(data, "big")


def _read_address(data: bytes) -> Address:
    return str(to_checksum_address(data))
