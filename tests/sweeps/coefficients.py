"""Computes the coefficients of the kernels anew: `python -m tests.sweeps.coefficients`."""
# mypy: disallow-untyped-calls=False
# (mpmath publishes no types)

from collections.abc import Callable, Sequence

import click
import mpmath
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


def compute() -> dict[str, tuple[float, ...]]:
    """All of them, by their names, rounded to float64."""
    with mpmath.workprec(_PRECISION_BITS):
        half_ln2, quarter_pi = mpf("0.3467") ** 2, (mpmath.pi / 4) ** 2 * mpf("1.0001")
        step = mpmath.log(2) / 16 * mpf("1.0001")
        numerator, denominator = interpolate_by_quotient(
            _of_square(lambda x: mpmath.erf(x) / x), (10, 9), mpf("15.4"), 16
        )
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
            "ERF_NUMERATOR": numerator,
            "ERF_DENOMINATOR": denominator,
            "ERFC_NUMERATOR": numerator_c,
            "ERFC_DENOMINATOR": denominator_c,
        }
        return {name: tuple(map(float, numbers)) for name, numbers in polynomials.items()}


if __name__ == "__main__":
    for name, numbers in compute().items():
        click.echo(" ".join([name, *(number.hex() for number in numbers)]))
