"""Elementwise rules, gradients included, against torch in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.program_helpers import check_function, check_gradients
from tests.quick import every

X = torch.tensor([[-2.5, -0.7, -0.0, 0.3], [0.6, 1.0, 1.7, 3.2]])
Y = torch.tensor([[1.5, -0.4, 0.8, 2.0], [-1.2, 1.0, 0.25, -3.0]])
ROW = torch.tensor([0.5, -1.5, 2.0, 1.0])
POSITIVE = X.abs() + 0.2
INTEGERS = torch.tensor([[-7, -2, 0, 3], [5, 1, 8, -1]])
DIVISORS = torch.tensor([[2, -3, 4, 1], [3, 2, -5, 7]])
NARROW = INTEGERS.int()
TRUTHS = torch.tensor([[True, False, True, True], [False, False, True, False]])
EXTREMES = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])

UNARY = [
    *(torch.abs, torch.neg, torch.exp, torch.expm1, torch.exp2, torch.sin, torch.cos, torch.tan),
    *(torch.tanh, torch.sinh, torch.cosh, torch.erf, torch.erfc, torch.sigmoid, torch.floor),
    *(torch.ceil, torch.trunc, torch.round, torch.sign, torch.square, torch.relu, torch.frac),
    *(functional.silu, functional.gelu, functional.softplus, functional.elu, functional.selu),
    *(functional.hardtanh, functional.leaky_relu, functional.mish, functional.logsigmoid),
    *(functional.hardswish, functional.hardsigmoid, functional.relu6, functional.softsign),
    *(torch.isnan, torch.isinf, torch.isfinite, torch.logical_not, functional.celu),
    *(functional.tanhshrink, functional.softshrink, functional.hardshrink, torch.nan_to_num),
    *(torch.sinc, torch.special.ndtr, torch.deg2rad, torch.sgn),
]
POSITIVE_ONLY = [
    *(torch.log, torch.log1p, torch.log2, torch.sqrt, torch.rsqrt, torch.reciprocal),
]
EXPONENTS = [0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7, -3, 5]


@pytest.mark.parametrize("function", every(6, UNARY), ids=lambda f: f.__name__)
def test_unary(function: Callable[..., Any]) -> None:
    """A function of one element is torch's."""
    check_function(function, X)


@pytest.mark.parametrize("function", POSITIVE_ONLY, ids=lambda f: f.__name__)
def test_unary_of_positive_numbers(function: Callable[..., Any]) -> None:
    """A function that is defined on positive numbers is torch's there."""
    check_function(function, POSITIVE)


@pytest.mark.parametrize("exponent", every(6, EXPONENTS))
def test_power(exponent: float) -> None:
    """Every exponent, special or not, gives torch's power and gradient."""
    check_function(lambda x: x**exponent, POSITIVE)
    check_gradients(lambda x: (x**exponent).sum(), POSITIVE)


BINARY: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "add": (torch.add, (X, Y)),
    "add row": (torch.add, (X, ROW)),
    "add scaled": (lambda x, y: torch.add(x, y, alpha=0.3), (X, Y)),
    "sub": (torch.sub, (X, ROW)),
    "sub from a number": (lambda x: 2.5 - x, (X,)),
    "mul": (torch.mul, (X, ROW[:1])),
    "div": (torch.div, (X, Y)),
    "div by a number": (lambda x: x / 3, (X,)),
    "div a number": (lambda x: 3 / x, (Y,)),
    "floor div": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, Y)),
    "trunc div": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (X, Y)),
    "maximum": (torch.maximum, (X, Y)),
    "minimum": (torch.minimum, (X, Y)),
    "pow": (torch.pow, (POSITIVE, Y)),
    "pow of two": (lambda x: 2**x, (X,)),
    "pow of a number": (lambda x: 1.5**x, (X,)),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.7), (X, Y, ROW)),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=0.7), (X, Y, ROW)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
    "where": (lambda x, y: torch.where(x > y, x, y), (X, Y)),
    "where number": (lambda x: torch.where(x > 0, x, 0.5), (X,)),
    "masked fill": (lambda x, m: x.masked_fill(m, -1.5), (X, TRUTHS)),
    "clamp": (lambda x: torch.clamp(x, -1, 1.5), (X,)),
    "clamp below": (lambda x: x.clamp_min(0.25), (X,)),
    "clamp tensor": (torch.clamp, (X, ROW - 2, ROW)),
    "int add": (torch.add, (INTEGERS, DIVISORS)),
    "int mixed": (lambda x, y: x * y + 1.5, (INTEGERS, X)),
    "int widths": (torch.add, (INTEGERS, NARROW)),
    "int floor div": (lambda x, y: x // y, (INTEGERS, DIVISORS)),
    "int trunc div": (
        lambda x, y: (
            torch.div(x, y, rounding_mode="trunc"),
            torch.div(y, 3, rounding_mode="trunc"),
        ),
        (INTEGERS, DIVISORS),
    ),
    "logaddexp": (torch.logaddexp, (X, Y)),
    "xlogy": (torch.xlogy, (X, POSITIVE)),
    "heaviside": (torch.heaviside, (X, ROW)),
    "threshold": (lambda x: functional.threshold(x, 0.5, 2), (X,)),
    "softplus": (lambda x: functional.softplus(x, 2, 3), (X,)),
    "prelu": (functional.prelu, (X, ROW)),
    "is close": (lambda x: torch.isclose(x, x.abs()), (X,)),
    "int remainder": (torch.remainder, (INTEGERS, DIVISORS)),
    "int true div": (lambda x, y: x / y, (INTEGERS, DIVISORS)),
    "int square": (lambda x: x**2, (INTEGERS,)),
    "int neg abs": (lambda x: (-x, x.abs()), (INTEGERS,)),
    "int sign": (torch.sign, (INTEGERS,)),
    "int clamp": (lambda x: x.clamp(-2, 4), (INTEGERS,)),
    "bool add": (torch.add, (TRUTHS, ~TRUTHS)),
    "bool mul": (torch.mul, (TRUTHS, TRUTHS)),
    "bool times float": (torch.mul, (TRUTHS, X)),
    "bitwise": (lambda x, y: (x & y, x | y, x ^ y, ~x), (INTEGERS, DIVISORS)),
    "bitwise bool": (lambda x, y: (x & y, x | y, x ^ y, ~x), (TRUTHS, INTEGERS > 0)),
    "logical": (lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y)), (X, INTEGERS)),
    "logical xor": (torch.logical_xor, (TRUTHS, INTEGERS)),
    "to int": (lambda x: (x.long(), x.int(), x.bool()), (X,)),
    "to float": (lambda x: x.float().sum() * 0 + x, (INTEGERS,)),
}


@pytest.mark.parametrize("name", every(6, BINARY))
def test_binary(name: str) -> None:
    """Functions of several tensors and numbers, with broadcasting and mixed types, are torch's."""
    function, inputs = BINARY[name]
    check_function(function, *inputs)


COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]


@pytest.mark.parametrize("function", every(6, COMPARISONS), ids=lambda f: f.__name__)
def test_comparisons(function: Callable[..., Any]) -> None:
    """Comparisons of tensors and numbers of any types are torch's, NaN included."""

    def compare(x: torch.Tensor, n: torch.Tensor, e: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return function(x, n), function(n, 0.5), function(n, 3), function(e, e), function(e, 1)

    check_function(compare, X, INTEGERS, EXTREMES)


GRADIENTS = [
    *(torch.exp, torch.tanh, torch.sigmoid, torch.erf, torch.sin, torch.cos, torch.abs, torch.relu),
    *(functional.silu, functional.gelu, functional.softplus, functional.elu, functional.mish),
    *(functional.leaky_relu, functional.hardtanh, functional.logsigmoid, torch.square),
    *(functional.hardswish, functional.relu6, functional.hardsigmoid, functional.softsign),
    *(functional.selu, functional.celu, functional.tanhshrink, functional.softshrink, torch.neg),
    *(functional.hardshrink, torch.expm1, torch.exp2, torch.erfc, torch.sinh, torch.cosh),
]


@pytest.mark.parametrize("function", every(6, GRADIENTS), ids=lambda f: f.__name__)
def test_unary_gradients(function: Callable[..., Any]) -> None:
    """The gradient of a function of one element is torch's."""
    check_gradients(lambda x, y: (function(x) * y).sum(), Y, X)


def test_binary_gradients() -> None:
    """Gradients reach both operands, summed over the dimensions that were broadcast."""
    check_gradients(lambda x, r: (x * r + x / (r * r + 1) - r).sum(), X, ROW)
    check_gradients(lambda x, y: torch.where(x > y, x * y, y).sum(), X, Y)
    check_gradients(lambda x, y: torch.maximum(x, y).square().sum(), X, Y)


def test_tanh_gelu() -> None:
    """The tanh form of GELU, and its gradient, are torch's."""
    check_gradients(lambda x: functional.gelu(x, approximate="tanh").square().sum(), X)
