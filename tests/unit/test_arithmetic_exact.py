"""The exact sum: the correctly rounded one, in any order and any grouping, whatever the terms."""

import struct
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import gmpy2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.exact import EXACT, sums
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import products
from moot.offchain.backends.cpu.exact import fold_rows, scatter_rows
from moot.offchain.backends.cpu.exact_products import multiply
from moot.offchain.backends.cpu.kernels import bounded_sums
from moot.offchain.backends.cpu.kernels.norms import measure_columns, measure_rows
from moot.offchain.backends.cpu.logged.plans import plan_logged
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.oracle import to_bits, to_float

Floats = npt.NDArray[np.float32]
F32 = DType.FLOAT32
ONE = float32.ONE
LARGEST, LEAST = 0x7F7FFFFF, 1
EDGES = (0, LEAST, 2, 0x007FFFFF, 0x00800000, ONE, ONE + 1, 0x4B800000, LARGEST, 0x7E7FFFFF)

finite = st.sampled_from([bits | sign for bits in EDGES for sign in (0, float32.SIGN)]) | (
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(
        lambda x: int.from_bytes(struct.pack("<f", x), "little")
    )
)
patterns = finite | st.sampled_from([0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001])


def sum_up(initial: int, terms: list[tuple[int, ...]]) -> int:
    """Return a sum of numbers and products by the definition."""
    fold = EXACT.find_fold(Function.FMA, F32)
    accumulator = fold.begin(initial)
    for term in terms:
        accumulator = fold.advance(accumulator, term)
    return fold.finish(accumulator)


def round_exactly(value: Fraction) -> int:
    """Return the bits of the nearest binary32 number, by MPFR."""
    with gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True):
        return to_bits(gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator)))


def as_fraction(bits: int) -> Fraction:
    """Return the number of a finite pattern."""
    return Fraction(to_float(bits))


@given(finite, st.lists(st.tuples(finite, finite), max_size=8))
def test_it_is_the_nearest_to_the_exact_sum(initial: int, terms: list[tuple[int, int]]) -> None:
    """Of finite terms it is what exact rationals and MPFR make of them."""
    exact = as_fraction(initial) + sum(
        (as_fraction(a) * as_fraction(b) for a, b in terms), Fraction(0)
    )
    found = sum_up(initial, list(terms))
    if exact:
        assert found == round_exactly(exact)
    else:
        signs = [initial, *((a ^ b) for a, b in terms)]
        is_all_zero = all(as_fraction(a) * as_fraction(b) == 0 for a, b in terms)
        is_negative = is_all_zero and all(bits >> 31 for bits in signs)
        assert found == (float32.NEGATIVE_ZERO if is_negative else float32.ZERO)


@given(patterns, st.lists(st.tuples(patterns, patterns), max_size=6), st.randoms())
def test_order_and_grouping_do_not_matter(
    initial: int, terms: list[tuple[int, int]], rng: Random
) -> None:
    """Any order gives the same sum, and sums of any parts add up to the sum of all."""
    whole = sum_up(initial, list(terms))
    shuffled = list(terms)
    rng.shuffle(shuffled)
    assert sum_up(initial, shuffled) == whole
    cut = rng.randrange(len(terms) + 1)
    first, second = sums.begin(initial), 0
    for term in shuffled[:cut]:
        first = sums.advance(first, term)
    for term in shuffled[cut:]:
        second = sums.advance(second, term)
    assert sums.finish(sums.add(first, second)) == sums.finish(sums.add(second, first)) == whole


@given(patterns, patterns)
def test_one_term_is_ieee_s(a: int, b: int) -> None:
    """Two numbers add up as IEEE 754 says, and a product is added as by fma."""
    fold = EXACT.find_fold(Function.ADD, F32)
    added = fold.finish(fold.advance(fold.begin(a), (b,)))
    assert added == evaluate(Function.ADD, (F32, F32), F32, (a, b))
    assert sum_up(a, [(a, b)]) == evaluate(Function.FMA, (F32,) * 3, F32, (a, b, a))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([LARGEST, LARGEST, LARGEST | float32.SIGN], LARGEST),
        ([LARGEST, 0x73000000], 0x7F800000),
        ([LARGEST, 0x72FFFFFF], LARGEST),
        ([LARGEST, 0x73000000, LEAST | float32.SIGN], LARGEST),
        ([0x7F800000, LARGEST | float32.SIGN], 0x7F800000),
        ([0x7F800000, 0xFF800000], float32.NAN),
        ([0xFF800000, 0xFF800000], 0xFF800000),
        ([0x7F800001, 0], float32.NAN),
        ([0x80000000, 0x80000000], 0x80000000),
        ([0x80000000, 0], 0),
        ([ONE, 0xBF800000], 0),
        ([0x4B800000, ONE, LEAST], 0x4B800001),
        ([0x4B800000, ONE], 0x4B800000),
    ],
)
def test_special_sums(terms: list[int], expected: int) -> None:
    """Overflow, infinities, NaN, zeros and ties come out as documented, in every order."""
    for first, *rest in permutations(terms):
        assert sum_up(first, [(bits,) for bits in rest]) == expected


def test_infinity_times_zero_is_no_number() -> None:
    """A product of infinity and zero makes the sum NaN, whatever else there is."""
    assert sum_up(ONE, [(0x7F800000, 0), (0x7F800000, ONE)]) == float32.NAN


def test_only_sums_of_floats_differ_from_ordered() -> None:
    """Folds of integers, extremes and products of floats mean what they mean in `ordered`."""
    for function in (Function.ADD, Function.MUL, Function.MAX, Function.MIN, Function.COPY):
        for dtype in (F32, DType.INT64):
            is_same = EXACT.find_fold(function, dtype) == ORDERED.find_fold(function, dtype)
            assert is_same == ((function, dtype) != (Function.ADD, F32))


def get_bits(value: np.float32) -> int:
    """Return the pattern of a number."""
    return int(value.view(np.uint32))


def make_hostile(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers that cancel, of wide exponents, subnormal, tied, zero and no numbers."""
    kinds = (
        rng.standard_normal(shape),
        rng.standard_normal(shape) * 2.0 ** rng.integers(-140, 120, shape),
        rng.integers(-4, 5, shape).astype(float),
        rng.integers(-3, 4, shape) * 2.0**-149,
        rng.choice([0.0, -0.0, 1.0, 1 + 2.0**-23, 2.0**24, -(2.0**24)], shape),
    )
    chosen = rng.integers(0, len(kinds), shape)
    with np.errstate(all="ignore"):
        found = np.choose(chosen, kinds).astype(np.float32)
    rare = rng.random(shape) < 0.002
    found[rare] = rng.choice(np.array([np.inf, -np.inf, np.nan], np.float32), shape)[rare]
    return found


@pytest.mark.parametrize("kind", range(4))
def test_products_are_the_definition_s(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every element of hostile products is the defined one, whichever way it was settled.

    Halves of the terms cancel now and then, depths are cut, and the norms are what they may be.
    """
    monkeypatch.setattr("moot.offchain.backends.cpu.products._DEPTH", 5)
    rng = np.random.default_rng(kind)
    m, k, n = 9, (1, 2, 11, 24)[kind], 8
    a, b = make_hostile(rng, (1, m, k)), make_hostile(rng, (1, k, n))
    if k > 2:
        half = k // 2
        a[:, ::2, half : 2 * half] = -a[:, ::2, :half]
        b[:, half : 2 * half] = b[:, :half]
    init = make_hostile(rng, (1, m, n))
    out = np.empty_like(init)
    multiply(a, b, init, out)
    for i, j in np.ndindex(m, n):
        terms = [
            (int(x), int(y))
            for x, y in zip(a[0, i].view(np.uint32), b[0, :, j].copy().view(np.uint32), strict=True)
        ]
        defined = sum_up(int(init[0, i, j].view(np.uint32)), terms)
        assert int(out[0, i, j].view(np.uint32)) == defined


@pytest.mark.parametrize("kind", range(4))
def test_rows_are_the_definition_s(kind: int) -> None:
    """Sums of hostile rows are the defined ones, however the rows lie in memory."""
    rng = np.random.default_rng([kind, 1])
    m, k = 21, (1, 9, 16, 37)[kind]
    x = make_hostile(rng, (m, 2 * k))
    x[::3, k : 2 * k] = -x[::3, :k]
    x[1] = -0.0
    init = make_hostile(rng, (m,))
    init[:3] = -0.0
    init[3:6] = 0
    same = np.broadcast_to(x[:, 0].copy()[:, None], x.shape)
    for rows in (x, np.asfortranarray(x), x[:, ::-1], np.repeat(x, 2, 1)[:, ::2], same):
        found = fold_rows(rows, init)
        for row, start, total in zip(rows, init, found, strict=True):
            assert get_bits(total) == sum_up(get_bits(start), [(get_bits(v),) for v in row])


@pytest.mark.parametrize("kind", range(3))
def test_scattered_rows_are_the_definition_s(kind: int) -> None:
    """So are sums of hostile rows that go to one target: many of them, one, or none."""
    rng = np.random.default_rng([kind, 2])
    targets = rng.integers(-1, (3, 9, 40)[kind], 30)
    source, init = make_hostile(rng, (30, 5)), make_hostile(rng, (8, 5))
    source[15:] = -source[:15]
    targets[15:] = targets[:15]
    init[0] = -0.0
    init[7, 0] = np.uint32(0xFFC00001).view(np.float32)
    out = init.copy()
    scatter_rows(out, targets, source)
    for row, column in np.ndindex(out.shape):
        terms = [(get_bits(v),) for v in source[targets == row, column]]
        assert get_bits(out[row, column]) == sum_up(get_bits(init[row, column]), terms)


@pytest.mark.parametrize(
    "row",
    [
        [2.0**31, 2.0**7, 1 + 2.0**-23, -1],
        [2.0**31, 2.0**7, 1, -1],
        [2.0**31, 2.0**7, 1 - 2.0**-24, -1],
        [2.0**-120, 2.0**-120, -(2.0**-119)],
        [2.0**60, 2.0**36, 2.0**-149, 0],
    ],
)
@pytest.mark.parametrize("scale", [1, 2.0**-100])
def test_what_binary64_loses_counts(row: list[float], scale: float) -> None:
    """Near half-way points, and near zero, a term counts that a sum in binary64 does not show."""
    for signed in (row, [-x for x in row]):
        x = np.array([signed], np.float32)
        terms = [(get_bits(v), get_bits(np.float32(scale))) for v in x[0]]
        defined = sum_up(0, terms)
        init, out = np.zeros((1, 1, 20), np.float32), np.empty((1, 1, 20), np.float32)
        multiply(x[None], np.full((1, len(row), 20), scale, np.float32), init, out)
        assert {get_bits(v) for v in out[0, 0]} == {defined}
        if scale == 1:
            for rows in (x, np.asfortranarray(np.repeat(x, 20, 0))):
                found = fold_rows(rows, np.zeros(len(rows), np.float32))
                assert {get_bits(v) for v in found} == {defined}


def make_starts(kind: int, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return initial terms: all +0, one for all, one for each column, or any."""
    if kind == 3:
        return make_hostile(rng, shape)
    row = make_hostile(rng, shape[-1:])
    return np.broadcast_to(np.float32((0.0, -0.0)[kind]) if kind < 2 else row, shape)


@pytest.mark.parametrize("kind", range(4))
def test_batches_are_the_definition_s(kind: int) -> None:
    """Batches of products with a start of every kind and factors of any layout are the defined."""
    rng = np.random.default_rng([kind, 3])
    a, b = make_hostile(rng, (3, 4, 6)), make_hostile(rng, (3, 5, 6)).swapaxes(1, 2)
    a[0, 1], b[0, :, 2] = 0, -0.0
    if kind == 2:
        a, b = (np.asfortranarray(x) for x in (a, b))
    init, out = make_starts(kind, rng, (3, 4, 5)), np.empty((3, 4, 10), np.float32)[:, :, ::2]
    multiply(a, b, init, out)
    for z, i, j in np.ndindex(out.shape):
        terms = [(get_bits(x), get_bits(y)) for x, y in zip(a[z, i], b[z, :, j], strict=True)]
        assert get_bits(out[z, i, j]) == sum_up(get_bits(init[z, i, j]), terms)


@pytest.mark.parametrize("shape", [(1, 30, 9, 50), (3, 40, 9, 8), (9, 6, 5, 6)])
def test_parts_do_not_matter(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """However a product is divided, among threads and into blocks, it has the same bits."""
    z, m, k, n = shape
    rng = np.random.default_rng(shape)
    a, b, init = (make_hostile(rng, (z, *size)) for size in ((m, k), (k, n), (m, n)))
    found = set()
    before = get_threads()
    for threads, block, grain in ((1, 1 << 22, 1 << 19), (2, 300, 64), (5, 7, 64), (3, 1 << 22, 1)):
        monkeypatch.setattr(products, "_BLOCK_ELEMENTS", block)
        monkeypatch.setattr(products, "_GRAIN", grain)
        set_threads(threads)
        out = np.empty_like(init)
        multiply(a, b, init, out)
        found.add(out.tobytes())
    set_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 37), (3, 40, 5), (1, 64, 64)])
def test_norms_are_the_definition_s(shape: tuple[int, ...]) -> None:
    """Norms of rows and of columns are theirs in every layout, up to what adding squares errs."""
    x = np.random.default_rng(4).standard_normal(shape)
    turned = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    for each in (x, turned, np.repeat(x, 2, 2)[:, :, ::2], x[:, ::-1], np.asfortranarray(x)):
        for axis, measure in ((1, measure_columns), (2, measure_rows)):
            assert np.allclose(measure(each), np.linalg.norm(each, axis=axis), rtol=1e-14, atol=0)


def test_bounds_leave_little() -> None:
    """Of ordinary products the bound settles all but a few in ten thousand."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((1, 512, 512)) for _ in range(2))
    a, b = (x.astype(np.float32).astype(np.float64) for x in (a, b))
    rows, columns = (np.sqrt((x * x).sum(axis)) for x, axis in ((a, 2), (b, 1)))
    init, out = np.zeros((2, 1, 512, 512), np.float32)
    doubtful = np.empty(out.shape, np.bool_)
    reach = bounded_sums.compute_reach(600, 512)
    bounded_sums.round_sums(a @ b, rows * reach, columns, init, out, doubtful)
    assert 0 < doubtful.mean() < 1e-3


HOSTILE_TERMS = 24


def draw_doubtful(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Floats]:
    """Return sums that nothing but whole numbers tells: factors (count, terms), and initial terms.

    Large terms cancel, so that errors are made, and leave zero, a middle of two numbers, or
    something next to one of these, from the smallest numbers to beyond the largest.
    """
    half = (HOSTILE_TERMS - 4) // 2
    exponents = np.exp2(rng.integers(-70, 60, (2, count, half)))
    a, b = (rng.standard_normal((2, count, half)) * exponents).astype(np.float32)
    size = np.exp2(rng.integers(-149, 128, (count, 1)).astype(np.float64))
    kinds = np.array(
        [[0, 0, 0], [1, 2.0**-24, 0], [1, 2.0**-24, 2.0**-60], [3, 2.0**-23, -(2.0**-90)]]
    )
    rest = kinds[rng.integers(0, len(kinds), count)] * rng.choice([-1.0, 1.0], (count, 1))
    rest = np.concatenate([rest, np.zeros((count, 1))], axis=1)
    first = np.concatenate([a, a, np.broadcast_to(size, rest.shape)], axis=1)
    second = np.concatenate([b, -b, rest], axis=1)
    order = rng.permuted(np.tile(np.arange(HOSTILE_TERMS), (count, 1)), axis=1)
    init = np.where(rng.random(count) < 0.5, rng.choice([0.0, -0.0, 2.0**-149, -1.0], count), 0.0)
    factors = (np.take_along_axis(it, order, 1).astype(np.float32) for it in (first, second))
    return *factors, init.astype(np.float32)  # type: ignore[return-value]  # two factors


@np.errstate(all="ignore")
def test_sums_that_only_whole_numbers_tell_are_the_definition_s() -> None:
    """Products, reductions and scatters of chosen terms are rounded as the definition rounds."""
    rng = np.random.default_rng(11)
    a, b, init = draw_doubtful(rng, 400)
    out = np.empty(len(init), np.float32)
    for place in range(len(init)):
        multiply(
            *(a[place, None, None], b[place, None, :, None]),
            *(it[place : place + 1].reshape(1, 1, 1) for it in (init, out)),
        )
    assert_is_defined(out, init, [[*zip(*it, strict=True)] for it in zip(a, b, strict=True)])
    for x in (np.ascontiguousarray(a * b), np.asfortranarray(a * b)):
        terms = [[(term,) for term in row] for row in x]
        assert_is_defined(fold_rows(x, init), init, terms)
        out = np.repeat(init[:, None], 2, axis=1)
        targets = np.repeat(np.arange(len(init)), HOSTILE_TERMS)
        scatter_rows(out, targets, np.repeat(x.reshape(-1, 1), 2, axis=1))
        assert_is_defined(out[:, 1], init, terms)
        assert (out[:, 0].view(np.uint32) == out[:, 1].view(np.uint32)).all()


def assert_is_defined(found: Floats, init: Floats, terms: list[list[tuple[Any, ...]]]) -> None:
    """Compare sums with the definition, bit for bit."""
    for value, start, row in zip(found, init, terms, strict=True):
        accumulator = sums.begin(int(start.view(np.uint32)))
        for factors in row:
            accumulator = sums.advance(accumulator, [int(it.view(np.uint32)) for it in factors])
        assert int(value.view(np.uint32)) == sums.finish(accumulator)


@np.errstate(all="ignore")
def test_no_sum_is_added_up_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that a client chooses cost kernels' time: no engine asks the definition for a sum."""

    def refuse(*_: object) -> None:
        raise AssertionError("a sum was added up by its readable definition")

    for name in ("begin", "advance", "finish", "add"):
        monkeypatch.setattr(sums, name, refuse)
    a, b, init = draw_doubtful(np.random.default_rng(12), 50)
    out = np.empty((1, len(init), len(init)), np.float32)
    multiply(a[None], b.T[None], np.zeros_like(out), out)
    fold_rows(a * b, init)
    scatter_rows(init[:, None].copy(), np.zeros(len(init), np.int64), init[:, None])
    shape, terms = (len(init), len(init)), a.shape[1]
    rows = [Row(size, terms=((variable, 1),)) for variable, size in enumerate((*shape, terms))]
    operands = [Operand(Origin.NODE, F32, place, rows=(rows[place], rows[2])) for place in range(2)]
    zero = immediate(F32, 0)
    node = Node(Kind.CONTRACT, Function.FMA, F32, shape, (zero, *operands), (terms,))
    plan_logged(node).run([None, a, b], 0)
