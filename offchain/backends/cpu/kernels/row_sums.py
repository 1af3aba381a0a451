"""Sums of rows in binary64, with what bounds their errors: what kernels that round them share.

A sum comes with the sum of its terms' magnitudes, and with the smallest of these but zeros: terms
of which that is large enough are multiples of one number, and binary64 adds them up exactly.
"""

from functools import partial

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import Kernel, emitted, subroutine
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import DOUBLE, FLOAT, WORD

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

ROWS = 16
"""Rows that lie side by side and are summed together: a line of the cache."""

_LANES = 8
"""Terms of a row that are added up side by side."""

_GRAIN = 2**16
_FLOAT_BYTES, _DOUBLE_BYTES = 4, 8


def run_on_rows(x: Floats, along: Kernel, across: Kernel, *arguments: object) -> None:
    """Run kernels on the rows of a matrix, shared out to threads.

    Both take (x, step, terms, *arguments, first, stop): the matrix as the memory that it lies in,
    the step from one row to the next (`along`), or from one term of a row to the next (`across`),
    the number of a row's terms, and the rows to do.

    Args:
        x: (M, K) float32, any strides.
        along: the kernel for rows whose terms lie side by side.
        across: the kernel for rows that lie side by side.
        arguments: what else they take.
    """
    rows, terms = x.shape
    unit = x.itemsize
    if unit not in x.strides or min(x.strides) < 0 or any(step % unit for step in x.strides):
        x = np.ascontiguousarray(x)
    row_step, step = (stride // unit for stride in x.strides)
    size = 1 + (rows - 1) * row_step + (terms - 1) * step
    flat = np.lib.stride_tricks.as_strided(x, (size,), (unit,), writeable=False)

    def work(first: int, stop: int) -> None:
        if step == 1:
            along(flat, row_step, terms, *arguments, first, stop)
        else:
            across(flat, step, terms, *arguments, first, stop)

    share(work, rows, ROWS * max(1, _GRAIN // (ROWS * max(1, terms))))


def read_rows(init: Floats) -> tuple[Floats, int]:
    """Return the rows of initial terms, contiguous, and their step: 0 for one that serves for all.

    Args:
        init: (B, M, N) float32, any strides.
    """
    if init.strides[:2] == (0, 0):
        return np.ascontiguousarray(init[0, :1]), 0
    return np.ascontiguousarray(init).reshape(-1, init.shape[2]), 1


def _emit_sums(
    builder: ir.IRBuilder, lanes: int, source: ir.Value, step: ir.Value, count: ir.Value
) -> list[ir.Value]:
    """Sum `count` vectors, at least one, that lie `step` bytes apart, each lane by itself.

    Returns the sums, those of magnitudes, and the smallest magnitudes but zeros.
    """
    wide, narrow = (ir.VectorType(kind, lanes) for kind in (DOUBLE, FLOAT))
    zeros, infinities = ir.Constant(narrow, None), ir.Constant(narrow, [float("inf")] * lanes)

    def advance(index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        total, magnitude, smallest = values
        terms = vectors.load(builder, narrow, builder.add(source, builder.mul(index, step)))
        sizes = vectors.call(builder, "llvm.fabs", [terms])
        others = builder.select(builder.fcmp_unordered("!=", terms, zeros), sizes, infinities)
        return [
            builder.fadd(total, builder.fpext(terms, wide)),
            builder.fadd(magnitude, builder.fpext(sizes, wide)),
            _emit_least(builder, others, smallest),
        ]

    begin = [ir.Constant(wide, None), ir.Constant(wide, None), infinities]
    total, magnitude, smallest = vectors.repeat(builder, count, begin, advance)
    return [total, magnitude, builder.fpext(smallest, wide)]


def _emit_least(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


@emitted(types.void, *[types.intp] * 4)
def _sum_lanes(
    builder: ir.IRBuilder, source: ir.Value, step: ir.Value, count: ir.Value, target: ir.Value
) -> None:
    """Store three vectors: what `_emit_sums` returns."""
    for place, vector in enumerate(_emit_sums(builder, ROWS, source, step, count)):
        vectors.store(builder, vector, target, _DOUBLE_BYTES * ROWS * place)


@emitted(types.void, *[types.intp] * 3)
def _sum_all(builder: ir.IRBuilder, source: ir.Value, count: ir.Value, target: ir.Value) -> None:
    """Store three numbers: what `_emit_sums` returns, over all lanes."""
    step = WORD(_FLOAT_BYTES * _LANES)
    found = _emit_sums(builder, _LANES, source, step, count)
    for place, (vector, join) in enumerate(
        zip(found, (builder.fadd, builder.fadd, partial(_emit_least, builder)), strict=True)
    ):
        while vector.type.count > 1:
            half = vector.type.count // 2
            low, high = (
                vectors.shuffle(builder, vector, vector, list(range(first, first + half)))
                for first in (0, half)
            )
            vector = join(low, high)  # noqa: PLW2901 - it is halved
        vectors.store(builder, vector, target, _DOUBLE_BYTES * place)


@subroutine
def _advance(
    total: float, magnitude: float, smallest: float, term: float
) -> tuple[float, float, float]:
    size = abs(term)
    if 0 < size < smallest:
        smallest = size
    return total + term, magnitude + size, smallest


@subroutine
def sum_row(x: Floats, start: int, terms: int, found: Doubles) -> tuple[float, float, float]:
    """Return the sum of a row whose terms lie side by side.

    Args:
        x: (N,) float32, contiguous.
        start: where the row begins.
        terms: how many there are.
        found: (3,) binary64, contiguous: is overwritten.

    Returns:
        The sum, that of the magnitudes, and the smallest magnitude but zeros.
    """
    whole = terms // _LANES
    total, magnitude, smallest = 0.0, 0.0, np.inf
    if whole:
        _sum_all(x.ctypes.data + _FLOAT_BYTES * start, whole, found.ctypes.data)
        total, magnitude, smallest = found
    for k in range(start + whole * _LANES, start + terms):
        total, magnitude, smallest = _advance(total, magnitude, smallest, np.float64(x[k]))
    return total, magnitude, smallest


@subroutine
def sum_rows_across(
    x: Floats, start: int, step: int, terms: int, count: int, found: Doubles
) -> None:
    """Sum up to `ROWS` rows that lie side by side.

    Args:
        x: (N,) float32, contiguous.
        start: where the first row begins.
        step: from one term of a row to the next.
        terms: how many there are.
        count: the number of rows.
        found: (3, ROWS) binary64, contiguous: as many columns become what `sum_row` returns.
    """
    if count == ROWS:
        source = x.ctypes.data + _FLOAT_BYTES * start
        _sum_lanes(source, _FLOAT_BYTES * step, terms, found.ctypes.data)
    else:
        found[:2] = 0
        found[2] = np.inf
        for row in range(count):
            for k in range(terms):
                term = np.float64(x[start + row + k * step])
                found[0, row], found[1, row], found[2, row] = _advance(
                    found[0, row], found[1, row], found[2, row], term
                )
