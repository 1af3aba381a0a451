"""Pairs of float32: their bounds hold the value, most results are certain, no wrong one is."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted
from moot.offchain.native.transcendental import quick, quick_tables, registers
from moot.offchain.native.transcendental.functions import emit_formula
from moot.offchain.native.transcendental.lanes import Lanes
from tests.quick import every
from tests.sweeps import quick_coefficients
from tests.sweeps.compare import Patterns, compare, compile_for_lanes

Doubles = npt.NDArray[np.float64]

LANES = 16
_PARTS = 4

NEEDS_REGISTERS = pytest.mark.skipif(
    not registers.ARE_USED, reason="kernels have no registers of 512 bits here"
)

EXACT: Mapping[Function, Callable[[Any], Any]] = {
    Function.EXP: np.exp,
    Function.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    Function.TANH: np.tanh,
    Function.RSQRT: lambda x: 1 / np.sqrt(x),
}
"""The functions in float64, a hundred times more precise than the bounds are apart."""

RANGES = {
    Function.EXP: (-103.0, 88.0),
    Function.SIGMOID: (-86.0, 19.0),
    Function.TANH: (2.0**-40, 9.2),
    Function.RSQRT: (2.0**-126, 2.0**127),
}


def draw(function: Function, count: int) -> npt.NDArray[np.float32]:
    """Operands of all sizes that a road takes."""
    rng = np.random.default_rng(int(function))
    low, high = RANGES[function]
    even = rng.uniform(low, min(high, 100), count // 2)
    start = -40 if low < 0 else math.log2(low)
    sizes = 2.0 ** rng.uniform(start, math.log2(high), count - count // 2)
    return np.concatenate([even, sizes]).astype(np.float32)


def find_bounds(function: Function, operands: npt.NDArray[np.float32]) -> tuple[Doubles, Doubles]:
    """Both bounds, in float64, which holds them to 2^-52."""
    count, kind = operands.size, ir.VectorType(vectors.FLOAT, LANES)

    @emitted(types.void, *[types.intp] * 3)
    def transform(builder: ir.IRBuilder, source: ir.Value, target: ir.Value, n: ir.Value) -> None:
        def transform_vector(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            offset = builder.mul(number, vectors.WORD(4 * LANES))
            x = Lanes(builder, vectors.load(builder, kind, builder.add(source, offset)))
            found = quick.estimate(function, x)
            parts = found.base, found.lower, found.upper, found.factor or x.filled(1)
            for place, part in enumerate(parts):
                start = builder.add(target, vectors.WORD(4 * count * place))
                vectors.store(builder, part.value, builder.add(start, offset))
            return []

        vectors.repeat(builder, n, [], transform_vector)

    @numba.njit(error_model="numpy")
    def run(x: npt.NDArray[np.float32], results: npt.NDArray[np.float32]) -> None:
        transform(x.ctypes.data, results.ctypes.data, x.size // LANES)

    results = np.empty((_PARTS, count), np.float32)
    run(operands, results)
    base, lower, upper, factor = results.astype(np.float64)
    return base + factor * lower, base + factor * upper


@NEEDS_REGISTERS
@pytest.mark.parametrize("function", sorted(quick.ROADS))
def test_the_value_lies_between_the_bounds(function: Function) -> None:
    """Both bounds keep off the value by a tenth of their distance, or more."""
    operands = draw(function, 2**18)
    low, high = find_bounds(function, operands)
    exact = EXACT[function](operands.astype(np.float64))
    if function is Function.EXP:  # without its power of two
        exact = exact * 2.0 ** np.rint(np.log2(low / exact))
    kept_off = np.minimum(exact - low, high - exact) / (high - low)
    assert kept_off.min() > 0.1


@NEEDS_REGISTERS
@pytest.mark.parametrize("function", sorted(quick.ROADS))
def test_nearly_all_results_are_certain(function: Function) -> None:
    """For fewer than one operand in 400, the formula has to decide."""
    low, high = find_bounds(function, draw(function, 2**18))
    assert np.mean(low.astype(np.float32) != high.astype(np.float32)) < 1 / 400


def count_wrong(function: Function, operands: Patterns) -> int:
    """How many results are not what they should be, compiled afresh."""
    emit = partial(quick.emit, formula=emit_formula)
    computed = compile_for_lanes(function, LANES, emit)(operands)
    return compare(function, operands, lambda *_: computed).mismatches


@NEEDS_REGISTERS
@pytest.mark.parametrize(
    ("function", "name", "place", "factor"),
    every(
        18,
        [
            (Function.EXP, "LN2_STEP", 1, 0.0),
            (Function.EXP, "POWERS", 5, 1 + 2.0**-23),
            (Function.EXP, "POWERS_LOW", 6, 1.01),
            (Function.EXP, "EXP_TAIL_32", 1, 1 + 1e-2),
            (Function.EXP, "EXP_MARGIN", None, 2.0**-10),
            (Function.SIGMOID, "EXP_TAIL_32", 1, 1 + 1e-2),
            (Function.SIGMOID, "SIGMOID_MARGIN", None, 2.0**-10),
            (Function.TANH, "ANCHORS", 28, 1 + 2.0**-23),
            (Function.TANH, "ANCHOR_VALUES", 25, 1 + 2.0**-23),
            (Function.TANH, "TANH_TAIL", 1, 1 + 1e-2),
            (Function.TANH, "TANH_MARGIN", None, 2.0**-10),
            (Function.RSQRT, "RSQRT_MARGIN", None, 2.0**-10),
        ],
    ),
)
def test_a_wrong_number_is_found(
    function: Function,
    name: str,
    place: int | None,
    factor: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number that is off, or a margin that is too narrow, makes some results wrong."""
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0.01, 4, 2**21).astype(np.float32).view(np.uint32)
    assert count_wrong(function, drawn) == 0
    right = getattr(quick, name)
    wrong = right * factor if place is None else list(right)
    if isinstance(wrong, list) and place is not None:
        wrong[place] = float(np.float32(wrong[place] * factor))
    monkeypatch.setattr(quick, name, wrong)
    assert count_wrong(function, drawn) > 0


def test_the_tables_are_what_they_are_said_to_be() -> None:
    """Interpolation and a search for anchors give the numbers that the kernels use."""
    computed = quick_coefficients.compute()
    assert {name: getattr(quick_tables, name) for name in computed} == computed


@NEEDS_REGISTERS
@pytest.mark.parametrize("function", sorted(quick.ROADS))
def test_special_operands_and_every_exponent(function: Function) -> None:
    """NaNs, infinities, zeros, subnormal numbers and all next to powers of two come out right."""
    steps = np.arange(-8, 9)[:, None]
    edges = (np.arange(512, dtype=np.int64) << 23)[None]
    operands = ((edges + steps) % 2**32).astype(np.uint32).reshape(-1)
    assert count_wrong(function, operands) == 0
