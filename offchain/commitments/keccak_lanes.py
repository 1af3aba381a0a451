"""Keccak-256 of many messages at once, one in each 64-bit lane of a vector.

`permute_round` says what Keccak does; it runs on Python integers in `keccak256_reference` and
writes the vector code in `_permute`. A state is 25 vectors, which 32 registers hold.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted
from moot.offchain.native.machine import VECTOR_BITS, get_features
from moot.offchain.native.vectors import WORD

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Word = TypeVar("Word")

DIGEST_BYTES = 32
DIGEST_WORDS = DIGEST_BYTES // 8
RATE_BYTES = 136
RATE_WORDS = RATE_BYTES // 8
STATE_WORDS = 25
LANES = VECTOR_BITS // 64


class WordOperations(Protocol[Word]):
    """The operations of a round on 64-bit words, in any representation."""

    def xor(self, a: Word, b: Word) -> Word:
        """Exclusive or."""

    def xor_three(self, a: Word, b: Word, c: Word) -> Word:
        """Exclusive or of three, which some processors do at once."""

    def clear(self, a: Word, b: Word) -> Word:
        """The bits of `b` that are not in `a`."""

    def rotate(self, a: Word, count: int) -> Word:
        """Rotate left by `count` bits."""


def _find_moves() -> list[tuple[int, int]]:
    """The place from which pi takes each word, and the bits by which rho has rotated it."""
    moves = [(0, 0)] * STATE_WORDS
    x, y = 1, 0
    for t in range(24):
        source = x + 5 * y
        x, y = y, (2 * x + 3 * y) % 5
        moves[x + 5 * y] = source, (t + 1) * (t + 2) // 2 % 64
    return moves


_MOVES = _find_moves()


def permute_round(a: Sequence[Word], constant: Word, word: WordOperations[Word]) -> list[Word]:
    """One round of Keccak-f[1600] (FIPS 202, section 3.2); word (x, y) is `a[x + 5 * y]`.

    It goes row by row of its result, so that few words are alive at once and rotations, of which
    processors do fewer at a time, alternate with the rest.
    """
    parity = list(a[:5])
    for i in range(5, 25, 10):
        for x in range(5):
            parity[x] = word.xor_three(parity[x], a[i + x], a[i + 5 + x])
    turned = [word.rotate(parity[x], 1) for x in range(5)]

    def mix(source: int) -> Word:
        x = source % 5
        return word.xor_three(a[source], parity[(x + 4) % 5], turned[(x + 1) % 5])

    chi: list[Word] = []
    for y in range(5):
        row = [word.rotate(mix(source), count) for source, count in _MOVES[5 * y : 5 * y + 5]]
        chi += [word.xor(row[x], word.clear(row[(x + 1) % 5], row[(x + 2) % 5])) for x in range(5)]
    return [word.xor(chi[0], constant), *chi[1:]]


def _round_constants() -> list[int]:
    """The 24 constants of iota, from the shift register x^8 + x^6 + x^5 + x^4 + 1."""
    constants = []
    register = 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << (2**j - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


ROUND_CONSTANTS = _round_constants()
_ROUNDS = len(ROUND_CONSTANTS)


class IntegerWords:
    """Words as Python integers."""

    def xor(self, a: int, b: int) -> int:
        """Exclusive or."""
        return a ^ b

    def xor_three(self, a: int, b: int, c: int) -> int:
        """Exclusive or of three."""
        return a ^ b ^ c

    def clear(self, a: int, b: int) -> int:
        """The bits of `b` that are not in `a`."""
        return b & ~a

    def rotate(self, a: int, count: int) -> int:
        """Rotate left by `count` bits."""
        return (a << count | a >> (64 - count)) & (2**64 - 1)


def keccak256_reference(message: bytes) -> bytes:
    """Keccak-256 of one message by the readable definition, 32 bytes."""
    padded = bytearray(message) + bytes(RATE_BYTES - len(message) % RATE_BYTES)
    padded[len(message)] ^= 0x01
    padded[-1] ^= 0x80
    state = [0] * STATE_WORDS
    for block in np.frombuffer(padded, "<u8").reshape(-1, RATE_WORDS).tolist():
        for i, word in enumerate(block):
            state[i] ^= word
        for constant in ROUND_CONSTANTS:
            state = permute_round(state, constant, IntegerWords())
    return np.array(state[:4], "<u8").tobytes()


_VECTOR = ir.VectorType(WORD, LANES)

_HAS_THREE = LANES == 8 and "+avx512f" in get_features().split(",")
"""Whether one instruction computes any function of three vectors' bits."""

_PARITY = 0x96
"""The table of the exclusive or of three bits."""


class _VectorWords:
    """Words as LLVM vectors: the same word of every lane's state."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    def xor(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.xor(a, b)

    def xor_three(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        if not _HAS_THREE:
            return self.xor(self.xor(a, b), c)
        # LLVM would share the exclusive or of two among five, which takes more operations.
        kind = ir.FunctionType(_VECTOR, [*[_VECTOR] * 3, vectors.INDEX])
        name = "llvm.x86.avx512.pternlog.q.512"
        function = self._builder.module.globals.get(name)
        function = function or ir.Function(self._builder.module, kind, name)
        return self._builder.call(function, [a, b, c, vectors.INDEX(_PARITY)])

    def clear(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.and_(self._builder.not_(a), b)

    def rotate(self, a: ir.Value, count: int) -> ir.Value:
        counts = ir.Constant(_VECTOR, [count] * LANES)
        return vectors.call(self._builder, "llvm.fshl", [a, a, counts])


def _join(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """The lanes of vectors of one type, a power of two of them, one vector after the other."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [vectors.shuffle(builder, a, b, lanes) for a, b in pairs]
    return parts[0]


def _load_pair(builder: ir.IRBuilder, starts: Sequence[ir.Value], first: int) -> list[ir.Value]:
    """Two neighbouring words of a block, each as a vector over the messages."""
    pair = ir.VectorType(WORD, 2)
    rows = [vectors.load(builder, pair, start, 8 * first) for start in starts]
    even, odd = (_join(builder, rows[lane::2]) for lane in range(2))
    return [
        vectors.shuffle(builder, even, odd, [i + j for i in range(w, LANES, 2) for j in (0, LANES)])
        for w in range(2)
    ]


def _load_block(builder: ir.IRBuilder, message: ir.Value, stride: ir.Value) -> list[ir.Value]:
    """The 17 words of one block, each as a vector over the messages."""
    starts = [builder.add(message, builder.mul(stride, WORD(lane))) for lane in range(LANES)]
    pairs = [_load_pair(builder, starts, first) for first in range(0, RATE_WORDS - 1, 2)]
    _, last = _load_pair(builder, starts, RATE_WORDS - 2)
    return [*(word for pair in pairs for word in pair), last]


def _permute(builder: ir.IRBuilder, state: list[ir.Value], rounds: ir.Value) -> list[ir.Value]:
    """So many of the 24 rounds, the first ones, on the states of all lanes."""
    table = ir.Constant(ir.ArrayType(WORD, _ROUNDS), ROUND_CONSTANTS)
    name = builder.module.get_unique_name("keccak_round_constants")
    constants = ir.GlobalVariable(builder.module, table.type, name)
    constants.initializer, constants.global_constant, constants.linkage = table, True, "internal"

    def permute_once(index: ir.Value, words: list[ir.Value]) -> list[ir.Value]:
        constant = builder.load(builder.gep(constants, [WORD(0), index]))
        return permute_round(words, vectors.splat(builder, constant, LANES), _VectorWords(builder))

    return vectors.repeat(builder, rounds, state, permute_once)


def _absorb(
    builder: ir.IRBuilder,
    words: list[ir.Value],
    message: ir.Value,
    stride: ir.Value,
    masks: ir.Value,
    rounds: ir.Value,
) -> list[ir.Value]:
    """Absorb one block of each lane's message; they lie `stride` bytes apart.

    `masks` is the address of 17 words to intersect each block with and 17 to add to it. So many
    rounds follow.
    """
    words = list(words)
    for i, word in enumerate(_load_block(builder, message, stride)):
        keep, add = (
            vectors.splat(builder, vectors.load(builder, WORD, masks, 8 * offset), LANES)
            for offset in (i, RATE_WORDS + i)
        )
        words[i] = builder.xor(words[i], builder.xor(builder.and_(word, keep), add))
    return _permute(builder, words, rounds)


@emitted(types.void, *[types.intp] * 5)
def hash_lanes(
    builder: ir.IRBuilder,
    message: ir.Value,
    stride: ir.Value,
    masks: ir.Value,
    blocks: ir.Value,
    digests: ir.Value,
) -> None:
    """Hash messages that lie `stride` bytes apart, one in each lane, `blocks` blocks of each.

    The other arguments are addresses. Every lane's digest is written, one after the other. Of the
    last round of the last block only the digest's words are computed.
    """
    last = builder.sub(blocks, WORD(1))

    def absorb(index: ir.Value, words: list[ir.Value]) -> list[ir.Value]:
        is_last = builder.icmp_unsigned("==", index, last)
        inner = builder.select(is_last, WORD(2), WORD(1))
        kind = builder.select(builder.icmp_unsigned("==", index, WORD(0)), WORD(0), inner)
        offset = builder.mul(index, WORD(RATE_BYTES))
        ahead = builder.add(message, builder.mul(builder.add(stride, offset), WORD(LANES)))
        vectors.prefetch(builder, ahead, LANES * RATE_BYTES)
        start = builder.add(message, offset)
        own_masks = builder.add(masks, builder.mul(kind, WORD(2 * RATE_BYTES)))
        rounds = builder.select(is_last, WORD(_ROUNDS - 1), WORD(_ROUNDS))
        return _absorb(builder, words, start, stride, own_masks, rounds)

    empty = [ir.Constant(_VECTOR, None)] * STATE_WORDS
    words = vectors.repeat(builder, blocks, empty, absorb)
    constant = ir.Constant(_VECTOR, [ROUND_CONSTANTS[-1]] * LANES)
    words = permute_round(words, constant, _VectorWords(builder))[:DIGEST_WORDS]
    every = _join(builder, words)
    for lane in range(LANES):
        digest = [lane + LANES * i for i in range(DIGEST_WORDS)]
        row = vectors.shuffle(builder, every, every, digest)
        vectors.store(builder, row, digests, DIGEST_BYTES * lane)


@lru_cache(maxsize=64)
def make_masks(chunk_bytes: int, tag: int) -> Words:
    """What to keep of, and to add to, the first, an inner and the final block of a message.

    The message is tag || chunk, padded; what is loaded as a block begins one byte early, since
    the tag is not there.
    """
    final = (chunk_bytes + 1) // RATE_BYTES * RATE_BYTES
    masks = np.zeros((3, 2, RATE_BYTES), np.uint8)
    for (keep, add), offset in zip(masks, (0, RATE_BYTES, final), strict=True):
        keep[max(1 - offset, 0) : max(chunk_bytes + 1 - offset, 0)] = 0xFF
        if offset == 0:
            add[0] = tag
        if offset == final:
            add[chunk_bytes + 1 - final] ^= 0x01
            add[-1] ^= 0x80
    return masks.view(np.uint64)
