"""The lower levels of trees, block by block, as machine code that never leaves the cache."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types

from moot.offchain.commitments.keccak_lanes import (
    DIGEST_BYTES,
    LANES,
    RATE_BYTES,
    Bytes,
    Words,
    hash_lanes,
    make_masks,
)
from moot.offchain.native import vectors
from moot.offchain.native.buffers import get_address
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.threads import get_threads, share_call
from moot.offchain.native.vectors import BYTE, CACHE_LINE_BYTES, WORD, fill_lines
from moot.offchain.native.words import load_word

SUBTREE_LEVELS = 10
"""Levels of a tree that are hashed without leaving the cache."""

BLOCK_CHUNKS = 1 << SUBTREE_LEVELS

_PAD_BYTES = 2 * DIGEST_BYTES
_SCRATCH_BYTES = _PAD_BYTES + (BLOCK_CHUNKS + 2 * LANES) * DIGEST_BYTES + RATE_BYTES
"""A block's digests, and what the lanes read before and behind them."""

_GRAIN_BYTES = 1 << 18
"""Data that are worth another thread."""

_SCANNED_BYTES = 64
"""Bytes in which NaNs are looked for at once; chunks of floats are multiples of it."""

_SCANNED = ir.VectorType(WORD, _SCANNED_BYTES // 8)


def _make_finder(name: str, find: Callable[[ir.IRBuilder, ir.Value], ir.Value], kind: Any) -> Any:
    """Return code that says whether one of so many times 64 bytes' floats of a type is a NaN."""
    every = ir.IntType(kind.count)

    def emit(builder: ir.IRBuilder, address: ir.Value, count: ir.Value) -> ir.Value:
        def look(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            place = builder.add(address, builder.mul(index, WORD(_SCANNED_BYTES)))
            return [builder.or_(found[0], find(builder, vectors.load(builder, kind, place)))]

        none = ir.Constant(ir.VectorType(ir.IntType(1), kind.count), None)
        (found,) = vectors.repeat(builder, count, [none], look)
        is_any = builder.icmp_unsigned("!=", builder.bitcast(found, every), every(0))
        return builder.zext(is_any, WORD)

    emit.__name__ = name
    return emitted(types.int64, types.intp, types.intp)(emit)


def _are_nan(builder: ir.IRBuilder, floats: ir.Value) -> ir.Value:
    """Which floats are NaNs: those that are in no order with themselves."""
    return builder.fcmp_unordered("uno", floats, floats)


def _are_short_nan(builder: ir.IRBuilder, patterns: ir.Value) -> ir.Value:
    """Which patterns of bfloat16 are NaNs."""
    kind = patterns.type
    magnitude, infinity = (ir.Constant(kind, [x] * kind.count) for x in (0x7FFF, 0x7F80))
    return builder.icmp_unsigned(">", builder.and_(patterns, magnitude), infinity)


_has_nan = _make_finder("find_nan", _are_nan, ir.VectorType(ir.FloatType(), _SCANNED_BYTES // 4))
_has_short_nan = _make_finder(
    "find_short_nan", _are_short_nan, ir.VectorType(ir.IntType(16), _SCANNED_BYTES // 2)
)


@kernel(reads(types.uint8, 1), types.int64, writes(types.uint8, 1))
def _look_for_nan(data: Bytes, float_bytes: int, found: Bytes) -> None:
    """Say whether one of the floats of a width is a NaN, but for those behind the last 64 bytes."""
    start, count = data.ctypes.data, data.size // _SCANNED_BYTES
    if count > 0:
        is_found = _has_nan(start, count) if float_bytes == 4 else _has_short_nan(start, count)
        found[0] = 1 if is_found else 0


def may_have_nan(data: Bytes, float_bytes: int) -> bool:
    """Whether one of the floats of a width, 4 or 2 bytes, is a NaN, or is not looked at."""
    found = np.zeros(1, np.uint8)
    _look_for_nan(data, float_bytes, found)
    return bool(found[0]) or data.size % _SCANNED_BYTES > 0


@emitted(types.void, types.intp)
def _mark(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Write a one to the byte at an address."""
    vectors.store(builder, BYTE(1), address)


@emitted(types.void, types.intp)
def _clear(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Write zeros to as many bytes as NaNs are looked for in at once."""
    vectors.store(builder, ir.Constant(_SCANNED, None), address)


@emitted(types.void, types.intp, types.intp, types.intp)
def _copy(builder: ir.IRBuilder, source: ir.Value, target: ir.Value, count: ir.Value) -> None:
    """Copy so many bytes from an address to another."""
    pointer, flag = BYTE.as_pointer(), ir.IntType(1)
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, WORD, flag])
    function = builder.module.declare_intrinsic("llvm.memmove.p0.p0.i64", fnty=kind)
    places = [builder.inttoptr(address, pointer) for address in (target, source)]
    builder.call(function, [*places, count, flag(0)])


@subroutine
def _place_messages(data: int, size: int, margin: int, leaf: int, lanes: int, chunk: int) -> int:
    """Return the address of chunks, in `margin` where the lanes reach beyond the data."""
    if leaf > 0 and (leaf + LANES) * chunk + RATE_BYTES <= size:
        return data + leaf * chunk
    _copy(data + leaf * chunk, margin + 1, lanes * chunk)
    return margin + 1


@emitted(types.int64, types.intp, types.intp, types.intp)
def _differs(
    builder: ir.IRBuilder, address: ir.Value, distance: ir.Value, count: ir.Value
) -> ir.Value:
    """Whether so many times 64 bytes are not the same as those at a distance behind them."""

    def look(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(address, builder.mul(index, WORD(_SCANNED_BYTES)))
        here = vectors.load(builder, _SCANNED, place)
        there = vectors.load(builder, _SCANNED, builder.add(place, distance))
        return [builder.or_(found[0], builder.xor(here, there))]

    (found,) = vectors.repeat(builder, count, [ir.Constant(_SCANNED, None)], look)
    is_any = builder.icmp_unsigned("!=", found, ir.Constant(_SCANNED, None))
    every = ir.IntType(_SCANNED.count)
    return builder.zext(builder.icmp_unsigned("!=", builder.bitcast(is_any, every), every(0)), WORD)


@subroutine
def _is_repeated(start: int, size: int, count: int) -> bool:
    """Whether so many chunks from an address on are all the same, as far as that is seen."""
    if size % _SCANNED_BYTES:
        return False
    for chunk in range(count - 1):
        if _differs(start + chunk * size, size, size // _SCANNED_BYTES):
            return False
    return True


@subroutine
def _has_any_nan(start: int, size: int, float_bytes: int) -> bool:
    """Whether there is a NaN among the floats, if these are floats, of so many times 64 bytes."""
    count = size // _SCANNED_BYTES
    if float_bytes == 4:
        return bool(_has_nan(start, count) != 0)
    return bool(float_bytes == 2 and _has_short_nan(start, count) != 0)


@subroutine
def _climb(digests: int, masks: int, count: int) -> int:
    """Put the parents of so many nodes in their place; return how many there are.

    An odd last node, which is its own parent, is kept in front of them meanwhile.
    """
    pairs, odd, front = count // 2, count % 2 * DIGEST_BYTES, digests - _PAD_BYTES
    _copy(digests + (count - 1) * DIGEST_BYTES, front, odd)
    for pair in range(0, pairs, LANES):
        place = digests + pair * DIGEST_BYTES
        hash_lanes(place + pair * DIGEST_BYTES - 1, 2 * DIGEST_BYTES, masks, 1, place)
    _copy(front, digests + pairs * DIGEST_BYTES, odd)
    return pairs + count % 2


@subroutine
def _hash_block(
    data: int,
    size: int,
    chunk: int,
    float_bytes: int,
    masks: int,
    last_masks: int,
    levels: int,
    first: int,
    digests: int,
    margin: int,
) -> int:
    """Hash a block of chunks from one on, and climb so many levels.

    Parents take the place of children, before those that are still to be read. Where all chunks of
    a whole block are the same (zeros, a mask), so are all nodes of each level, of which one is
    hashed. Floats are looked at just before they are hashed.

    Returns:
        Twice the number of nodes, and 1 more if there is a NaN.
    """
    full = min(BLOCK_CHUNKS, size // chunk - first)
    blocks = (chunk + 1) // RATE_BYTES + 1
    is_whole = levels > 0 and full == 1 << levels
    is_repeated = is_whole and _is_repeated(data + first * chunk, chunk, full)
    count = 1 if is_repeated else full
    has_nan = False
    for message in range(0, count, LANES):
        lanes = min(LANES, count - message)
        start = _place_messages(data, size, margin, first + message, lanes, chunk)
        has_nan = has_nan or _has_any_nan(start, lanes * chunk, float_bytes)
        hash_lanes(start - 1, chunk, masks, blocks, digests + message * DIGEST_BYTES)
    rest = min(BLOCK_CHUNKS * chunk, size - first * chunk) - full * chunk
    if rest > 0:
        _clear(margin + 1 + rest)
        _copy(data + (first + full) * chunk, margin + 1, rest)
        has_nan = has_nan or _has_any_nan(margin + 1, rest + _SCANNED_BYTES - 1, float_bytes)
        last = digests + full * DIGEST_BYTES
        hash_lanes(margin, rest, last_masks, (rest + 1) // RATE_BYTES + 1, last)
        count += 1
    for _ in range(levels):
        if is_repeated:
            _copy(digests, digests + DIGEST_BYTES, DIGEST_BYTES)
            count = 2
        count = _climb(digests, masks + _MASKS_BYTES, count)
    return 2 * count + has_nan


_MASKS_BYTES = make_masks(1, 0).nbytes
"""The size of the masks of one kind of messages."""

_START, _DATA, _SIZE, _FLOATS, _LAST_MASKS, _NODES, _NANS, _FIELDS = range(0, 64, 8)
"""Bytes in front of what is said of a tree: the number of its first block among those of all trees;
the address and the number of its bytes; the size of its floats or 0; the addresses of the masks of
its last chunk, if that is shorter, of its nodes, and of bytes that say which blocks have a NaN."""


@kernel(*[types.int64] * 7)
def _hash_blocks(
    trees: int, chunk: int, masks: int, levels: int, memory: int, first: int, stop: int
) -> None:
    """Hash some blocks of trees, which are at an address, one after the other."""
    digests, margin = memory + _PAD_BYTES, memory + _SCRATCH_BYTES
    tree = trees
    for number in range(first, stop):
        while load_word(tree + _FIELDS + _START) <= number:
            tree += _FIELDS
        block = number - load_word(tree + _START)
        found = _hash_block(
            load_word(tree + _DATA),
            load_word(tree + _SIZE),
            chunk,
            load_word(tree + _FLOATS),
            masks,
            load_word(tree + _LAST_MASKS),
            levels,
            block * BLOCK_CHUNKS,
            digests,
            margin,
        )
        nodes = load_word(tree + _NODES) + (block * BLOCK_CHUNKS >> levels) * DIGEST_BYTES
        _copy(digests, nodes, found // 2 * DIGEST_BYTES)
        if found % 2:
            _mark(load_word(tree + _NANS) + block)


class Leaves(NamedTuple):
    """The bytes below a tree.

    Attributes:
        data: (bytes,) uint8, contiguous, at least one.
        float_bytes: 4 or 2 if the data are floats of this width, otherwise 0.
        encode: returns what is hashed in place of floats among which is a NaN, of the same size.
    """

    data: Bytes
    float_bytes: int = 0
    encode: Callable[[Bytes], Bytes] = lambda part: part


def hash_blocks(
    trees: Sequence[Leaves],
    chunk_bytes: int,
    tags: tuple[int, int],
    levels: int,
    nodes: Sequence[Bytes],
) -> None:
    """Hash all chunks of trees, and blocks of them up so many levels, on several threads.

    Args:
        trees: what is below each tree.
        chunk_bytes: size of a chunk, at least 1, a multiple of 64 if the data are floats; the last
            chunk of a tree may be shorter.
        tags: tags of the chunks and of the nodes above, 0 to 255.
        levels: 0 or `SUBTREE_LEVELS`.
        nodes: where each tree's digests, or the nodes of its blocks, are written.

    Raises:
        TypeError: data are no contiguous bytes.
    """
    for tree in trees:
        if tree.data.dtype != np.uint8 or not tree.data.flags.c_contiguous:
            raise TypeError(f"{tree.data.dtype} with strides {tree.data.strides} are no bytes")
    block_bytes = BLOCK_CHUNKS * chunk_bytes
    starts = [0, *accumulate(-(-tree.data.size // block_bytes) for tree in trees)]
    blocks = starts[-1]
    if not blocks:
        return
    masks = _kernel_masks(chunk_bytes, *tags)
    nans = np.zeros(blocks, np.uint8)
    last_masks = [make_masks(tree.data.size % chunk_bytes or 1, tags[0]) for tree in trees]
    table = np.array(
        [
            (
                start,
                get_address(tree.data),
                tree.data.size,
                tree.float_bytes,
                get_address(last),
                get_address(level),
                get_address(nans) + start,
            )
            for start, tree, last, level in zip(starts, trees, last_masks, nodes, strict=False)
        ]
        + [(blocks, *[0] * 6)],
        np.int64,
    )
    margin_bytes = 1 + LANES * chunk_bytes + RATE_BYTES + _SCANNED_BYTES
    own = fill_lines(_SCRATCH_BYTES + margin_bytes)
    memory = np.empty(CACHE_LINE_BYTES + own * get_threads(), np.uint8)
    place = get_address(memory)
    words = get_address(table), chunk_bytes, get_address(masks), levels
    calls = place, place + 8, *words, place + CACHE_LINE_BYTES, 0, blocks
    total = sum(tree.data.size for tree in trees)
    share_call(_hash_blocks.address, calls, -(-_GRAIN_BYTES * blocks // total), scratch=(6, own))
    for number in nans.nonzero()[0].tolist():
        index = bisect_right(starts, number) - 1
        tree, block = trees[index], number - starts[index]
        part = Leaves(tree.encode(tree.data[block * block_bytes : (block + 1) * block_bytes]))
        there = nodes[index][block * BLOCK_CHUNKS >> levels :]
        hash_blocks([part], chunk_bytes, tags, levels, [there])


@lru_cache(maxsize=64)
def _kernel_masks(chunk_bytes: int, tag: int, node_tag: int) -> Words:
    """The masks of chunks and of inner nodes."""
    masks = make_masks(chunk_bytes, tag), make_masks(2 * DIGEST_BYTES, node_tag)
    return np.ascontiguousarray(np.stack(masks).reshape(2, 3, -1))


@kernel(*[types.int64] * 4)
def _climb_to_top(nodes: int, masks: int, scratch: int, count: int) -> None:
    """Climb from so many nodes, at most those of a block, to the one above them all."""
    digests = scratch + _PAD_BYTES
    _copy(nodes, digests, count * DIGEST_BYTES)
    while count > 1:
        count = _climb(digests, masks, count)


def hash_top(nodes: Bytes, tag: int) -> bytes:
    """Return the node above these, of which there are at most `BLOCK_CHUNKS`."""
    scratch = np.empty(_SCRATCH_BYTES, np.uint8)
    masks = make_masks(2 * DIGEST_BYTES, tag)
    _climb_to_top(*(get_address(array) for array in (nodes, masks, scratch)), len(nodes))
    return scratch[_PAD_BYTES:][:DIGEST_BYTES].tobytes()
