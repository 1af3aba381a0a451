"""Computes the coefficients of the kernels anew: `python -m tests.sweeps.coefficients`."""
# mypy: disallow-untyped-calls=False
# (mpmath publishes no types)

from collections.abc import Callable, Sequence
from itertools import pairwise

import click
import mpmath
import numpy as np
from mpmath import mpf

_PRECISION_BITS = 400

_ZERO = mpf(0)

_Function = Callable[[mpf], mpf]


def _chebyshev_points(count: int) -> list[mpf]:
    return [mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def interpolate(function: _Function, degree: int, end: mpf, start: mpf = _ZERO) -> list[mpf]:
    """The polynomial, lowest power first, through a function's values at points of [start, end]."""
    middle, half = (start + end) / 2, (end - start) / 2
    points = [middle + half * x for x in _chebyshev_points(degree + 1)]
    rows = [[x**j for j in range(degree + 1)] for x in points]
    return list(mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(list(map(function, points)))))


def interpolate_by_quotient(
    function: _Function, degrees: tuple[int, int], end: mpf, middle: int
) -> tuple[list[mpf], list[mpf]]:
    """A quotient of polynomials through a function's values at points of [0, end].

    The points are those of Chebyshev for (x - middle) / (x + middle), so that most are small. The
    denominator is 1 at 0.
    """
    above, below = degrees
    top = (end - middle) / (end + middle)
    turned = [(top - 1) / 2 + (top + 1) / 2 * t for t in _chebyshev_points(above + below + 1)]
    points = [middle * (1 + t) / (1 - t) for t in turned]
    values = list(map(function, points))
    rows = [
        [x**j for j in range(above + 1)] + [-value * x**j for j in range(1, below + 1)]
        for x, value in zip(points, values, strict=True)
    ]
    solution = list(mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(values)))
    return solution[: above + 1], [mpf(1), *solution[above + 1 :]]


def _of_square(function: _Function) -> _Function:
    """The function of r^2 that has the values of a function of r."""
    return lambda square: function(mpmath.sqrt(square))


def _grow_by_power(r: mpf) -> mpf:
    """(2^r - 1) / r, which is log(2) at 0."""
    return mpmath.expm1(r * mpmath.log(2)) / r if r else mpmath.log(2)


def _log2_by_operand(f: mpf) -> mpf:
    """log2(1 + f) / f, which is 1 / log(2) at 0."""
    return mpmath.log(1 + f, 2) / f if f else 1 / mpmath.log(2)


def _list_divisors() -> list[float]:
    """What to multiply with in each sixteenth, by bits, of the significands from sqrt(1/2) on.

    It is 1 around 1, and elsewhere a float32 number near the reciprocal of the middle.
    """
    start = int(np.float64(np.sqrt(0.5)).view(np.int64))
    edges = [float(np.int64(start + (j << 48)).view(np.float64)) for j in range(17)]
    return [
        1.0 if low < 1 < high else float(np.float32(2 / (low + high)))
        for low, high in pairwise(edges)
    ]


def compute() -> dict[str, tuple[float, ...]]:
    """All of them, by their names, rounded to float64."""
    with mpmath.workprec(_PRECISION_BITS):
        half_ln2, quarter_pi = mpf("0.3467") ** 2, (mpmath.pi / 4) ** 2 * mpf("1.0001")
        step = mpmath.log(2) / 16 * mpf("1.0001")
        numerator, denominator = interpolate_by_quotient(
            _of_square(lambda x: mpmath.erf(x) / x), (10, 9), mpf("15.4"), 16
        )
        divisors = [mpf(divisor) for divisor in _list_divisors()]
        numerator_c, denominator_c = interpolate_by_quotient(
            lambda x: mpmath.erfc(x) * mpmath.exp(x * x), (9, 10), mpf("10.1"), 3
        )
        polynomials: dict[str, Sequence[mpf]] = {
            "COSH_TAIL": interpolate(
                _of_square(lambda r: (mpmath.cosh(r) - 1) / r**2), 4, half_ln2
            ),
            "SINH_TAIL": interpolate(
                _of_square(lambda r: (mpmath.sinh(r) / r - 1) / r**2), 4, half_ln2
            ),
            "EXP_TAIL": interpolate(lambda r: (mpmath.exp(r) - 1 - r) / r**2, 5, step, -step),
            "EXP_STEPS": [mpf(2) ** (mpf(j) / 8) for j in range(8)],
            "ATANH_TAIL": interpolate(
                _of_square(lambda s: (mpmath.atanh(s) / s - 1) / s**2),
                6,
                (3 - mpmath.sqrt(8)) ** 2,
            ),
            "SIN_TAIL": interpolate(
                _of_square(lambda r: (mpmath.sin(r) / r - 1) / r**2), 5, quarter_pi
            ),
            "COS_TAIL": interpolate(
                _of_square(lambda r: ((mpmath.cos(r) - 1) / r**2 + mpf("0.5")) / r**2),
                5,
                quarter_pi,
            ),
            "EXP2_STEPS": [mpf(2) ** (mpf(j) / 16) for j in range(16)],
            "EXP2_TAIL": interpolate(_grow_by_power, 4, mpf("0.03126"), mpf("-0.03126")),
            "LOG2_DIVISORS": divisors,
            "LOG2_PIECES": [-mpmath.log(number, 2) for number in divisors],
            "LOG2_TAIL": interpolate(_log2_by_operand, 7, mpf("0.0395"), mpf("-0.0312")),
            "ERF_NUMERATOR": numerator,
            "ERF_DENOMINATOR": denominator,
            "ERFC_NUMERATOR": numerator_c,
            "ERFC_DENOMINATOR": denominator_c,
        }
        return {name: tuple(map(float, numbers)) for name, numbers in polynomials.items()}


if __name__ == "__main__":
    for name, numbers in compute().items():
        click.echo(" ".join([name, *(number.hex() for number in numbers)]))
