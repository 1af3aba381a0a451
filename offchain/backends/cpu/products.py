"""Products of matrices as binary64 makes them in any order, part by part, for engines to round.

A device's product is off by at most K * 2^-52 * |a| * |b| at an element with K terms, whatever its
order and its library: products of two binary32 numbers are exact in binary64, and by Cauchy's
inequality their magnitudes add up to at most the product of the norms of the row and the column.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from moot.offchain.backends.cpu.kernels.bounded_sums import compute_reach
from moot.offchain.backends.cpu.kernels.norms import measure_columns, measure_rows
from moot.offchain.native import doubles
from moot.offchain.native.doubles import Doubles
from moot.offchain.native.threads import get_threads, share

Floats = npt.NDArray[np.float32]

_DEPTH = 512
"""Terms of a sum that are added up by themselves, so that the bound of its error stays small."""

_BLOCK_ELEMENTS = 1 << 22
"""Elements of a result and of its longer factor that are in memory at once, in binary64."""

_GRAIN = 1 << 19
"""Multiply-adds that make another thread worth its start."""


class Products(NamedTuple):
    """Batches of products of matrices, not yet rounded.

    Attributes:
        left: (B, M, K) binary64, and
        right: (B, K, N) binary64: the factors, any strides.
        sums: (B, M, N) binary64, contiguous: the products.
        rows: (B, M) and
        columns: (B, N), contiguous: rows[z, m] * columns[z, n] bounds the error of a sum, as
            `compute_reach` says; it is 0 only where all terms are zeros.
    """

    left: Doubles
    right: Doubles
    sums: Doubles
    rows: Doubles
    columns: Doubles


Finish = Callable[[Products, Floats, Floats], object]
"""(products, init, out): adds the initial terms, (B, M, N), any strides, and writes rounded sums to
`out`, (B, M, N), contiguous."""


def multiply(finish: Finish, a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], each sum rounded by `finish`.

    Where all products share a factor, as images share a filter, they are made as one.

    Args:
        finish: rounds the sums of a part.
        a: (B, M, K) float32, any strides.
        b: (B, K, N) float32, any strides.
        init: (B, M, N) float32, any strides; it shares no memory with `out`.
        out: (B, M, N) float32, any strides.
    """
    batch, height, width = out.shape
    if batch > 1 and a.strides[0] == 0:
        one = np.empty((1, height, batch * width), np.float32)
        columns, starts = (x.swapaxes(0, 1).reshape(1, x.shape[1], -1) for x in (b, init))
        _multiply_all(finish, a[:1], columns, starts, one)
        out[...] = one.reshape(height, batch, width).swapaxes(0, 1)
    elif batch > 1 and b.strides[0] == 0:
        one = np.empty((1, batch * height, width), np.float32)
        rows, starts = (x.reshape(1, -1, x.shape[2]) for x in (a, init))
        _multiply_all(finish, rows, b[:1], starts, one)
        out[...] = one.reshape(out.shape)
    else:
        _multiply_all(finish, a, b, init, out)


def _multiply_all(finish: Finish, a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply as `multiply` does, shared out to threads, and block by block."""
    batch, height, width = out.shape
    steps, threads = a.shape[2], get_threads()
    cost = steps * min(height, width)

    def multiply_matrices(first: int, stop: int) -> None:
        count = max(1, _BLOCK_ELEMENTS // (height * width + steps * max(height, width)))
        for z in _cut(first, stop, count):
            _multiply(finish, a[z], b[z], init[z], out[z])

    def multiply_part(z: int, first: int, stop: int) -> None:
        for part in _cut(first, stop, max(1, _BLOCK_ELEMENTS // (min(height, width) + steps))):
            if height >= width:
                _multiply(
                    finish, a[z, None, part], b[z, None], init[z, None, part], out[z, None, part]
                )
            else:
                parts = (x[z, None, :, part] for x in (b, init, out))
                _multiply(finish, a[z, None], *parts)

    with _alone():
        if batch >= threads and height * width <= _BLOCK_ELEMENTS:
            share(multiply_matrices, batch, max(1, _GRAIN // (max(height, width) * cost)))
            return
        # As few parts as there are threads, along the longer side: all read the other factor.
        length = max(height, width)
        grain = max(_GRAIN // cost, -(-length // threads), 1)
        for z in range(batch):
            share(partial(multiply_part, z), length, grain)


def _cut(first: int, stop: int, size: int) -> Iterator[slice]:
    """Yield parts of a range, of this size at most."""
    for start in range(first, stop, size):
        yield slice(start, min(start + size, stop))


@np.errstate(all="ignore")  # of the thread that runs it
def _multiply(finish: Finish, a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply as `multiply` does, all at once."""
    steps = a.shape[2]
    left, right = a.astype(np.float64), b.astype(np.float64)
    total = doubles.multiply(left[:, :, :_DEPTH], right[:, :_DEPTH])
    for part in _cut(_DEPTH, steps, _DEPTH):
        total += doubles.multiply(left[:, :, part], right[:, part])
    heights = measure_rows(left)
    heights *= compute_reach(min(steps, _DEPTH) + -(-steps // _DEPTH), steps)
    rounded = out if out.flags.c_contiguous else np.empty(out.shape, np.float32)
    finish(Products(left, right, total, heights, measure_columns(right)), init, rounded)
    if rounded is not out:
        out[...] = rounded


@contextmanager
def _alone() -> Iterator[None]:
    """Let numpy's library use one thread for each of those that share the work."""
    before = [library.num_threads for library in _find_libraries()]
    _set_threads([1] * len(before))
    try:
        yield
    finally:
        _set_threads(before)


def _set_threads(counts: Sequence[int]) -> None:
    for library, count in zip(_find_libraries(), counts, strict=True):
        library.set_num_threads(count)


@cache
def _find_libraries() -> list[Any]:
    """Return the libraries of linear algebra that this process has loaded."""
    return ThreadpoolController().select(user_api="blas").lib_controllers  # type: ignore[no-any-return]  # it is untyped
