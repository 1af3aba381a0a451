"""A function's results on many operands, compared with the exact values."""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import CANONICAL_NAN, Function
from moot.offchain.backends.cpu.kernels import elementary
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted
from moot.offchain.native.transcendental import registers
from moot.offchain.native.transcendental.functions import FUNCTIONS, emit_formula
from moot.offchain.native.transcendental.quick import ROADS, Formula
from tests.sweeps.filters import FILTERS
from tests.sweeps.oracle import get_distance, round_exactly

Floats = npt.NDArray[np.float32]
Patterns = npt.NDArray[np.uint32]

MARGIN = 2.0**-46
"""What MPFR decides: values this close to half way between two neighbours; see `filters.ERROR`."""

MOST_HARD = 40
"""Of the hardest operands, so many are kept."""

_HARD_ULPS = 2.0**-20
"""Nothing is hard about values farther than this from half way, such as those at the zeros."""

_AGREES, _IS_CLOSE, _DIFFERS = range(3)
_MOST_MISMATCHES = 100


def _reciprocal(x: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.float32(1) / x


def _sqrt(x: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.sqrt(x)


QUICK: Mapping[str, Function] = {f"quick-{function.name.lower()}": function for function in ROADS}
"""The functions with a road in pairs of float32, which not every processor takes."""

SWEPT: Mapping[str, Function] = {
    **{function.name.lower(): function for function in FUNCTIONS},
    "sqrt": Function.SQRT,
    "reciprocal": Function.DIV,
    **QUICK,
}
"""The functions that can be swept, by the names that they have on the command line."""

LOWEST = {
    Function.LOG: 0.0,
    Function.LOG2: 0.0,
    Function.RSQRT: 0.0,
    Function.SQRT: 0.0,
    Function.LOG1P: -1.0,
}
"""Below these operands, functions are NaN; they are poles, or 0."""


@dataclass(slots=True)
class Findings:
    """The findings of a comparison; operands are bit patterns."""

    inputs: int = 0
    decided_by_mpfr: int = 0
    mismatches: int = 0
    examples: list[tuple[int, int, int]] = field(default_factory=list)
    """(operand, result, correct result) of the first mismatches."""

    hard: list[tuple[float, int]] = field(default_factory=list)
    """(distance from half way between two numbers, in ulps; operand), the least distance first."""

    def add(self, other: "Findings") -> None:
        """Take in what was found for other operands."""
        self.inputs += other.inputs
        self.decided_by_mpfr += other.decided_by_mpfr
        self.mismatches += other.mismatches
        self.examples = (self.examples + other.examples)[:_MOST_MISMATCHES]
        self.hard = sorted(self.hard + other.hard)[:MOST_HARD]


def can_sweep(name: str) -> bool:
    """Whether this processor has what computes a function of `SWEPT`."""
    return name not in QUICK or registers.ARE_USED


def compile_for_lanes(
    function: Function, lanes: int, emit: Formula = emit_formula
) -> Callable[[Patterns], Patterns]:
    """Compile afresh what is emitted for a function, on vectors of some width.

    Args:
        function: a transcendental function.
        lanes: how many lanes a vector has.
        emit: what emits it.
    """
    kind = ir.VectorType(vectors.FLOAT, lanes)

    @emitted(types.void, types.intp, types.intp, types.intp)
    def transform(
        builder: ir.IRBuilder, source: ir.Value, target: ir.Value, count: ir.Value
    ) -> None:
        def transform_vector(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            offset = builder.mul(number, vectors.WORD(4 * lanes))
            x = vectors.load(builder, kind, builder.add(source, offset))
            vectors.store(builder, emit(builder, function, x), builder.add(target, offset))
            return []

        vectors.repeat(builder, count, [], transform_vector)

    @numba.njit(nogil=True, error_model="numpy")
    def run(operands: Floats, results: Floats) -> None:
        transform(operands.ctypes.data, results.ctypes.data, operands.size // lanes)

    def compute_patterns(operands: Patterns) -> Patterns:
        padded = np.concatenate([operands, np.zeros(-operands.size % lanes, np.uint32)])
        results = np.empty(padded.size, np.float32)
        run(padded.view(np.float32), results)
        patterns = results.view(np.uint32)
        patterns[np.isnan(results)] = CANONICAL_NAN
        return patterns[: operands.size]

    return compute_patterns


@cache
def _compile_formula(function: Function) -> Callable[[Patterns], Patterns]:
    return compile_for_lanes(function, vectors.LANES)


def get_computation(name: str) -> Callable[[Function, Patterns], Patterns]:
    """Return what computes a function of `SWEPT`; of those with two roads, the named one."""
    if name in QUICK or SWEPT[name] not in ROADS:
        return compute
    return lambda function, operands: _compile_formula(function)(operands)


def compute(function: Function, operands: Patterns) -> Patterns:
    """The results of ours that are on trial, every NaN as it would be committed."""
    x = operands.view(np.float32)
    if function in FUNCTIONS:
        return elementary.apply(function, x).view(np.uint32)
    results = _sqrt(x) if function is Function.SQRT else _reciprocal(x)
    return np.where(np.isnan(results), np.uint32(CANONICAL_NAN), results.view(np.uint32))


def compare(
    function: Function,
    operands: Patterns,
    compute_results: Callable[[Function, Patterns], Patterns] = compute,
) -> Findings:
    """Compare the results for some operands with the correctly rounded values.

    Args:
        function: one of `SWEPT`.
        operands: bit patterns, uint32, of shape (N,).
        compute_results: computes what is on trial.
    """
    verdicts = np.empty(operands.size, np.uint8)
    results = compute_results(function, operands)
    lowest = np.float32(LOWEST.get(function, -math.inf))
    _judge(function)(operands.view(np.float32), results, lowest, verdicts)
    findings = Findings(operands.size)
    for place in np.flatnonzero(verdicts == _DIFFERS).tolist():
        findings.mismatches += 1
        if len(findings.examples) < _MOST_MISMATCHES:
            _add_example(findings, function, int(operands[place]), int(results[place]))
    for place in np.flatnonzero(verdicts == _IS_CLOSE).tolist():
        _decide(findings, function, int(operands[place]), int(results[place]))
    findings.hard = sorted(findings.hard)[:MOST_HARD]
    return findings


def _add_example(findings: Findings, function: Function, operand: int, result: int) -> None:
    findings.examples.append((operand, result, round_exactly(function, operand)))


def _decide(findings: Findings, function: Function, operand: int, result: int) -> None:
    """Let MPFR decide one operand."""
    findings.decided_by_mpfr += 1
    if round_exactly(function, operand) != result:
        findings.mismatches += 1
        _add_example(findings, function, operand, result)
    distance = get_distance(function, operand)
    if distance and distance < _HARD_ULPS:  # at 0, the value itself is half way
        findings.hard.append((distance, operand))


@cache
def _judge(function: Function) -> Any:
    """Compiled: writes a verdict on each result, given the bound below which there are NaNs."""
    approximate = FILTERS[function]

    @numba.njit(nogil=True, error_model="numpy")
    def judge(operands: Floats, results: Patterns, lowest: np.float32, verdicts: Any) -> None:
        for i in range(operands.size):
            x = operands[i]
            if x != x or x < lowest:  # noqa: PLR0124 - NaN
                verdicts[i] = _AGREES if results[i] == CANONICAL_NAN else _DIFFERS
            elif x == 0 or not lowest < x < math.inf:
                verdicts[i] = _IS_CLOSE
            else:
                high, low = approximate(np.float64(x))
                least = np.float32(high + (low - abs(high) * MARGIN)).view(np.uint32)
                most = np.float32(high + (low + abs(high) * MARGIN)).view(np.uint32)
                agrees = _AGREES if results[i] == least else _DIFFERS
                verdicts[i] = agrees if least == most else _IS_CLOSE

    return judge
