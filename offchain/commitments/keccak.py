"""Keccak-256, the one hash of every commitment: eight messages at once in vector lanes.

A leaf of a tree is keccak256(tag || chunk) and an inner node keccak256(tag || left || right), where
the tag is one byte. `permute_round` says what Keccak does; it runs on Python integers in
`keccak256_reference` and writes the vector code in `_absorb`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from eth_hash.auto import keccak
from llvmlite import ir
from numba.core import types

from offchain.execution.kernels import buffers, vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import share
from offchain.execution.kernels.vectors import INDEX, WORD

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Word = TypeVar("Word")

DIGEST_BYTES = 32
DIGEST_WORDS = DIGEST_BYTES // 8
RATE_BYTES = 136
RATE_WORDS = RATE_BYTES // 8
STATE_WORDS = 25
LANES = 8

SUBTREE_LEVELS = 10
"""Levels of a tree that are hashed without leaving the cache."""

_BLOCK_CHUNKS = 1 << SUBTREE_LEVELS
_GRAIN_BYTES = 2**18

_PAD = 2
_SCRATCH_WORDS = (_PAD + _BLOCK_CHUNKS + 2 * LANES) * DIGEST_WORDS + RATE_WORDS
"""A block's digests, and what the lanes read before and behind them."""


def keccak256(message: bytes) -> bytes:
    """Keccak-256 of one message, 32 bytes."""
    return keccak(message)


def hash_chunks(data: Bytes, chunk_bytes: int, tag: int) -> Bytes:
    """Hash every chunk of `data`: digest i is keccak256(tag || chunk i).

    Args:
        data: (bytes,) uint8, contiguous.
        chunk_bytes: size of a chunk, at least 1; the last chunk may be shorter.
        tag: 0 to 255.

    Returns:
        (ceil(bytes / chunk_bytes), 32) uint8.
    """
    digests = buffers.empty((-(-data.size // chunk_bytes), DIGEST_BYTES), np.uint8)
    _hash_leaves(data, chunk_bytes, tag, digests)
    return digests


def hash_pairs(nodes: Bytes, tag: int) -> Bytes:
    """Hash neighbours together: parent i is keccak256(tag || node 2i || node 2i + 1).

    Args:
        nodes: (n, 32) uint8, contiguous; an odd last node is its own parent, unchanged.
        tag: 0 to 255.

    Returns:
        (ceil(n / 2), 32) uint8.
    """
    pairs = len(nodes) // 2
    parents = buffers.empty((len(nodes) - pairs, DIGEST_BYTES), np.uint8)
    _hash_leaves(nodes[: 2 * pairs].reshape(-1), 2 * DIGEST_BYTES, tag, parents[:pairs])
    parents[pairs:] = nodes[2 * pairs :]
    return parents


def hash_subtrees(
    data: Bytes,
    chunk_bytes: int,
    tag: int,
    node_tag: int,
    encode: Callable[[Bytes], Bytes] = lambda part: part,
) -> Bytes:
    """Return a level of the tree over all chunks, whose lower levels never leave the cache.

    Args:
        data: (bytes,) uint8, contiguous, at least one.
        chunk_bytes: size of a chunk, at least 1; the last chunk may be shorter.
        tag: tag of the chunks, 0 to 255.
        node_tag: tag of the inner nodes, as in `hash_pairs`.
        encode: what is hashed in place of a part of the data; it is of the same size.

    Returns:
        (ceil(chunks / 2^SUBTREE_LEVELS), 32) uint8: what `hash_pairs` makes of the chunks' digests
        when it is applied SUBTREE_LEVELS times.
    """
    chunks = -(-data.size // chunk_bytes)
    subtrees = -(-chunks // _BLOCK_CHUNKS)
    tops = np.empty((subtrees, DIGEST_BYTES), np.uint8)
    size = _BLOCK_CHUNKS * chunk_bytes

    def work(first: int, stop: int) -> None:
        for subtree in range(first, stop):
            part = encode(data[subtree * size : (subtree + 1) * size])
            top = tops[subtree : subtree + 1]
            if part.size % chunk_bytes:
                top[:] = _hash_ragged(part, chunk_bytes, tag, node_tag)
            else:
                count = part.size // chunk_bytes
                _hash_range(part, chunk_bytes, (tag, node_tag), SUBTREE_LEVELS, top, 0, count)

    share(work, subtrees, -(-_GRAIN_BYTES // size))
    return tops


def _hash_ragged(data: Bytes, chunk_bytes: int, tag: int, node_tag: int) -> Bytes:
    """Return the top of a tree whose last chunk is shorter than the others."""
    nodes = hash_chunks(data, chunk_bytes, tag)
    while len(nodes) > 1:
        nodes = hash_pairs(nodes, node_tag)
    return nodes


def _hash_leaves(data: Bytes, chunk_bytes: int, tag: int, digests: Bytes) -> None:
    full = data.size // chunk_bytes
    grain = _BLOCK_CHUNKS * max(1, _GRAIN_BYTES // (_BLOCK_CHUNKS * chunk_bytes))

    def work(first: int, stop: int) -> None:
        _hash_range(data, chunk_bytes, (tag, tag), 0, digests, first, stop)

    share(work, full, grain)
    if full < len(digests):
        tail = data[full * chunk_bytes :]
        _hash_range(tail, tail.size, (tag, tag), 0, digests[full:], 0, 1)


class WordOperations(Protocol[Word]):
    """What a round does to 64-bit words, whatever represents them."""

    def xor(self, a: Word, b: Word) -> Word:
        """Exclusive or."""

    def clear(self, a: Word, b: Word) -> Word:
        """The bits of `b` that are not in `a`."""

    def rotate(self, a: Word, count: int) -> Word:
        """Rotate left by `count` bits."""


def permute_round(a: Sequence[Word], constant: Word, word: WordOperations[Word]) -> list[Word]:
    """One round of Keccak-f[1600] (FIPS 202, section 3.2); word (x, y) is `a[x + 5 * y]`."""
    parity = list(a[:5])
    for i in range(5, 25):
        parity[i % 5] = word.xor(parity[i % 5], a[i])
    theta = [
        word.xor(a[i], word.xor(parity[(i + 4) % 5], word.rotate(parity[(i + 1) % 5], 1)))
        for i in range(25)
    ]
    pi = list(theta)
    x, y = 1, 0
    for t in range(24):
        rho = word.rotate(theta[x + 5 * y], (t + 1) * (t + 2) // 2 % 64)
        x, y = y, (2 * x + 3 * y) % 5
        pi[x + 5 * y] = rho
    chi = []
    for i in range(25):
        row = i // 5 * 5
        chi.append(word.xor(pi[i], word.clear(pi[row + (i + 1) % 5], pi[row + (i + 2) % 5])))
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


class IntegerWords:
    """Words as Python integers."""

    def xor(self, a: int, b: int) -> int:
        """Exclusive or."""
        return a ^ b

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


class _VectorWords:
    """Words as LLVM vectors: the same word of eight states."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    def xor(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.xor(a, b)

    def clear(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.and_(self._builder.not_(a), b)

    def rotate(self, a: ir.Value, count: int) -> ir.Value:
        counts = ir.Constant(_VECTOR, [count] * LANES)
        return vectors.call(self._builder, "llvm.fshl", [a, a, counts])


def _load_block(builder: ir.IRBuilder, message: ir.Value, stride: ir.Value) -> list[ir.Value]:
    """The 17 words of one block, each as a vector over the eight messages."""
    starts = [builder.add(message, builder.mul(stride, WORD(lane))) for lane in range(LANES)]
    words: list[ir.Value] = []
    for offset in (0, 8 * LANES):
        rows = [vectors.load(builder, _VECTOR, start, offset) for start in starts]
        words += vectors.transpose(builder, rows)
    last = _VECTOR(ir.Undefined)
    for lane, start in enumerate(starts):
        word = vectors.load(builder, WORD, start, RATE_BYTES - 8)
        last = builder.insert_element(last, word, INDEX(lane))
    return [*words, last]


def _permute(builder: ir.IRBuilder, state: list[ir.Value]) -> list[ir.Value]:
    """All 24 rounds on eight states."""
    rounds = len(ROUND_CONSTANTS)
    table = ir.Constant(ir.ArrayType(WORD, rounds), ROUND_CONSTANTS)
    name = builder.module.get_unique_name("keccak_round_constants")
    constants = ir.GlobalVariable(builder.module, table.type, name)
    constants.initializer, constants.global_constant, constants.linkage = table, True, "internal"

    def permute_once(index: ir.Value, words: list[ir.Value]) -> list[ir.Value]:
        constant = builder.load(builder.gep(constants, [WORD(0), index]))
        return permute_round(words, vectors.splat(builder, constant, LANES), _VectorWords(builder))

    return vectors.repeat(builder, WORD(rounds), state, permute_once)


@emitted(types.void, *[types.intp] * 5)
def _absorb(
    builder: ir.IRBuilder,
    state: ir.Value,
    message: ir.Value,
    stride: ir.Value,
    masks: ir.Value,
    ahead: ir.Value,
) -> None:
    """Absorb one block of each of eight messages, which lie `stride` bytes apart.

    The other arguments are addresses. `masks` holds 17 words to intersect each block with and 17 to
    add to it. The cache is asked for what lies at `ahead`.
    """
    words = [vectors.load(builder, _VECTOR, state, 8 * LANES * i) for i in range(STATE_WORDS)]
    for i, word in enumerate(_load_block(builder, message, stride)):
        keep, add = (
            vectors.splat(builder, vectors.load(builder, WORD, masks, 8 * offset), LANES)
            for offset in (i, RATE_WORDS + i)
        )
        words[i] = builder.xor(words[i], builder.xor(builder.and_(word, keep), add))
    vectors.prefetch(builder, ahead, LANES * RATE_BYTES)
    for i, word in enumerate(_permute(builder, words)):
        vectors.store(builder, word, state, 8 * LANES * i)


@lru_cache(maxsize=64)
def _block_masks(chunk_bytes: int, tag: int) -> Words:
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


def _hash_range(
    data: Bytes,
    chunk_bytes: int,
    tags: tuple[int, int],
    levels: int,
    nodes: Bytes,
    first: int,
    stop: int,
) -> None:
    """Hash the full chunks `first` to `stop` of `data`, and blocks of them up so many levels."""
    masks = _kernel_masks(chunk_bytes, *tags)
    margin = np.empty(1 + LANES * chunk_bytes + RATE_BYTES, np.uint8)
    scratch = np.empty(_SCRATCH_WORDS, np.uint64)
    words = nodes.reshape(-1).view(np.uint64)
    _hash_blocks(data, chunk_bytes, masks, margin, scratch, levels, words, first, stop)


@lru_cache(maxsize=64)
def _kernel_masks(chunk_bytes: int, tag: int, node_tag: int) -> Words:
    """The masks of chunks and of inner nodes."""
    masks = _block_masks(chunk_bytes, tag), _block_masks(2 * DIGEST_BYTES, node_tag)
    return np.ascontiguousarray(np.stack(masks).reshape(2, 3, -1))


@subroutine
def _place_messages(data: Bytes, margin: Bytes, leaf: int, lanes: int, size: int) -> int:
    """Return the address of chunks, in `margin` where the lanes reach beyond `data`."""
    if leaf > 0 and (leaf + LANES) * size + RATE_BYTES <= data.size:
        return int(data.ctypes.data) + leaf * size
    for i in range(lanes * size):
        margin[1 + i] = data[leaf * size + i]
    return int(margin.ctypes.data) + 1


@subroutine
def _hash_lanes(state: Words, start: int, size: int, masks: int) -> None:
    """Hash eight messages that lie one after the other."""
    final = (size + 1) // RATE_BYTES * RATE_BYTES
    state[:] = 0
    for offset in range(0, final + 1, RATE_BYTES):
        kind = 0 if offset == 0 else 2 if offset == final else 1
        ahead = start + LANES * (size + offset)
        _absorb(state.ctypes.data, start + offset - 1, size, masks + kind * 2 * RATE_BYTES, ahead)


@subroutine
def _copy_nodes(source: Words, first: int, target: Words, place: int, count: int) -> None:
    """Copy digests between arrays of words."""
    for i in range(count * DIGEST_WORDS):
        target[place * DIGEST_WORDS + i] = source[first * DIGEST_WORDS + i]


@kernel(
    reads(types.uint8, 1),
    types.int64,
    reads(types.uint64, 3),
    writes(types.uint8, 1),
    writes(types.uint64, 1),
    types.int64,
    writes(types.uint64, 1),
    types.int64,
    types.int64,
)
def _hash_blocks(
    data: Bytes,
    chunk_bytes: int,
    masks: Words,
    margin: Bytes,
    scratch: Words,
    levels: int,
    nodes: Words,
    first: int,
    stop: int,
) -> None:
    """Hash blocks of chunks, eight messages at a time, and climb so many levels in each block.

    Parents take the place of children in `scratch`, before those that are still to be read.
    """
    state = np.empty((STATE_WORDS, LANES), np.uint64)
    for block in range(first, stop, _BLOCK_CHUNKS):
        count = min(_BLOCK_CHUNKS, stop - block)
        for level in range(levels + 1):
            size = chunk_bytes if level == 0 else 2 * DIGEST_BYTES
            messages = count if level == 0 else count // 2
            own_masks = masks[min(level, 1)].ctypes.data
            for message in range(0, messages, LANES):
                lanes = min(LANES, messages - message)
                start = scratch.ctypes.data + _PAD * DIGEST_BYTES + message * size
                if level == 0:
                    start = _place_messages(data, margin, block + message, lanes, size)
                _hash_lanes(state, start, size, own_masks)
                for lane in range(lanes):
                    for i in range(DIGEST_WORDS):
                        scratch[(_PAD + message + lane) * DIGEST_WORDS + i] = state[i, lane]
            if level > 0:
                _copy_nodes(scratch, _PAD + count - 1, scratch, _PAD + messages, count % 2)
                count = messages + count % 2
        _copy_nodes(scratch, _PAD, nodes, block >> levels, count)
