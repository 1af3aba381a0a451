"""Transcendental kernels: against MPFR, against the definition, and the error allowed for."""

from collections.abc import Callable

import gmpy2
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offchain.arithmetic.evaluate import evaluate
from offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from offchain.execution.kernels import elementary
from offchain.execution.kernels.elementary import APPROXIMATIONS, apply
from offchain.execution.kernels.threads import get_threads, set_threads

Patterns = npt.NDArray[np.uint32]

BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
WIDE = gmpy2.context(precision=300)


def sigmoid(x: gmpy2.mpfr) -> gmpy2.mpfr:
    """1 / (1 + exp(-x)), rounded from 300 bits."""
    with gmpy2.context(WIDE):
        wide = 1 / (1 + gmpy2.exp(-x))
    return gmpy2.mpfr(wide)


MPFR: dict[Function, Callable[..., gmpy2.mpfr]] = {
    Function.EXP: gmpy2.exp,
    Function.EXPM1: gmpy2.expm1,
    Function.EXP2: gmpy2.exp2,
    Function.LOG: gmpy2.log,
    Function.LOG1P: gmpy2.log1p,
    Function.LOG2: gmpy2.log2,
    Function.SIN: gmpy2.sin,
    Function.COS: gmpy2.cos,
    Function.TAN: gmpy2.tan,
    Function.TANH: gmpy2.tanh,
    Function.SINH: gmpy2.sinh,
    Function.COSH: gmpy2.cosh,
    Function.ERF: gmpy2.erf,
    Function.ERFC: gmpy2.erfc,
    Function.SIGMOID: sigmoid,
    Function.POW: lambda x, y: x**y,
}

MPMATH: dict[Function, Callable[[mpmath.mpf], mpmath.mpf]] = {
    Function.EXP: mpmath.exp,
    Function.EXPM1: mpmath.expm1,
    Function.EXP2: lambda x: mpmath.mpf(2) ** x,
    Function.LOG: mpmath.log,
    Function.LOG1P: mpmath.log1p,
    Function.LOG2: lambda x: mpmath.log(x, 2),
    Function.SIN: mpmath.sin,
    Function.COS: mpmath.cos,
    Function.TAN: mpmath.tan,
    Function.TANH: mpmath.tanh,
    Function.SINH: mpmath.sinh,
    Function.COSH: mpmath.cosh,
    Function.ERF: mpmath.erf,
    Function.ERFC: mpmath.erfc,
    Function.RSQRT: lambda x: 1 / mpmath.sqrt(x),
    Function.SIGMOID: lambda x: 1 / (1 + mpmath.exp(-x)),
}

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


def spread(count: int) -> Patterns:
    """Patterns that are spread evenly over all of them, then those of special interest."""
    even = np.linspace(0, 2**32 - 1, count).astype(np.uint32)
    return np.concatenate([even, np.array(SPECIALS, np.uint32)])


def round_with_mpfr(function: Function, operands: list[float]) -> int:
    """The pattern of the correctly rounded value."""
    with gmpy2.context(BINARY32):
        value = float(MPFR[function](*map(gmpy2.mpfr, operands)))
    return CANONICAL_NAN if np.isnan(value) else np.float32(value).view(np.uint32).item()


@pytest.mark.parametrize("function", sorted(MPFR.keys() - {Function.POW}))
def test_every_result_is_correctly_rounded(function: Function) -> None:
    """MPFR rounds the value of each of some thousand operands of any size to the same number."""
    patterns = spread(3000)
    results = apply(function, patterns.view(np.float32)).view(np.uint32)
    operands = patterns.view(np.float32).tolist()
    assert results.tolist() == [round_with_mpfr(function, [x]) for x in operands]


@given(st.sampled_from(sorted(APPROXIMATIONS)), st.lists(PATTERNS, max_size=10))
@settings(deadline=None)
@example(Function.EXP2, [0xC3160000])
def test_results_follow_the_definition(function: Function, patterns: list[int]) -> None:
    """The kernel gives the bits that the definition gives, of NaNs and zeros too."""
    x = np.array(patterns, np.uint32).view(np.float32)
    expected = [evaluate(function, [DType.FLOAT32], DType.FLOAT32, [bits]) for bits in patterns]
    assert apply(function, x).view(np.uint32).tolist() == expected


@given(PATTERNS, PATTERNS | st.sampled_from([0x40000000, 0x40400000, 0x3F000000, 0xBF800000]))
@settings(deadline=None, max_examples=300)
@example(0x45800800, 0x40000000)
@example(0x7F800001, 0)
@example(0x3F800000, 0x7F800001)
def test_powers_follow_the_definition(x: int, y: int) -> None:
    """Powers have the defined bits, also half-way between two numbers, as 4097^2 is."""
    operands = [np.array([[pattern]], np.uint32).view(np.float32) for pattern in (x, y)]
    expected = evaluate(Function.POW, [DType.FLOAT32] * 2, DType.FLOAT32, [x, y])
    power = apply(Function.POW, *operands)
    assert power.shape == (1, 1)
    assert power.view(np.uint32).item() == expected


@pytest.mark.parametrize("function", sorted(APPROXIMATIONS))
def test_float64_errs_by_less_than_it_may(function: Function) -> None:
    """What float64 computes is within 2^-46 of the value, a quarter of the margin."""
    operands = spread(700).view(np.float32)
    if function is Function.ERF:
        operands = operands[np.abs(operands) <= elementary.SATURATED_ERF]
    with mpmath.workprec(240):
        for x in operands[np.isfinite(operands)].tolist():
            approximate = APPROXIMATIONS[function](x)
            exact = MPMATH[function](mpmath.mpf(x)) if np.isfinite(approximate) else mpmath.inf
            if 2.0**-200 < abs(exact) < 2.0**200:
                assert abs(approximate - exact) < abs(exact) * 2**-46


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
