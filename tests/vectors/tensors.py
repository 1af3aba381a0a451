"""Tensors and accesses from which the vectors of operators are made."""

import random
from collections.abc import Mapping
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.programs.graph import Operand, Origin, Row

FLOAT32, INT64, INT32, BOOL, *_ = DType
ONE, MINUS_ONE, INFINITY, MINUS_INFINITY = 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000
NAN = 0x7FC00000

_SPECIALS = (0, 1 << 31, 1, 0x80400000, ONE, MINUS_ONE, 0x7F7FFFFF, INFINITY, MINUS_INFINITY, NAN)


def draw(name: str, dtype: DType, *shape: int, specials: float = 0.0, below: int = 9) -> Array:
    """Return the tensor of a name: floats of ordinary size, some special, or small integers."""
    rng = random.Random(name)
    bits = []
    for _ in range(prod(shape)):
        if dtype is not FLOAT32:
            bits.append(rng.randrange(2 if dtype is BOOL else below))
        elif rng.random() < specials:
            bits.append(rng.choice(_SPECIALS))
        else:
            exponent = rng.randrange(122, 130) << 23
            bits.append(rng.getrandbits(1) << 31 | exponent | rng.getrandbits(23))
    flat: Array = np.array(bits, f"<u{dtype.width}").view(NUMPY_TYPES[dtype])
    return flat.reshape(shape)


def row(
    size: int, terms: Mapping[int, int] | int | None = None, offset: int = 0, divisor: int = 1
) -> Row:
    """Return a row of some terms, or of one variable with coefficient 1."""
    named = {terms: 1} if isinstance(terms, int) else terms or {}
    return Row(size, offset, tuple(sorted(named.items())), divisor)


def reads(reference: int, dtype: DType, *rows: Row, fill: int = 0) -> Operand:
    """Return an access to a batch slot."""
    return Operand(Origin.BATCH, dtype, reference, fill, rows)


def whole(reference: int, array: Array) -> Operand:
    """Return an access to the whole of a batch slot, its dimensions being the first variables."""
    dtype = DType[array.dtype.name.upper()]
    return reads(reference, dtype, *(row(size, axis) for axis, size in enumerate(array.shape)))
