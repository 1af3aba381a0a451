"""binary32 against two independent oracles: MPFR with 24 bits, and the processor through numpy."""

import itertools
import operator
import random
import struct
from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic import float32

BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)

EDGES = [
    sign | magnitude
    for sign in (0, float32.SIGN)
    for magnitude in (
        *(0, 1, 2, 3, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF),
        *(0x1FFFFFFF, 0x20000000, 0x33800000, 0x33800001, 0x34000000),
        *(0x3EFFFFFF, 0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000),
        *(0x40200000, 0x40400000, 0x4AFFFFFF, 0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x4EFFFFFF),
        *(0x4F000000, 0x5EFFFFFF, 0x5F000000, 0x7F000000, 0x7F7FFFFF),
        *(0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    )
]

patterns = st.integers(0, 2**32 - 1) | st.sampled_from(EDGES)


def to_real(x: int) -> Any:
    """Return the number, exactly, as MPFR has it."""
    return gmpy2.mpfr(struct.unpack("<f", x.to_bytes(4, "little"))[0], 24)


def to_bits(real: Any) -> int:
    """Return the pattern of a number that binary32 holds exactly, or the canonical NaN."""
    if gmpy2.is_nan(real):
        return float32.NAN
    return int.from_bytes(struct.pack("<f", float(real)), "little")


def by_mpfr(function: Callable[..., Any], *operands: int) -> int:
    """Return the function's pattern as MPFR rounds it to binary32."""
    with BINARY32:
        return to_bits(function(*map(to_real, operands)))


def uniform_tuples(count: int, arity: int, seed: int) -> list[tuple[int, ...]]:
    """Return patterns of which half have an exponent near that of 1, so that they interact."""
    rng = random.Random(seed)

    def pattern() -> int:
        exponent = rng.choice((rng.randrange(256), rng.randrange(115, 140)))
        return rng.getrandbits(1) << 31 | exponent << 23 | rng.getrandbits(23)

    return [tuple(pattern() for _ in range(arity)) for _ in range(count)]


BINARY: dict[str, tuple[Callable[[int, int], int], Callable[..., Any]]] = {
    "add": (float32.add, operator.add),
    "subtract": (float32.subtract, operator.sub),
    "multiply": (float32.multiply, operator.mul),
    "divide": (float32.divide, operator.truediv),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_are_those_of_mpfr(name: str) -> None:
    """Each operation is MPFR's at 24 bits, subnormals, overflow and signs of zero included."""
    ours, theirs = BINARY[name]
    for x, y in [*itertools.product(EDGES, EDGES), *uniform_tuples(8_000, 2, 1)]:
        assert ours(x, y) == by_mpfr(theirs, x, y), (hex(x), hex(y))


@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_are_those_of_the_processor(name: str) -> None:
    """Each operation is the processor's, as numpy runs it on arrays of float32."""
    ours, theirs = BINARY[name]
    pairs = np.array(uniform_tuples(8_000, 2, 2), dtype=np.uint32)
    with np.errstate(all="ignore"):
        result = theirs(pairs[:, 0].view(np.float32), pairs[:, 1].view(np.float32))
    expected = np.where(np.isnan(result), np.uint32(float32.NAN), result.view(np.uint32))
    assert [ours(int(x), int(y)) for x, y in pairs] == expected.tolist()


def cancelling_triples(count: int) -> list[tuple[int, ...]]:
    """Return x, y and a pattern within two of -(x * y)."""
    rng = random.Random(3)
    return [
        (x, y, (float32.multiply(x, y) ^ float32.SIGN) + rng.randrange(-2, 3))
        for x, y in uniform_tuples(count, 2, 4)
        if 2 < float32.magnitude(float32.multiply(x, y)) < float32.INFINITY - 2
    ]


def test_fma_is_that_of_mpfr() -> None:
    """One rounding of x * y + z: edges, cancellation, ties against the sticky bit, and the rest."""
    rng = random.Random(5)
    edges = [tuple(rng.choices(EDGES, k=3)) for _ in range(12_000)]
    for x, y, z in [*edges, *uniform_tuples(8_000, 3, 6), *cancelling_triples(6_000)]:
        assert float32.fma(x, y, z) == by_mpfr(gmpy2.fma, x, y, z), (hex(x), hex(y), hex(z))


def test_fma_rounds_once() -> None:
    """A product and a sum, each rounded, differ from the fma: the test above can tell."""
    x = 0x3F800001
    z = float32.negate(float32.multiply(x, x))
    assert float32.add(float32.multiply(x, x), z) == 0
    assert float32.fma(x, x, z) == 0x28800000


def test_square_root_is_that_of_mpfr() -> None:
    """The root of every kind of operand, with the sign of zero kept."""
    for (x,) in [*((x,) for x in EDGES), *uniform_tuples(12_000, 1, 7)]:
        assert float32.square_root(x) == by_mpfr(gmpy2.sqrt, x), hex(x)


def test_square_root_next_to_a_half_way_point() -> None:
    """Roots above a half-way point by less than 2^-38 of their size are rounded up."""
    rng = random.Random(10)
    found = 0
    while found < 12:
        half_way = rng.randrange(1 << 24, 1 << 25) | 1
        dropped = (half_way**2).bit_length() - 24
        significand = -(-(half_way**2) >> dropped)
        if (significand << dropped) - half_way**2 < 1 << 11:
            found += 1
            x = float32.encode(0, significand, dropped)
            assert float32.square_root(x) == float32.encode(0, half_way + 1, 0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (float32.floor, np.floor),
        (float32.ceil, np.ceil),
        (float32.truncate, np.trunc),
        (float32.round_half_even, np.rint),
    ],
)
def test_integral_roundings_are_those_of_the_processor(
    ours: Callable[[int], int], theirs: Callable[..., Any]
) -> None:
    """Floor, ceil, truncation and rounding to even keep large numbers and the signs of zeros."""
    halves = [float32.encode(n & 1, n >> 1, -1) for n in range(200)]
    operands = [*EDGES, *halves, *(x for (x,) in uniform_tuples(8_000, 1, 8))]
    numbers = np.array(operands, dtype=np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        result = theirs(numbers)
    expected = np.where(np.isnan(numbers), np.uint32(float32.NAN), result.view(np.uint32))
    assert [ours(x) for x in operands] == expected.tolist()


def test_comparisons_are_those_of_reals() -> None:
    """Comparisons agree with the real numbers, zeros are equal, and NaN compares false."""
    for x, y in [*itertools.product(EDGES, EDGES), *uniform_tuples(4_000, 2, 9)]:
        real_x, real_y = to_real(x), to_real(y)
        assert float32.equal(x, y) == (real_x == real_y)
        assert float32.less(x, y) == (real_x < real_y)
        assert float32.less_equal(x, y) == (real_x <= real_y)


@given(patterns, patterns)
def test_maximum_and_minimum_partition_their_operands(x: int, y: int) -> None:
    """Minimum and maximum are the two operands in order, -0 before +0, or NaN if either is."""
    low, high = float32.minimum(x, y), float32.maximum(x, y)
    if float32.is_nan(x) or float32.is_nan(y):
        assert low == high == float32.NAN
        return
    assert sorted((low, high)) == sorted((x, y))
    assert float32.less(low, high) or float32.magnitude(low) == float32.magnitude(high)
    assert float32.sign(low) >= float32.sign(high)


@given(patterns)
def test_signs_change_alone(x: int) -> None:
    """Negation and absolute value touch the sign only, and make every NaN canonical."""
    if float32.is_nan(x):
        assert float32.negate(x) == float32.absolute(x) == float32.NAN
    else:
        assert float32.negate(x) == x ^ float32.SIGN
        assert float32.absolute(x) == x & ~float32.SIGN


@given(patterns)
def test_decoding_is_exact(x: int) -> None:
    """A finite number is its significand times a power of two, and encodes to itself."""
    if float32.magnitude(x) >= float32.INFINITY:
        return
    significand, exponent = float32.decode(x)
    assert gmpy2.mpq(to_real(x)) == gmpy2.mpq(significand) * gmpy2.mpq(2) ** exponent
    assert float32.encode(float32.sign(x), abs(significand), exponent) == x


SIGNIFICANDS = st.integers(0, 2**90) | st.builds(
    lambda kept, dropped, offset: (kept << dropped) + (1 << dropped >> 1) + offset,
    st.integers(2**22, 2**25),
    st.integers(2, 60),
    st.integers(-1, 1),
)


@given(SIGNIFICANDS, st.integers(-260, 200), st.integers(0, 1))
def test_encoding_rounds_to_the_nearest(significand: int, exponent: int, sign: int) -> None:
    """Encoding any number of up to 90 bits rounds it as MPFR does."""
    exact = gmpy2.mpq(significand) * gmpy2.mpq(2) ** exponent
    assert (
        float32.encode(sign, significand, exponent)
        == by_mpfr(lambda: gmpy2.mpfr(exact)) | sign << 31
    )


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.builds(
    lambda power, offset: max(-(2**63), min(2**63 - 1, (1 << power) + offset)),
    st.integers(0, 63),
    st.integers(-3, 3),
)


@given(INTEGERS)
def test_integers_convert_to_the_nearest(value: int) -> None:
    """An integer of 64 bits becomes the nearest binary32, in one rounding."""
    assert float32.from_integer(value) == by_mpfr(lambda: gmpy2.mpfr(value))


@given(patterns, st.sampled_from((32, 64)))
def test_floats_convert_by_truncation_and_saturate(x: int, width: int) -> None:
    """Floats truncate toward zero, saturate at both ends, and NaN is 0."""
    real = to_real(x)
    least, greatest = -(1 << width - 1), (1 << width - 1) - 1
    if gmpy2.is_nan(real):
        expected = 0
    elif gmpy2.is_infinite(real):
        expected = greatest if real > 0 else least
    else:
        expected = max(least, min(greatest, int(gmpy2.trunc(real))))
    assert float32.to_integer(x, width) == expected
