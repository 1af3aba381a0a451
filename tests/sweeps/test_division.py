"""Quotients by products are the processor's own, bit for bit, and each condition is needed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import ir

from moot.offchain.native import division
from moot.offchain.native.division import Divisor
from moot.offchain.native.transcendental.lanes import Lanes
from tests.quick import every
from tests.sweeps.division import (
    LANES,
    MANTISSAS,
    Floats,
    compile_quotients,
    count_wrong,
    draw_hard,
    sweep,
)

ENDS = sorted({*range(-12, 13), *range(90, 114), *range(-114, -90), *range(-127, -122), 126, 127})
"""Exponents about the bounds of what is divided by product, and the last ones of all."""

OTHER_ENDS = (-39, -26, -25, -24, -23, 0, 22, 23, 24, 25, 39)
"""Those of divisors."""


def draw_everything() -> tuple[Floats, Floats]:
    """Dividends and divisors of all exponents, next to powers of two, subnormal, infinite, NaN."""
    steps = np.arange(-2, 3)[:, None]
    edges = (np.arange(512, dtype=np.int64) << 23)[None]
    every = ((edges + steps) % 2**32).astype(np.uint32).reshape(-1)
    rng = np.random.default_rng(0)
    a = np.concatenate([every, rng.integers(0, 2**32, -every.size % LANES, dtype=np.uint32)])
    b = np.concatenate([every, rng.integers(0, 2**32, 64, dtype=np.uint32)])
    return np.tile(a.view(np.float32), (b.size, 1)), b.view(np.float32)


def draw_dividends_apart() -> tuple[Floats, Floats]:
    """Rows in which one dividend at most is out of its bounds: at each place, of each kind."""
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-126), 2.0**-101, 2.0**100, 1e38]
    rng = np.random.default_rng(1)
    a = rng.uniform(-4, 4, (len(odd), LANES, LANES)).astype(np.float32)
    for kind, number in enumerate(odd):
        np.fill_diagonal(a[kind], number)
    return a.reshape(-1, LANES), rng.uniform(0.1, 50, len(odd) * LANES).astype(np.float32)


def draw_scaled() -> tuple[Floats, Floats]:
    """Hard dividends and divisors of exponents at the bounds of both."""
    rng = np.random.default_rng(2)
    dividends, divisors = [], []
    for exponent in ENDS:
        a, b = draw_hard(rng.integers(MANTISSAS, 2 * MANTISSAS, 64), exponent)
        dividends += [a] * len(OTHER_ENDS)
        divisors += [np.ldexp(b, other) for other in OTHER_ENDS]
    return np.concatenate(dividends), np.concatenate(divisors)


def draw_zeros() -> tuple[Floats, Floats]:
    """Vectors of zeros alone, of both signs, by every other divisor."""
    _, b = draw_everything()
    signs = np.array([0.0, -0.0], np.float32)
    return np.repeat(signs, b.size)[:, None].repeat(LANES, axis=1), np.tile(b, signs.size)


def draw_halves() -> tuple[Floats, Floats]:
    """Subnormal quotients half way between two numbers, by divisors just beyond their bounds."""
    rng = np.random.default_rng(4)
    small, factors = (rng.integers(2**10, 2**11, (256, LANES)) * 2 + 1 for _ in range(2))
    b = np.ldexp(small[:, 0].astype(np.float32), 28)
    return np.ldexp((small[:, :1] * factors).astype(np.float32), 28 - 150), b


def count_all_wrong() -> int:
    """How many quotients of hard and of special operands are wrong, compiled afresh."""
    compute = compile_quotients()
    rng = np.random.default_rng(3)
    ends = np.concatenate([np.arange(512), MANTISSAS - 1 - np.arange(512)]) + MANTISSAS
    drawn = np.concatenate([ends, rng.integers(MANTISSAS, 2 * MANTISSAS, 2**14)])
    draws = draw_everything, draw_dividends_apart, draw_scaled, draw_zeros, draw_halves
    cases = draw_hard(drawn), *(draw() for draw in draws)
    return sum(count_wrong(compute, *case) for case in cases)


def test_quotients_are_the_processors() -> None:
    """Hard operands, every exponent, subnormal numbers, zeros, infinities and NaNs divide right."""
    assert count_all_wrong() == 0


@pytest.mark.parametrize(
    ("name", "number"),
    every(
        6,
        [
            ("LEAST_EXPONENT", -110),
            ("END_EXPONENT", 128),
            ("LEAST_OF_DIVISORS", -40),
            ("END_OF_DIVISORS", 40),
            ("END_OF_DIVISORS", 129),
        ],
    ),
)
def test_wider_bounds_are_found(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands beyond the bounds would have wrong quotients."""
    monkeypatch.setattr(division, name, number)
    assert count_all_wrong() > 0


def _leave(_a: Lanes, _b: Lanes, _reciprocal: Lanes, quotient: Lanes) -> Lanes:
    return quotient


def _correct_otherwise(a: Lanes, b: Lanes, reciprocal: Lanes, quotient: Lanes) -> Lanes:
    return (-b).times_plus(quotient, a).times_plus(reciprocal, quotient)


@pytest.mark.parametrize("correct", [_leave, _correct_otherwise])
def test_another_correction_is_found(
    correct: Callable[[Lanes, Lanes, Lanes, Lanes], Lanes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the correction, or with the remainder's other sign, some quotients are wrong."""
    monkeypatch.setattr(division, "_correct", correct)
    assert count_all_wrong() > 0


def _take_zeros(divisor: Divisor) -> Divisor:
    return replace(divisor, zero=ir.Constant(divisor.zero.type, None))


def _take_all(divisor: Divisor) -> Divisor:
    return replace(divisor, span=ir.Constant(divisor.span.type, [200 << 24] * LANES))


def _miss_reciprocal(divisor: Divisor) -> Divisor:
    return replace(divisor, reciprocal=divisor.reciprocal * (1 + 2.0**-23))


@pytest.mark.parametrize("change", every(6, [_take_zeros, _take_all, _miss_reciprocal]))
def test_what_is_known_of_a_divisor_is_needed(
    change: Callable[[Divisor], Divisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros, or all others, by divisors out of bounds, or a neighbour's reciprocal, are wrong."""
    prepare = division.prepare
    monkeypatch.setattr(division, "prepare", lambda *operands: change(prepare(*operands)))
    assert count_all_wrong() > 0


@pytest.mark.slow
def test_every_mantissa_of_a_divisor() -> None:
    """The hardest dividends of all 2^23 mantissas of a divisor have right quotients."""
    *_, last = sweep()
    assert last == (MANTISSAS, 0)
