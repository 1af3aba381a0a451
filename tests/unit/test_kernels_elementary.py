"""Transcendental functions of arrays: against MPFR, against the definition, and pow's error band.

That functions of one operand are right for all operands is what tests/sweeps is about.
"""

from collections.abc import Callable

import gmpy2
import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.kernels import elementary
from moot.offchain.backends.cpu.kernels.elementary import apply
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.native.transcendental import power, registers
from moot.offchain.native.transcendental.functions import FUNCTIONS
from moot.offchain.native.transcendental.lanes import Lanes
from tests.sweeps.oracle import round_exactly

Doubles = npt.NDArray[np.float64]
Patterns = npt.NDArray[np.uint32]

LANES = 8
HUGE = 0x7F000001
SPECIALS = [
    0,
    1,
    0x007FFFFF,
    0x00800000,
    0x33800000,
    0x3F800000,
    0x3F800001,
    0x3F7FFFFF,
    0x7F7FFFFF,
]
SPECIALS += [0x7F800000, 0x7F800001, 0x7FC00000, 0x40000000, 0x4B000001, 0x42B17218, 0x42FFFFFF]
SPECIALS += [pattern | 0x80000000 for pattern in SPECIALS]
PATTERNS = st.integers(0, 2**32 - 1) | st.sampled_from(SPECIALS)
MODERATE = st.floats(-20, 20, width=32).map(lambda x: int(np.float32(x).view(np.uint32)))


def spread(count: int) -> Patterns:
    """Patterns that are spread evenly over all of them, then those of special interest."""
    even = np.linspace(0, 2**32 - 1, count).astype(np.uint32)
    return np.concatenate([even, np.array(SPECIALS, np.uint32)])


def define(function: Function, *operands: int) -> int:
    """The result of a scalar function by definition."""
    return evaluate(function, [DType.FLOAT32] * len(operands), DType.FLOAT32, operands)


def raise_one(x: int, y: int) -> int:
    """The kernel's power of two patterns."""
    operands = [np.array([[pattern]], np.uint32).view(np.float32) for pattern in (x, y)]
    power = apply(Function.POW, *operands)
    assert power.shape == (1, 1)
    return int(power.view(np.uint32).item())


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_every_result_is_correctly_rounded(function: Function) -> None:
    """MPFR rounds the value of each of some thousand operands of any size to the same number."""
    patterns = spread(3000)
    results = apply(function, patterns.view(np.float32)).view(np.uint32)
    assert results.tolist() == [round_exactly(function, x) for x in patterns.tolist()]


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(PATTERNS | MODERATE, max_size=40))
@settings(deadline=None)
@example(Function.EXP2, [0xC3160000])
@example(Function.SIN, [HUGE, 0x3F800000, 0x7F800000, HUGE + 1] * 5)
def test_results_follow_the_definition(function: Function, patterns: list[int]) -> None:
    """The kernel gives the bits that the definition gives, of NaNs and zeros too."""
    x = np.array(patterns, np.uint32).view(np.float32)
    expected = [define(function, bits) for bits in patterns]
    assert apply(function, x).view(np.uint32).tolist() == expected


@pytest.mark.parametrize("function", sorted({Function.POW, *FUNCTIONS}))
def test_places_and_neighbours_change_nothing(function: Function) -> None:
    """In an array of any size, at any place and beside any others, an operand has one result."""
    x = np.random.default_rng(0).integers(0, 2**32, 70, np.uint32).view(np.float32)
    y = np.random.default_rng(1).normal(0, 9, 70).astype(np.float32)
    operands = (x, y) if function is Function.POW else (x,)
    whole = apply(function, *operands).view(np.uint32)
    for first, stop in [(0, 0), (3, 4), (0, 15), (1, 17), (5, 37), (38, 70)]:
        parts = [operand[first:stop].copy() for operand in operands]
        assert apply(function, *parts).view(np.uint32).tolist() == whole[first:stop].tolist()


@given(
    PATTERNS | MODERATE,
    PATTERNS | MODERATE | st.sampled_from([0x40000000, 0x40400000, 0x3F000000, 0xBF800000]),
)
@settings(deadline=None, max_examples=300)
@example(0x45800800, 0x40000000)
@example(0x7F800001, 0)
@example(0x3F800000, 0x7F800001)
@example(0xBF800000, 0x7F800001)
@example(0xBF800000, 0xFF800000)
def test_powers_follow_the_definition(x: int, y: int) -> None:
    """Powers have the defined bits, also half-way between two numbers, as 4097^2 is."""
    assert raise_one(x, y) == define(Function.POW, x, y)


@pytest.mark.parametrize("x", SPECIALS)
def test_powers_of_special_operands_follow_the_definition(x: int) -> None:
    """Each special value of pow is the one that the definition gives."""
    assert [raise_one(x, y) for y in SPECIALS] == [define(Function.POW, x, y) for y in SPECIALS]


@pytest.mark.parametrize("y", SPECIALS)
def test_one_exponent_serves_all(y: int) -> None:
    """One exponent gives what as many equal ones give, in an array of any size."""
    rng = np.random.default_rng(y)
    exponent = np.array([y], np.uint32).view(np.float32)
    for size in (0, 1, 2, 15, 33, 70):
        x = rng.choice(np.array(SPECIALS, np.uint32), size).view(np.float32)
        x = np.where(rng.random(size) < 0.5, np.abs(rng.normal(0, 9, size)), x).astype(np.float32)
        wanted = apply(Function.POW, x, np.repeat(exponent, size)).view(np.uint32)
        assert apply(Function.POW, x, exponent).view(np.uint32).tolist() == wanted.tolist()


def magnify(base: Lanes, exponent: Lanes) -> Lanes:
    """The power as it is computed last."""
    return power._magnitude(exponent, *power._log2(base))


def compute_powers(
    compute: Callable[[Lanes, Lanes], Lanes], base: Doubles, exponent: Doubles
) -> Doubles:
    """Compute powers in float64."""
    kind = ir.VectorType(ir.DoubleType(), LANES)

    @emitted(types.void, types.intp, types.intp, types.intp)
    def emit_powers(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, target: ir.Value) -> None:
        operands = (Lanes(builder, vectors.load(builder, kind, place)) for place in (x, y))
        vectors.store(builder, compute(*operands).value, target)

    @numba.njit(error_model="numpy")
    def run(x: Doubles, y: Doubles, out: Doubles) -> None:
        for i in range(0, x.size, LANES):
            emit_powers(x[i:].ctypes.data, y[i:].ctypes.data, out[i:].ctypes.data)

    found = np.empty(base.size)
    run(base, exponent, found)
    return found


@pytest.mark.parametrize(("compute", "error"), [(magnify, 2.0**-48), (power._estimate, 2.0**-39.3)])
def test_powers_err_by_less_than_they_may(
    compute: Callable[[Lanes, Lanes], Lanes], error: float
) -> None:
    """What float64 computes is within 2^-48 of the power, and its estimate within 2^-39.3."""
    if compute is not magnify and not registers.ARE_USED:
        pytest.skip("kernels have no registers of 512 bits here")
    rng = np.random.default_rng(0)
    base = rng.integers(1, 0x7F800000, 4000, np.uint32).view(np.float32).astype(np.float64)
    base[:2000] = (1 + rng.normal(0, 2.0 ** rng.integers(-20, -2, 2000))).astype(np.float32)
    size = rng.uniform(-150, 150, 4000) / np.log2(base, where=base != 1, out=np.ones(4000))
    exponent = np.asarray(size.astype(np.float32), np.float64)
    powers = compute_powers(compute, base, exponent)
    with gmpy2.context(precision=200):
        for x, y, found in zip(base.tolist(), exponent.tolist(), powers.tolist(), strict=True):
            exact = gmpy2.mpfr(x) ** gmpy2.mpfr(y)
            assert abs(found - exact) < exact * error


@pytest.mark.skipif(not registers.ARE_USED, reason="kernels have no registers of 512 bits here")
@pytest.mark.parametrize("name", ["LOG2_PIECES", "LOG2_TAIL", "EXP2_TAIL", "EXP2_STEPS"])
def test_a_wrong_number_spoils_the_estimate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate with a number that is off by 2^-33 of itself is seen."""
    base, exponent = np.linspace(1.3, 1.9, 4096), np.full(4096, 25.5)
    right = compute_powers(power._estimate, base, exponent)
    assert np.abs(right / base**exponent - 1).max() < 2.0**-40
    numbers = getattr(power, name)
    monkeypatch.setattr(power, name, tuple(number * (1 + 2.0**-33) for number in numbers))
    wrong = compute_powers(power._estimate, base, exponent)
    assert np.abs(wrong / base**exponent - 1).max() > 2.0**-39.3


def test_doubtful_results_are_taken_from_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where float64 cannot tell, the definition is asked, once for each operand, and obeyed."""
    asked = []

    def answer(*question: object) -> int:
        asked.append(question)
        return 0x12345678

    monkeypatch.setattr(elementary, "evaluate", answer)
    x = np.array([4097, 3, 4097, 4099], np.float32)
    results = apply(Function.POW, x, np.full(4, 2, np.float32)).view(np.uint32)
    assert results.tolist() == [0x12345678, 0x41100000, 0x12345678, 0x12345678]
    assert [operands for *_, operands in asked] == [
        (0x45800800, 0x40000000),
        (0x45801800, 0x40000000),
    ]


def test_threads_change_nothing() -> None:
    """Any number of threads gives the same results, in the shape of the operands."""
    before = get_threads()
    x = np.random.default_rng(0).standard_normal((500, 1001)).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        results.append(apply(Function.TANH, x))
    set_threads(before)
    assert results[0].shape == x.shape
    assert all(np.array_equal(results[0], other) for other in results[1:])
