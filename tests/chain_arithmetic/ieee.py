"""Operands for volume tests of the IEEE 754 operations, with the results of other libraries.

NumPy's operations are the processor's; the fma is MPFR's, with 24 bits and subnormal numbers.
"""

from collections.abc import Callable
from itertools import product

import gmpy2
import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType
from tests.chain_arithmetic.operands import Vectors
from tests.chain_arithmetic.rounding import SPECIALS
from tests.sweeps.oracle import BINARY32

Patterns = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

_SIGN = 1 << 31
_MAGNITUDE = np.uint32(_SIGN - 1)
_FRACTION_BITS = 23
_ROUNDINGS = (np.floor, np.ceil, np.trunc, np.rint)
"""By the number of the direction in float32.vy."""
WIDTHS = (32, 64)
INTEGERS = (DType.INT32, DType.INT64)


def read(patterns: Vectors) -> Floats:
    """Return the numbers that have these patterns."""
    return np.ascontiguousarray(patterns, np.uint32).view(np.float32)


def widen(patterns: Vectors) -> npt.NDArray[np.float64]:
    """Return the same numbers with more bits; signalling NaN become quiet."""
    with np.errstate(invalid="ignore"):
        return read(patterns).astype(np.float64)


def to_list(results: npt.NDArray[np.integer]) -> list[int]:
    """Return an array's integers as Python's."""
    listed: list[int] = results.tolist()
    return listed


def show(numbers: npt.NDArray[np.floating]) -> list[int]:
    """Return the patterns of numbers, one for every NaN."""
    with np.errstate(all="ignore"):
        patterns = numbers.astype(np.float32).view(np.uint32)
    return to_list(np.where(np.isnan(numbers), CANONICAL_NAN, patterns))


def get_known(arity: int) -> Vectors:
    """Return all combinations of zeros, the least and largest numbers, integers and NaN."""
    return np.array(list(product(SPECIALS, repeat=arity)), np.uint32)


def get_known_with(choices: tuple[int, ...]) -> Vectors:
    """Return all specials with each of the choices behind it."""
    return np.array(list(product(SPECIALS, choices)), np.uint32)


def draw_patterns(rng: np.random.Generator, count: int) -> Patterns:
    """Draw patterns of six kinds.

    Any; specials; of moderate size; of moderate size and short, or just below a short one, which
    sum to ties; subnormal and the least normal; and the largest.
    """
    fraction = rng.integers(0, 1 << _FRACTION_BITS, count, np.uint32)
    mask = (1 << rng.integers(0, _FRACTION_BITS + 1, count)) - 1
    short = np.where(rng.random(count) < 0.5, fraction & ~mask, fraction | mask)
    kinds = [
        rng.integers(0, _SIGN, count, np.uint32),
        rng.choice(np.array(SPECIALS, np.uint32), count),
        rng.integers(100, 155, count) << _FRACTION_BITS | fraction,
        rng.integers(110, 145, count) << _FRACTION_BITS | short,
        rng.integers(0, 4, count) << _FRACTION_BITS | short,
        rng.integers(245, 255, count) << _FRACTION_BITS | fraction,
    ]
    magnitudes = np.choose(rng.integers(0, len(kinds), count), kinds)
    return magnitudes.astype(np.uint32) & _MAGNITUDE | _draw_signs(rng, count)


def _draw_signs(rng: np.random.Generator, count: int) -> Patterns:
    return rng.integers(0, 2, count, np.uint32) << np.uint32(31)


def draw_rows(
    results: Callable[..., Floats] | None, arity: int, rng: np.random.Generator, count: int
) -> Vectors:
    """Draw rows of operands, a third of them with a last one that is near a result of the others.

    It is within four last places of the result in magnitude, or has another exponent, of either
    sign, so that sums cancel, or have most of one operand below the last place of the other.

    Args:
        results: gives such results from the operands but the last; all rows are drawn
            independently if it is None.
        arity: how many operands there are.
        rng: the generator.
        count: how many rows to draw.
    """
    columns = [draw_patterns(rng, count) for _ in range(arity)]
    if results is not None:
        with np.errstate(all="ignore"):
            near = results(*map(read, columns[:-1])).view(np.uint32).astype(np.int64)
        near += rng.integers(-4, 5, count)
        near += np.where(rng.random(count) < 0.5, 0, rng.integers(-60, 61, count) << _FRACTION_BITS)
        related = near.astype(np.uint32) & _MAGNITUDE | _draw_signs(rng, count)
        columns[-1] = np.where(rng.random(count) < 1 / 3, related, columns[-1])
    return np.stack(columns, 1)


def draw_underflowing(rng: np.random.Generator, count: int) -> Vectors:
    """Draw pairs as always, and a third whose product is about the least normal number."""
    rows = draw_rows(None, 2, rng, count)
    field = rng.integers(0, 130, count)
    fields = np.stack([field, np.maximum(127 - 24 + rng.integers(0, 26, count) - field, 0)], 1)
    low = fields << _FRACTION_BITS | (rows & ((1 << _FRACTION_BITS) - 1)) | (rows & _SIGN)
    chosen = rng.random(count) < 1 / 3
    return np.where(chosen[:, None], low.astype(np.uint32), rows)


def draw_with(choices: tuple[int, ...], rng: np.random.Generator, count: int) -> Vectors:
    """Draw patterns with one of the choices behind each."""
    behind = rng.choice(np.array(choices, np.uint32), count)
    return np.stack([draw_patterns(rng, count), behind], 1)


def draw_squares(rng: np.random.Generator, count: int) -> Vectors:
    """Draw patterns, half of them within two last places of a square."""
    patterns = draw_patterns(rng, count)
    with np.errstate(all="ignore"):
        squares = np.square(read(patterns)).view(np.uint32)
    near = (squares + rng.integers(-2, 3, count)).astype(np.uint32)
    return np.where(rng.random(count) < 0.5, near, patterns)[:, None]


def get_known_integers() -> Vectors:
    """Return both integer types' integers around zero, their limits and powers of two."""
    powers = [1 << exponent for exponent in range(64)]
    values = [sign * power + step for power in powers for step in (-1, 0, 1) for sign in (1, -1)]
    return np.array(
        [
            [dtype, DType.FLOAT32, each % (1 << 8 * dtype.width)]
            for dtype in INTEGERS
            for each in values
        ],
        np.uint64,
    )


def draw_integers(rng: np.random.Generator, count: int) -> Vectors:
    """Draw an integer type, FLOAT32, and an integer of any length, often one ending in 0s or 1s."""
    lengths = rng.integers(0, 64, count).astype(np.uint64)
    bits = rng.integers(0, 1 << 64, count, np.uint64) >> lengths
    mask = (np.uint64(1) << rng.integers(0, 64, count).astype(np.uint64)) - np.uint64(1)
    short = np.select(
        [rng.random(count) < 0.3, rng.random(count) < 0.3], [bits & ~mask, bits | mask], bits
    )
    values = np.where(rng.random(count) < 0.5, short, ~short + np.uint64(1))
    kinds = rng.choice(np.array(INTEGERS, np.uint64), count)
    values = np.where(kinds == DType.INT32, values & np.uint64(0xFFFFFFFF), values)
    return np.stack([kinds, np.full(count, DType.FLOAT32, np.uint64), values], 1)


def expect_of(operation: Callable[..., Floats], vectors: Vectors) -> list[int]:
    """Return the results of one of NumPy's operations."""
    with np.errstate(all="ignore"):
        return show(operation(*map(read, vectors.T)))


def expect_fma(vectors: Vectors) -> list[int]:
    """Return MPFR's x * y + z, rounded once to 24 bits."""
    columns = (widen(column).tolist() for column in vectors.T)
    number = gmpy2.mpfr
    with gmpy2.context(BINARY32):
        values = [
            float(gmpy2.fma(number(x), number(y), number(z)))
            for x, y, z in zip(*columns, strict=True)
        ]
    return show(np.array(values))


def expect_order(vectors: Vectors) -> list[int]:
    """Return 0, 1, 2, 3 for less, equal, greater and unordered."""
    x, y = map(read, vectors.T)
    return to_list(np.select([x < y, x == y, x > y], [0, 1, 2], 3))


def expect_choice(choose: Callable[..., Floats], zero: np.ufunc, vectors: Vectors) -> list[int]:
    """Return the larger or smaller number; `zero` says which of two zeros."""
    x, y = map(read, vectors.T)
    with np.errstate(all="ignore"):
        chosen = choose(x, y)
    of_zeros = zero(np.signbit(x), np.signbit(y))
    signed = np.where(of_zeros, np.float32(-0.0), np.float32(0.0))
    return show(np.where((x == 0) & (y == 0), signed, chosen))


def expect_integral(vectors: Vectors) -> list[int]:
    """Return the integers in the directions that are the second operands."""
    with np.errstate(all="ignore"):
        rounded = [rounding(read(vectors[:, 0])) for rounding in _ROUNDINGS]
    return show(np.choose(vectors[:, 1], rounded))


def expect_integer(vectors: Vectors) -> list[int]:
    """Return integers of 32 or 64 bits, saturated; 0 for NaN."""
    numbers = widen(vectors[:, 0])
    bounds = np.where(vectors[:, 1] == WIDTHS[0], 2.0**31, 2.0**63)
    greatest = np.where(vectors[:, 1] == WIDTHS[0], 2**31 - 1, 2**63 - 1)
    is_inside = (-bounds <= numbers) & (numbers < bounds)
    inside = np.where(is_inside, numbers, 0).astype(np.int64)
    outside = np.select([numbers >= bounds, numbers < -bounds], [greatest, ~greatest], 0)
    signed = np.where(is_inside, inside, outside).astype(np.uint64)
    narrow = signed & np.uint64(0xFFFFFFFF)
    return to_list(np.where(vectors[:, 1] == WIDTHS[0], narrow, signed))


def expect_float(vectors: Vectors) -> list[int]:
    """Return the numbers nearest to integers."""
    wide = vectors[:, 2].astype(np.uint64).view(np.int64).astype(np.float32)
    narrow = vectors[:, 2].astype(np.uint32).view(np.int32).astype(np.float32)
    return show(np.where(vectors[:, 0] == DType.INT32, narrow, wide))
