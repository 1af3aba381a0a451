"""The lower levels of trees, block by block, as machine code that never leaves the cache."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from offchain.commitments.keccak_lanes import (
    DIGEST_BYTES,
    DIGEST_WORDS,
    LANES,
    RATE_BYTES,
    RATE_WORDS,
    Bytes,
    Words,
    hash_lanes,
    make_masks,
)
from offchain.native import vectors
from offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from offchain.native.vectors import WORD

SUBTREE_LEVELS = 10
"""Levels of a tree that are hashed without leaving the cache."""

BLOCK_CHUNKS = 1 << SUBTREE_LEVELS

_PAD = 2
_SCRATCH_WORDS = (_PAD + BLOCK_CHUNKS + 2 * LANES) * DIGEST_WORDS + RATE_WORDS
"""A block's digests, and what the lanes read before and behind them."""

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


def hash_range(
    data: Bytes,
    chunk_bytes: int,
    tags: tuple[int, int],
    levels: int,
    nodes: Bytes,
    first: int,
    stop: int,
    float_bytes: int = 0,
) -> Sequence[int]:
    """Hash the full chunks `first` to `stop` of `data`, and blocks of them up so many levels.

    Returns:
        The blocks from `first` on that have a NaN, if the data are floats of so many bytes.
    """
    masks = _kernel_masks(chunk_bytes, *tags)
    margin = np.empty(1 + LANES * chunk_bytes + RATE_BYTES, np.uint8)
    scratch = np.empty(_SCRATCH_WORDS, np.uint64)
    words = nodes.reshape(-1).view(np.uint64)
    nans = np.zeros(-(-(stop - first) // BLOCK_CHUNKS), np.uint8)
    _hash_blocks(
        data, chunk_bytes, masks, margin, scratch, levels, words, first, stop, float_bytes, nans
    )
    found: list[int] = nans.nonzero()[0].tolist() if float_bytes else []
    return found


@lru_cache(maxsize=64)
def _kernel_masks(chunk_bytes: int, tag: int, node_tag: int) -> Words:
    """The masks of chunks and of inner nodes."""
    masks = make_masks(chunk_bytes, tag), make_masks(2 * DIGEST_BYTES, node_tag)
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
def _copy_nodes(source: Words, first: int, target: Words, place: int, count: int) -> None:
    """Copy digests between arrays of words."""
    for i in range(count * DIGEST_WORDS):
        target[place * DIGEST_WORDS + i] = source[first * DIGEST_WORDS + i]


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
def _is_repeated(data: Bytes, first: int, size: int, count: int) -> bool:
    """Whether so many chunks of `data` from one on are all the same, as far as that is seen."""
    if size % _SCANNED_BYTES:
        return False
    start = data.ctypes.data + first * size
    for chunk in range(count - 1):
        if _differs(start + chunk * size, size, size // _SCANNED_BYTES):
            return False
    return True


@subroutine
def _climb(scratch: Words, masks: int, count: int) -> int:
    """Put the parents of so many nodes in their place; return how many there are.

    An odd last node, which is its own parent, is kept in front of them meanwhile.
    """
    digests = scratch.ctypes.data + _PAD * DIGEST_BYTES
    pairs = count // 2
    _copy_nodes(scratch, _PAD + count - 1, scratch, 0, count % 2)
    for pair in range(0, pairs, LANES):
        place = digests + pair * DIGEST_BYTES
        hash_lanes(place + pair * DIGEST_BYTES - 1, 2 * DIGEST_BYTES, masks, 1, place)
    _copy_nodes(scratch, 0, scratch, _PAD + pairs, count % 2)
    return pairs + count % 2


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
    types.int64,
    writes(types.uint8, 1),
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
    float_bytes: int,
    nans: Bytes,
) -> None:
    """Hash blocks of chunks, a message in each lane, and climb so many levels in each block.

    Floats are looked at just before they are hashed, and `nans` says which blocks have a NaN.
    Parents take the place of children in `scratch`, before those that are still to be read. Where
    all chunks of a whole block are the same (zeros, a mask), so are all nodes of each level, of
    which one is hashed.
    """
    digests = scratch.ctypes.data + _PAD * DIGEST_BYTES
    blocks = (chunk_bytes + 1) // RATE_BYTES + 1
    for block in range(first, stop, BLOCK_CHUNKS):
        count = min(BLOCK_CHUNKS, stop - block)
        is_whole = levels > 0 and count == 1 << levels
        is_repeated = is_whole and _is_repeated(data, block, chunk_bytes, count)
        count = 1 if is_repeated else count
        for message in range(0, count, LANES):
            lanes = min(LANES, count - message)
            start = _place_messages(data, margin, block + message, lanes, chunk_bytes)
            scanned = lanes * chunk_bytes // _SCANNED_BYTES
            if (float_bytes == 4 and _has_nan(start, scanned)) or (
                float_bytes == 2 and _has_short_nan(start, scanned)
            ):
                nans[(block - first) // BLOCK_CHUNKS] = 1
            parents = digests + message * DIGEST_BYTES
            hash_lanes(start - 1, chunk_bytes, masks[0].ctypes.data, blocks, parents)
        for _ in range(levels):
            if is_repeated:
                _copy_nodes(scratch, _PAD, scratch, _PAD + 1, 1)
                count = 2
            count = _climb(scratch, masks[1].ctypes.data, count)
        _copy_nodes(scratch, _PAD, nodes, block >> levels, count)


@kernel(reads(types.uint64, 1), reads(types.uint64, 3), writes(types.uint64, 1), types.int64)
def _climb_to_top(nodes: Words, masks: Words, scratch: Words, count: int) -> None:
    """Climb from so many nodes, at most those of a block, to the one above them all."""
    _copy_nodes(nodes, 0, scratch, _PAD, count)
    while count > 1:
        count = _climb(scratch, masks[1].ctypes.data, count)


def hash_top(nodes: Bytes, tag: int) -> bytes:
    """Return the node above these, of which there are at most `BLOCK_CHUNKS`."""
    scratch = np.empty(_SCRATCH_WORDS, np.uint64)
    words = nodes.reshape(-1).view(np.uint64)
    _climb_to_top(words, _kernel_masks(2 * DIGEST_BYTES, tag, tag), scratch, len(nodes))
    return scratch[_PAD * DIGEST_WORDS :][:DIGEST_WORDS].tobytes()
