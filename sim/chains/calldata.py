"""The calldata of a call as chains charge for it: its bytes, and the transaction's compressed.

Rollups compress the signed transaction, of which the calldata is the most. What is known of a
played call is its calldata; the rest is put around it as a transaction of type 2 has it, with a
signature that nothing compresses.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256

from moot.sim.chains.fastlz import count_compressed

BROTLI_LEVEL = 1
"""The level at which Arbitrum compresses a transaction to charge for it: ArbOS 20 and later."""
ENVELOPE_BYTES = 128
"""What a signed transaction has at most beside its calldata and an access list, which is empty."""
_EXPANSION = 32
"""FastLZ adds a byte for every so many that it cannot compress."""


@dataclass(frozen=True)
class Calldata:
    """The calldata of a call, known byte by byte.

    Attributes:
        data: the bytes.
    """

    data: bytes

    @cached_property
    def zeros(self) -> int:
        """The number of bytes that are zero."""
        return self.data.count(0)

    @property
    def nonzeros(self) -> int:
        """The number of other bytes."""
        return len(self.data) - self.zeros

    @cached_property
    def fastlz_bytes(self) -> int:
        """The length of the signed transaction after FastLZ, which the OP stack reckons with."""
        return _count_fastlz(self.data)

    @cached_property
    def brotli_bytes(self) -> int:
        """The length of the signed transaction after Brotli, which Arbitrum reckons with."""
        return compress_brotli(sign(self.data))


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that so many bytes of calldata can be charged as: none is zero, none compresses.

    Attributes:
        nonzeros: the number of bytes.
    """

    nonzeros: int
    zeros: int = 0

    @property
    def fastlz_bytes(self) -> int:
        """The length of the signed transaction after FastLZ, at most."""
        whole = self.brotli_bytes
        return whole + -(-whole // _EXPANSION)

    @property
    def brotli_bytes(self) -> int:
        """The length of the signed transaction after Brotli, at most."""
        return self.nonzeros + self.zeros + ENVELOPE_BYTES


@lru_cache(maxsize=4096)
def _count_fastlz(data: bytes) -> int:
    return count_compressed(sign(data))


def compress_brotli(data: bytes) -> int:
    """Return the length of some bytes after Brotli at the level of `BROTLI_LEVEL`."""
    from pyarrow import Codec  # noqa: PLC0415 - takes a tenth of a second

    return len(Codec("brotli", compression_level=BROTLI_LEVEL).compress(data))


def sign(data: bytes) -> bytes:
    """Return a signed transaction of type 2 with this calldata; the digest of it is the signature.

    All that is not calldata has the usual number of bytes, and none that are more often the same
    than a transaction's are.
    """
    salt = sha256(data).digest()
    fields = (
        b"\x0a",  # the chain
        salt[:2],  # the nonce
        salt[2:6],  # the tip
        salt[6:10],  # the fee
        salt[10:13],  # the limit of gas
        sha256(b"referee").digest()[:20],
        b"",  # the value
        data,
    )
    signature = (b"\x01", sha256(salt + b"r").digest(), sha256(salt + b"s").digest())
    items = b"".join((*map(_encode, fields), b"\xc0", *map(_encode, signature)))
    return b"\x02" + _prefix(items, 0xC0) + items


def _encode(value: bytes) -> bytes:
    """Return the RLP of some bytes."""
    return value if len(value) == 1 and value[0] < 0x80 else _prefix(value, 0x80) + value


def _prefix(value: bytes, offset: int) -> bytes:
    if len(value) < 56:
        return bytes([offset + len(value)])
    length = len(value).to_bytes((len(value).bit_length() + 7) // 8, "big")
    return bytes([offset + 55 + len(length)]) + length
