"""Random tensors: ordinary numbers, special ones, small indices, any bits."""

from collections.abc import Sequence
from random import Random

import numpy as np

from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.programs.graph import Slot
from moot.offchain.programs.legality import is_canonical

_FLOATS = (
    *(0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, CANONICAL_NAN),
    *(1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF),
    *(0x4F000000, 0xCF000000, 0x5F000000, 0xDF000000, 0x3F000000, 0x40200000, 0xBFC00000),
    *(0x4EFFFFFF, 0x4B000001, 0x33800000, 0x3F7FFFFF, 0x1A800000, 0x42280000, 0x3EAAAAAB),
)
"""Zeros, ones, infinities, NaN, subnormals, the ends of the range and of integers, halves."""


def draw_bits(rng: Random, dtype: DType) -> int:
    """Return the bits of one element, which are canonical."""
    if dtype is DType.BOOL:
        return rng.randrange(2)
    if dtype is DType.FLOAT32:
        style = rng.randrange(4)
        bits = rng.choice(_FLOATS) if style < 2 else rng.getrandbits(32)
        return bits if is_canonical(dtype, bits) else CANONICAL_NAN
    if dtype is DType.BFLOAT16:
        bits = draw_bits(rng, DType.FLOAT32) >> 16
        return bits if is_canonical(dtype, bits) else bfloat16.NAN
    least = 1 << 8 * dtype.width - 1
    special = (0, 1, 2, 2 * least - 1, 2 * least - 2, least, least - 1, least + 1)
    return rng.choice((*special, rng.getrandbits(8 * dtype.width), rng.randrange(8)))


def draw_tensor(rng: Random, slot: Slot) -> Array:
    """Return a tensor of a slot's type and shape."""
    draws = np.random.default_rng(rng.getrandbits(64))
    dtype, count = slot.dtype, slot.elements
    kind = f"<u{dtype.width}"
    some = np.array([draw_bits(rng, dtype) for _ in range(rng.choice((1, 2, 4, 16)))], kind)
    special = draws.choice(some, count)
    if dtype is DType.BOOL:
        ordinary = draws.integers(0, 2, count).astype(kind)
    elif dtype is DType.FLOAT32:
        scale = rng.choice((1.0, 1.0, 3.0, 100.0, 1e-20, 1e19))
        ordinary = draws.normal(0, scale, count).astype(np.float32).view(kind)
    elif dtype is DType.BFLOAT16:
        ordinary = (draws.normal(0, 1, count).astype(np.float32).view(np.uint32) >> 16).astype(kind)
    else:
        low, high = rng.choice(((0, 4), (-1, 5), (0, 8), (-3, 9), (0, 2)))
        ordinary = draws.integers(low, high, count).astype(f"<i{dtype.width}").view(kind)
    share = rng.choice((0.0, 0.0, 0.1, 0.5, 1.0))
    bits = np.where(draws.random(count) < share, special, ordinary).astype(kind)
    array: Array = bits.view(NUMPY_TYPES[dtype]).reshape(slot.shape)
    return array


def draw_tensors(rng: Random, slots: Sequence[Slot]) -> list[Array]:
    """Return tensors for slots."""
    return [draw_tensor(rng, slot) for slot in slots]
