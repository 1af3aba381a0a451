"""Functions composed of others, at special values and over all exponents, against eager torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from tests.program_helpers import capture_function, run_function
from tests.quick import every

NAN, INF = float("nan"), float("inf")
LEAST, MOST = 2.0**-149, 3.4028234663852886e38
SPECIAL = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, INF, -INF, NAN, LEAST, -LEAST, MOST, -MOST, 1e-30, 7e20]
)
LEFT = SPECIAL.repeat_interleave(len(SPECIAL))
RIGHT = SPECIAL.repeat(len(SPECIAL))
INTEGERS = torch.tensor([0, 1, -1, 7, -7, 2**62, -(2**62), 2**63 - 1, -(2**63), 5, -3])
COUNTS = torch.tensor([-1, 0, 1, 5, 31, 32, 62, 63, 64, 200, -(2**63)])

Function = Callable[..., Any]


def draw_floats(seed: int, count: int) -> Tensor:
    """Return float32 numbers of random bits: every exponent, infinities and the one NaN."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint64)
    numbers = torch.from_numpy(bits.astype(np.uint32).view(np.float32))
    return torch.where(numbers.isnan(), NAN, numbers)


def divide_exactly(x: Tensor, y: Tensor) -> Tensor:
    """Return C's fmod; torch's own gives NaN where the quotient is above 2^128."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(x.numpy(), y.numpy()))


def divide_down(x: Tensor, y: Tensor) -> Tensor:
    """Return the remainder that torch defines by fmod."""
    rest = divide_exactly(x, y)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def run_fast(function: Function, *inputs: Tensor) -> Array:
    """Return a function's first output by the fast executor alone."""
    captured = capture_function(function, *inputs)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    names = [slot.name for slot in captured.program.state]
    return state[names.index("output.0")]


def assert_same(found: Array, expected: Tensor) -> None:
    """Assert equal values, zeros of the same sign, and NaN in the same places."""
    reference = expected.numpy()
    np.testing.assert_array_equal(found, reference)
    if reference.dtype == np.float32:
        is_number = ~np.isnan(reference)
        assert (np.signbit(found) == np.signbit(reference))[is_number].all()


def floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """Return the quotient rounded down."""
    return torch.div(x, y, rounding_mode="floor")


EXACT: dict[str, tuple[Function, Function]] = {
    "fmod": (torch.fmod, divide_exactly),
    "remainder": (torch.remainder, divide_down),
    "floor division": (floor_divide, floor_divide),
    "copysign": (torch.copysign, torch.copysign),
    "fmax": (torch.fmax, torch.fmax),
    "fmin": (torch.fmin, torch.fmin),
    "signbit": (lambda x, y: torch.signbit(x) | torch.signbit(y),) * 2,
}


@pytest.mark.parametrize("name", every(6, EXACT))
def test_exact_functions_at_special_values(name: str) -> None:
    """All pairs of special values give torch's very numbers, signs of zeros included."""
    function, reference = EXACT[name]
    assert_same(run_function(function, LEFT, RIGHT)[0], reference(LEFT, RIGHT))


@pytest.mark.parametrize("name", every(6, EXACT))
def test_exact_functions_of_all_exponents(name: str) -> None:
    """Pairs of random bits, with quotients up to 2^277, give torch's very numbers."""
    x, y = draw_floats(1, 100_000), draw_floats(2, 100_000)
    function, reference = EXACT[name]
    assert_same(run_fast(function, x, y), reference(x, y))


@pytest.mark.parametrize(
    "divisor", every(6, [1.0, 0.7, -2.0, 1e-40, 3e38, INF, NAN, 0.0, 2.0**-149])
)
def test_divisors_that_are_numbers(divisor: float) -> None:
    """A divisor that is known, which needs fewer stages, gives torch's very numbers too."""
    x = torch.cat([draw_floats(3, 5_000), SPECIAL])
    for name in ("fmod", "remainder"):
        function, reference = EXACT[name]
        found = run_fast(lambda t, f=function: f(t, divisor), x)
        assert_same(found, reference(x, torch.full_like(x, divisor)))


SHIFTS: dict[str, Function] = {
    "left": torch.bitwise_left_shift,
    "right": torch.bitwise_right_shift,
}


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_shifts(name: str, dtype: torch.dtype) -> None:
    """Integers shifted by any count, also one that is negative or too large, are torch's."""
    x = INTEGERS.repeat_interleave(len(COUNTS)).to(dtype)
    counts = COUNTS.repeat(len(INTEGERS)).to(dtype)
    assert_same(run_function(SHIFTS[name], x, counts)[0], SHIFTS[name](x, counts))


def test_integers_divide_and_raise() -> None:
    """Remainders and powers of extreme integers are torch's."""
    x = INTEGERS.repeat_interleave(5)
    y = torch.tensor([3, -3, 7, 2**62, -5]).repeat(len(INTEGERS))
    for function in (torch.fmod, torch.remainder, lambda a, b: torch.pow(a, b.remainder(9))):
        assert_same(run_fast(function, x, y), function(x, y))
    for exponent in (5, 13, 63):
        raised = run_fast(lambda a, e=exponent: a**e, INTEGERS)
        assert_same(raised, INTEGERS**exponent)


CLOSE: dict[str, tuple[Function, float]] = {
    "atan": (torch.atan, 2),
    "asin": (torch.asin, 3),
    "acos": (torch.acos, 2),
    "asinh": (torch.asinh, 2),
    "acosh": (torch.acosh, 3),
    "atanh": (torch.atanh, 2),
    "log10": (torch.log10, 2),
    "erfinv": (torch.erfinv, 2),
}


def assert_within(found: Array, exact: Tensor, bound: float) -> None:
    """Assert that numbers are within a bound, in ulp, of float64's, and special values equal."""
    with np.errstate(over="ignore"):
        rounded = exact.numpy().astype(np.float32)
    is_number = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~is_number], rounded[~is_number])
    ulp = np.spacing(np.minimum(np.abs(rounded[is_number]), np.float32(1e38))).astype(np.float64)
    distance = np.abs(found[is_number].astype(np.float64) - exact.numpy()[is_number])
    assert (distance / ulp).max() <= bound
    is_zero = rounded == 0
    assert (np.signbit(found) == np.signbit(rounded))[is_zero].all()


@pytest.mark.parametrize("name", every(6, CLOSE))
def test_inverse_functions(name: str) -> None:
    """Over all exponents, in [-1, 1] and at special values they are as close as they say."""
    function, bound = CLOSE[name]
    generator = torch.Generator().manual_seed(4)
    unit = torch.rand(100_000, generator=generator) * 2 - 1
    large = (torch.randn(50_000, generator=generator) * 3).exp()
    x = torch.cat([draw_floats(5, 100_000), unit, large, -large, SPECIAL])
    assert_within(run_fast(function, x), function(x.double()), bound)


@pytest.mark.parametrize("function", [torch.atan2, torch.hypot], ids=lambda f: f.__name__)
def test_functions_of_points(function: Function) -> None:
    """Angles and distances of points of all exponents and special values are within 2 ulp."""
    x = torch.cat([draw_floats(6, 100_000), LEFT, torch.linspace(-3, 3, 100_000)])
    y = torch.cat([draw_floats(7, 100_000), RIGHT, torch.linspace(-2, 1, 100_000)])
    assert_within(run_fast(function, x, y), function(x.double(), y.double()), 2)
