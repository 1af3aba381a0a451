"""Signatures of digests, as the contract takes them: r, s and v, in the one form of two."""

from functools import lru_cache
from typing import Final

from coincurve import PublicKey

from moot.contracts.model.types import Address
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tree import Digest

SIGNATURE_BYTES: Final = 65
MAX_S: Final = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
"""Half the order of secp256k1: of the two signatures with one meaning, that with the lower s."""
FIRST_V: Final = 27
"""What is added to the number that tells which of two keys has signed."""


def is_signed(digest: Digest, signature: bytes, signer: Address) -> bool:
    """Whether an account has signed a digest; no signature is of the zero address."""
    return recover(digest, signature) == int(signer, 16)


@lru_cache(maxsize=1 << 12)
def recover(digest: Digest, signature: bytes) -> int | None:
    """Return the address that has signed a digest, as a number; None if that is no signature."""
    if len(signature) != SIGNATURE_BYTES or signature[64] - FIRST_V not in {0, 1}:
        return None
    if int.from_bytes(signature[32:64], "big") > MAX_S:
        return None
    parts = signature[:64] + bytes([signature[64] - FIRST_V])
    try:
        key = PublicKey.from_signature_and_message(parts, digest, hasher=None)
    except ValueError:
        return None
    return int.from_bytes(keccak256(key.format(compressed=False)[1:])[-20:], "big")
