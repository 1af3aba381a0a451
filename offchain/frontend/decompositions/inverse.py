"""Inverse trigonometric and hyperbolic functions, the decimal logarithm and the inverse of erf.

The scalar functions of the arithmetic have none of them, so each is composed of sums, products,
quotients, roots and logarithms. Polynomials were fitted at Chebyshev's nodes; constants are rounded
to float32 where they are used. Each function says how far it was from the exact value at most, in
units of the result's last place (ulp), on the inputs on which it was tried: random patterns of
bits, random numbers of its domain and special values, not all of float32. Zeros keep their sign,
infinities and NaN give what IEEE 754 recommends.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log, log10, pi, sqrt
from typing import Any

import torch
from torch import Tensor

from moot.offchain.frontend.decompositions.signs import signbit

ATAN = (
    *(-0.3333333311557073, 0.19999954694624553, -0.14284142825910995, 0.11089655293591427),
    *(-0.08938856263006943, 0.07051896847190785, -0.049295030608868654, 0.026632013295016525),
    *(-0.009317287958594354, 0.001526723942455415),
)
"""(atan(t) / t - 1) / t^2 on [0, 1] as a polynomial of t^2."""

ASIN = (
    *(0.16666666317143594, 0.07500098732337328, 0.04459803903576136, 0.03111609421659672),
    *(0.017078108245257517, 0.03380538632531824),
)
"""(asin(t) / t - 1) / t^2 on [0, 1/2] as a polynomial of t^2."""

HALF_PI = 1.57079637050628662109375
HALF_PI_REST = pi / 2 - HALF_PI
"""pi / 2 is the sum: a float32 number, and what it lacks."""

FAR = 4096.0
"""Above this, sqrt(x^2 + 1) is x as far as a logarithm can tell."""

ERFINV_NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
ERFINV_FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""erfinv(x) / x by w = -log(1 - x^2), below 5 of w - 2.5 and from there of sqrt(w) - 3 (Giles)."""


def _evaluate(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Return a polynomial by Horner's rule; the constant term comes first."""
    result = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _make_odd(x: Tensor, magnitude: Tensor) -> Tensor:
    """Return a magnitude with the sign of x, and x where x is zero."""
    return torch.where(x < 0, -magnitude, torch.where(x == 0, x, magnitude))


def _atan_unit(t: Tensor) -> Tensor:
    """Return atan of numbers in [0, 1]."""
    square = t * t
    return t + t * (square * _evaluate(ATAN, square))


def _from_half_pi(x: Tensor) -> Tensor:
    """Return pi / 2 - x."""
    return HALF_PI - (x - HALF_PI_REST)


def atan(x: Tensor) -> Tensor:
    """Return the arc tangent, within 2 ulp: above 1 it is pi / 2 less that of 1 / x."""
    size = x.abs()
    is_large = size > 1
    result = _atan_unit(torch.where(is_large, size.reciprocal(), size))
    return _make_odd(x, torch.where(is_large, _from_half_pi(result), result))


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """Return the angle of the point (x, y), within 2 ulp, by atan of the smaller over the larger.

    Signs of zeros count, and infinities are as large as one another, as IEEE 754 has it.
    """
    x, y = x.float(), y.float()
    width, height = x.abs(), y.abs()
    small, large = torch.minimum(width, height), torch.maximum(width, height)
    ratio = torch.where(large == 0, 0.0, torch.where(small.isinf(), 1.0, small / large))
    result = _atan_unit(ratio)
    result = torch.where(height > width, _from_half_pi(result), result)
    result = torch.where(signbit(x), 2 * HALF_PI - (result - 2 * HALF_PI_REST), result)
    return torch.where(signbit(y), -result, result)


def _asin_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether |x| <= 1/2, and asin(|x|) there, or asin(sqrt((1 - |x|) / 2)) elsewhere."""
    size = x.abs()
    is_small = size <= 0.5
    square = torch.where(is_small, size * size, (1 - size) * 0.5)
    t = torch.where(is_small, size, square.sqrt())
    return is_small, t + t * (square * _evaluate(ASIN, square))


def asin(x: Tensor) -> Tensor:
    """Return the arc sine, within 3 ulp: above 1/2, pi / 2 less twice that of sqrt((1 - x) / 2)."""
    is_small, part = _asin_parts(x)
    return _make_odd(x, torch.where(is_small, part, _from_half_pi(2 * part)))


def acos(x: Tensor) -> Tensor:
    """Return the arc cosine, within 2 ulp, by the same parts as the arc sine."""
    is_small, part = _asin_parts(x)
    near = _from_half_pi(torch.where(x < 0, -part, part))
    far = torch.where(x < 0, 2 * _from_half_pi(part), 2 * part)
    return torch.where(is_small, near, far)


def asinh(x: Tensor) -> Tensor:
    """Return the inverse of sinh, within 2 ulp.

    It is log1p(x + x^2 / (1 + sqrt(x^2 + 1))), far out log(x) + log(2).
    """
    size = x.abs()
    square = size * size
    near = (size + square / (1 + (square + 1).sqrt())).log1p()
    return _make_odd(x, torch.where(size > FAR, size.log() + log(2), near))


def acosh(x: Tensor) -> Tensor:
    """Return the inverse of cosh, within 3 ulp.

    It is log1p(t + sqrt(t (t + 2))) of t = x - 1, far out log(x) + log(2).
    """
    t = x - 1
    near = (t + (t * (t + 2)).sqrt()).log1p()
    result = torch.where(x > FAR, x.log() + log(2), near)
    return torch.where(x < 1, torch.nan, result)


def atanh(x: Tensor) -> Tensor:
    """Return the inverse of tanh, within 2 ulp: log1p(2 x / (1 - x)) / 2."""
    size = x.abs()
    return _make_odd(x, (2 * size / (1 - size)).log1p() * 0.5)


LOG10_OF_2 = 0.30102992057800292969
"""The decimal logarithm of 2, as a float32 number; what it lacks is added apart."""


def decimal_logarithm(x: Tensor) -> Tensor:
    """Return log10(x), within 2 ulp: log2(x) log10(2)."""
    binary = x.log2()
    return binary * LOG10_OF_2 + binary * (log10(2) - LOG10_OF_2)


def erfinv(x: Tensor) -> Tensor:
    """Return the inverse of erf, within 2 ulp: Giles's polynomials, then one step of Newton's.

    The step measures the error by erf below 1/2 and by erfc above it, where 1 - |x| is exact.
    """
    size = x.abs()
    w = -((1 - size) * (1 + size)).log()
    near = _evaluate(ERFINV_NEAR[::-1], w - 2.5)
    far = _evaluate(ERFINV_FAR[::-1], w.sqrt() - 3)
    first = torch.where(w < 5, near, far) * size
    error = torch.where(size < 0.5, torch.erf(first) - size, (1 - size) - torch.erfc(first))
    result = first - error * (first * first).exp() * (sqrt(pi) / 2)
    return _make_odd(x, torch.where(size == 1, torch.inf, result))


INVERSE: Mapping[str, Callable[..., Any]] = {
    "aten.atan.default": atan,
    "aten.atan2.default": atan2,
    "aten.asin.default": asin,
    "aten.acos.default": acos,
    "aten.asinh.default": asinh,
    "aten.acosh.default": acosh,
    "aten.atanh.default": atanh,
    "aten.log10.default": decimal_logarithm,
    "aten.erfinv.default": erfinv,
}
"""ATen overload -> decomposition."""
