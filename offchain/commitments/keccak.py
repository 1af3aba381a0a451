"""Keccak-256, the one hash of every commitment: eight messages at once in vector lanes, on all threads.

A leaf of a tree is keccak256(tag || chunk) and an inner node keccak256(tag || left || right), with a tag of one byte.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from offchain.execution.kernels.compiled import emitted, kernel, subroutine, reads, writes
from offchain.execution.kernels.threads import share

Bytes = npt.NDArray[np.uint8]

LANES = 8
RATE_BYTES = 136
RATE_WORDS = RATE_BYTES // 8
STATE_WORDS = 25
DIGEST_BYTES = 32

Word = TypeVar("Word")


class WordOperations(Protocol[Word]):
    """What the permutation needs to do with 64-bit words, whatever represents them."""

    def xor(self, a: Word, b: Word) -> Word:
        """Exclusive or."""

    def clear(self, a: Word, b: Word) -> Word:
        """The bits of `b` that are not in `a`."""

    def rotate(self, a: Word, count: int) -> Word:
        """Rotate left by `count` bits."""


def _round_constants() -> tuple[int, ...]:
    """Iota's constants, from the linear feedback shift register x^8 + x^6 + x^5 + x^4 + 1."""
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


ROUND_CONSTANTS = _round_constants()


def permute_round(a: Sequence[Word], constant: Word, word: WordOperations[Word]) -> list[Word]:
    """One round of Keccak-f[1600] on the 25 words of the state; word (x, y) is `a[x + 5 * y]`."""
    c = [a[x] for x in range(5)]
    for y in range(1, 5):
        c = [word.xor(c[x], a[x + 5 * y]) for x in range(5)]
    d = [word.xor(c[(x + 4) % 5], word.rotate(c[(x + 1) % 5], 1)) for x in range(5)]
    theta = [word.xor(a[i], d[i % 5]) for i in range(25)]

    b = list(theta)
    x, y = 1, 0
    for t in range(24):
        offset = (t + 1) * (t + 2) // 2 % 64
        b[y + 5 * ((2 * x + 3 * y) % 5)] = word.rotate(theta[x + 5 * y], offset)
        x, y = y, (2 * x + 3 * y) % 5

    chi = [
        word.xor(b[i], word.clear(b[i // 5 * 5 + (i + 1) % 5], b[i // 5 * 5 + (i + 2) % 5]))
        for i in range(25)
    ]
    return [word.xor(chi[0], constant), *chi[1:]]


class _IntegerWords:
    """Words as Python integers: the readable definition."""

    def xor(self, a: int, b: int) -> int:
        return a ^ b

    def clear(self, a: int, b: int) -> int:
        return ~a & b

    def rotate(self, a: int, count: int) -> int:
        return (a << count | a >> (64 - count)) & 0xFFFF_FFFF_FFFF_FFFF


class _VectorWords:
    """Words as LLVM vectors that hold one word of each of the eight states."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    def xor(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.xor(a, b)

    def clear(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.and_(self._builder.not_(a), b)

    def rotate(self, a: ir.Value, count: int) -> ir.Value:
        name = f"llvm.fshl.v{LANES}i64"
        signature = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, _VECTOR])
        shift = cgutils.get_or_insert_function(self._builder.module, signature, name)
        return self._builder.call(shift, [a, a, ir.Constant(_VECTOR, [count] * LANES)])


_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)


def keccak256_reference(message: bytes) -> bytes:
    """Keccak-256 of `message`, as FIPS 202 defines it but with the original padding."""
    padded = bytearray(message) + bytes(RATE_BYTES - len(message) % RATE_BYTES)
    padded[len(message)] ^= 0x01
    padded[-1] ^= 0x80
    words = np.frombuffer(padded, "<u8").tolist()
    state = [0] * STATE_WORDS
    for start in range(0, len(words), RATE_WORDS):
        for i in range(RATE_WORDS):
            state[i] ^= words[start + i]
        for constant in ROUND_CONSTANTS:
            state = permute_round(state, constant, _IntegerWords())
    return np.array(state[:4], "<u8").tobytes()


def _transpose(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Columns of a square of `LANES` vectors, by exchanging ever smaller halves."""
    width = LANES // 2
    while width:
        low = [i for i in range(LANES) if not i & width]
        for i in low:
            first = [j if not j & width else j - width + LANES for j in range(LANES)]
            second = [j + width for j in first]
            pair = rows[i], rows[i + width]
            rows[i] = _shuffle(builder, *pair, first)
            rows[i + width] = _shuffle(builder, *pair, second)
        width //= 2
    return rows


def _shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: list[int]) -> ir.Value:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes)
    return builder.shuffle_vector(a, b, mask)


def _load(builder: ir.IRBuilder, kind: ir.Type, address: ir.Value, offset: int) -> ir.Value:
    place = builder.add(address, ir.Constant(_WORD, offset))
    return builder.load(builder.inttoptr(place, kind.as_pointer()), align=1)


def _load_block(builder: ir.IRBuilder, message: ir.Value, stride: ir.Value) -> list[ir.Value]:
    """The 17 message words of one block, each as a vector over the eight messages."""
    starts = [builder.add(message, builder.mul(stride, ir.Constant(_WORD, i))) for i in range(LANES)]
    words: list[ir.Value] = []
    for offset in range(0, RATE_BYTES - 64 + 1, 64):
        words += _transpose(builder, [_load(builder, _VECTOR, s, offset) for s in starts])
    last = ir.Constant(_VECTOR, ir.Undefined)
    for i, start in enumerate(starts):
        word = _load(builder, _WORD, start, RATE_BYTES - 8)
        last = builder.insert_element(last, word, ir.Constant(ir.IntType(32), i))
    return [*words, last]


@emitted(types.intp, types.intp, types.intp)
def _absorb(
    builder: ir.IRBuilder, state: ir.Value, message: ir.Value, stride: ir.Value
) -> None:
    """Absorb one block of each of eight messages; `stride` bytes lie between the messages."""
    words = [_load(builder, _VECTOR, state, 64 * i) for i in range(STATE_WORDS)]
    for i, word in enumerate(_load_block(builder, message, stride)):
        words[i] = builder.xor(words[i], word)
    slots = [cgutils.alloca_once_value(builder, word) for word in words]
    constants = cgutils.global_constant(
        builder,
        "keccak_round_constants",
        ir.Constant(ir.ArrayType(_WORD, 24), ROUND_CONSTANTS),
    )
    with cgutils.for_range(builder, ir.Constant(_WORD, 24)) as loop:
        place = builder.gep(constants, [ir.Constant(_WORD, 0), loop.index], inbounds=True)
        one = builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), builder.load(place), ir.Constant(ir.IntType(32), 0)
        )
        constant = _shuffle(builder, one, one, [0] * LANES)
        words = permute_round([builder.load(slot) for slot in slots], constant, _VectorWords(builder))
        for slot, word in zip(slots, words, strict=True):
            builder.store(word, slot)
    for i, slot in enumerate(slots):
        place = builder.add(state, ir.Constant(_WORD, 64 * i))
        builder.store(builder.load(slot), builder.inttoptr(place, _VECTOR.as_pointer()), align=8)


@subroutine
def _fill_block(block, chunk, offset, tag):
    """Write the 136 bytes from `offset` of the padded message tag || chunk into `block`."""
    size = chunk.size
    for i in range(RATE_BYTES):
        block[i] = 0
    for i in range(max(1 - offset, 0), min(RATE_BYTES, size + 1 - offset)):
        block[i] = chunk[offset + i - 1]
    if offset == 0:
        block[0] = tag
    if size + 1 < offset + RATE_BYTES:
        block[size + 1 - offset] ^= 0x01
        block[RATE_BYTES - 1] ^= 0x80


@kernel(reads(types.uint8, 1), types.int64, types.uint8, writes(types.uint8, 2), types.int64, types.int64)
def _hash_equal_chunks(data, chunk_bytes, tag, digests, first, last):
    """Hash chunks `first` to `last` of `chunk_bytes` each."""
    block = np.zeros((LANES, RATE_BYTES), np.uint8)
    state = np.empty((STATE_WORDS, LANES), np.uint64)
    message_bytes = (chunk_bytes + 1) // RATE_BYTES * RATE_BYTES + RATE_BYTES
    for leaf in range(first, last, LANES):
        lanes = min(LANES, last - leaf)
        state[:] = 0
        for offset in range(0, message_bytes, RATE_BYTES):
            if lanes == LANES and 0 < offset < message_bytes - RATE_BYTES:
                _absorb(state.ctypes.data, data.ctypes.data + leaf * chunk_bytes + offset - 1, chunk_bytes)
                continue
            for lane in range(lanes):
                start = (leaf + lane) * chunk_bytes
                _fill_block(block[lane], data[start : start + chunk_bytes], offset, tag)
            _absorb(state.ctypes.data, block.ctypes.data, RATE_BYTES)
        for lane in range(lanes):
            for i in range(DIGEST_BYTES):
                digests[leaf + lane, i] = state[i // 8, lane] >> np.uint64(8 * (i % 8))


def hash_chunks(data: Bytes, chunk_bytes: int, tag: int) -> Bytes:
    full = data.size // chunk_bytes
    digests = np.empty((-(-data.size // chunk_bytes), DIGEST_BYTES), np.uint8)
    share(lambda first, last: _hash_equal_chunks(data, chunk_bytes, tag, digests, first, last), full, max(1, 2**18//(8*(chunk_bytes + RATE_BYTES)))*8)
    if full < len(digests):
        tail = data[full * chunk_bytes :]
        _hash_equal_chunks(tail, tail.size, tag, digests[full:], 0, 1)
    return digests


def hash_pairs(nodes: Bytes, tag: int) -> Bytes:
    paired = len(nodes) // 2 * 2
    parents = hash_chunks(nodes[:paired].reshape(-1), 2 * DIGEST_BYTES, tag)
    return np.concatenate([parents, nodes[paired:]])
