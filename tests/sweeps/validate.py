"""Measures the filters' errors against MPFR, on random and on structured operands.

python -m tests.sweeps.validate [exp log ...] [--count 1000000]
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import argparse
import math
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache
from itertools import repeat
from typing import Any

import click
import gmpy2
import numba
import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function
from tests.sweeps.compare import LOWEST, SWEPT
from tests.sweeps.filters import ERROR, FILTERS
from tests.sweeps.oracle import MPFR

Doubles = npt.NDArray[np.float64]

_SMALLEST, _LARGEST = 2.0**-151, 2.0**129
"""Values beyond these round to 0 and infinity whatever their error."""

_PRECISE = gmpy2.context(precision=200, emin=-2000, emax=2000)
"""Its range is that of errors; MPFR is slow with numbers such as exp(10^9) in one that is wider."""

_PIECE = 50_000


def draw_operands(function: Function, count: int, seed: int) -> Doubles:
    """Operands from a function's domain: a third of any size, a third moderate, a third structured.

    The structured ones are next to multiples of pi / 4 and log(2) / 2, and to powers of two.
    """
    rng = np.random.default_rng(seed)
    part = count // 3 + count // 100 + 1
    signs = rng.choice([-1.0, 1.0], 3 * part)
    anywhere = rng.integers(0, 0x7F800000, part, np.uint32).view(np.float32)
    moderate = 2.0 ** rng.uniform(-30, 8, part)
    unit = rng.choice([math.pi / 4, math.log(2) / 2], part)
    multiples = np.rint(2.0 ** rng.uniform(0, 30, part)) * unit
    structured = np.where(rng.random(part) < 0.5, multiples, 2.0 ** rng.integers(-149, 128, part))
    sizes = np.concatenate([anywhere, moderate, structured]).astype(np.float32)
    steps = rng.integers(-4, 5, sizes.size)
    operands = signs * (sizes.view(np.int32) + steps).astype(np.int32).view(np.float32)
    lowest = LOWEST.get(function, -math.inf)
    operands = np.where(operands <= lowest, -operands, operands)
    return np.asarray(operands[np.isfinite(operands) & (operands != 0)][:count], np.float64)


@cache
def _compile(function: Function) -> Any:
    """Compiled: writes both parts of a filter's values."""
    approximate = FILTERS[function]

    @numba.njit(error_model="numpy")
    def compute(operands: Doubles, high: Doubles, low: Doubles) -> None:
        for i in range(operands.size):
            high[i], low[i] = approximate(operands[i])

    return compute


def measure_error(function: Function, operands: Doubles) -> float:
    """The greatest error of a function's filter on operands, relative to the value."""
    high, low = np.empty_like(operands), np.empty_like(operands)
    _compile(function)(operands, high, low)
    greatest = gmpy2.mpfr(0)
    with gmpy2.context(_PRECISE):
        for x, *parts in zip(operands.tolist(), high.tolist(), low.tolist(), strict=True):
            exact = MPFR[function](gmpy2.mpfr(x))
            if _SMALLEST < abs(exact) < _LARGEST:
                greatest = max(greatest, abs((gmpy2.mpfr(parts[0]) + parts[1]) / exact - 1))
    return float(greatest)


def _validate_piece(function: Function, count: int, seed: int) -> tuple[int, float]:
    """How many operands were drawn, and the greatest error on them."""
    operands = draw_operands(function, count, seed)
    return operands.size, measure_error(function, operands)


def validate(pool: Executor, name: str, count: int, seed: int) -> float:
    """Measure a filter's greatest error on operands drawn in pieces, and print it; see `SWEPT`."""
    sizes = [min(_PIECE, count - start) for start in range(0, count, _PIECE)]
    seeds = range(seed * len(sizes), (seed + 1) * len(sizes))
    operands, greatest = 0, 0.0
    for drawn, error in pool.map(_validate_piece, repeat(SWEPT[name]), sizes, seeds):
        operands += drawn
        greatest = max(greatest, error)
        click.echo(f"{name:12} {operands:,} operands\r", nl=False, err=True)
    click.echo(f"{name:12} {operands:,} operands  error 2^{math.log2(greatest):.1f}")
    return greatest


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the greatest error of each function's filter; 1 if one is above ERROR."""
    parser = argparse.ArgumentParser("validate", description=__doc__.split("\n")[0])
    parser.add_argument("functions", nargs="*", metavar="function", choices=[*SWEPT, []])
    parser.add_argument("--count", type=int, default=10**6, help="operands of each (1,000,000)")
    parser.add_argument("--seed", type=int, default=0, help="for the random operands (0)")
    parser.add_argument("--processes", type=int, default=2, help="processes to use (2)")
    parsed = parser.parse_args(arguments)
    names = parsed.functions or list(SWEPT)
    with ProcessPoolExecutor(parsed.processes, multiprocessing.get_context("spawn")) as pool:
        errors = [validate(pool, name, parsed.count, parsed.seed) for name in names]
    return int(max(errors) >= ERROR)


if __name__ == "__main__":
    sys.exit(main())
