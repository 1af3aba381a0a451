"""Products of matrices in `exact`: a binary64 product of any order, and a second look at a few.

A device's product is off by at most K * 2^-52 * |a| * |b| at an element with K terms, whatever its
order and its library: products of two binary32 numbers are exact in binary64, and by Cauchy's
inequality their magnitudes add up to at most the product of the norms of the row and the column.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from offchain.execution import doubles
from offchain.execution.doubles import Doubles
from offchain.execution.exact_terms import add_terms
from offchain.execution.kernels.bounded_sums import compute_reach, round_sums
from offchain.execution.kernels.exact_sums import settle_products
from offchain.execution.kernels.norms import measure_columns, measure_rows
from offchain.execution.kernels.threads import get_threads, share

Floats = npt.NDArray[np.float32]
Marks = npt.NDArray[np.bool_]

_DEPTH = 512
"""Terms of a sum that are added up by themselves, so that the bound of its error stays small."""

_BLOCK_ELEMENTS = 1 << 22
"""Elements of a result in a block, whose sums are in memory at once."""

_GRAIN = 1 << 19
"""Multiply-adds that make another thread worth its start."""


@np.errstate(all="ignore")
def multiply(a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], each sum rounded once.

    Args:
        a: (B, M, K) float32, any strides.
        b: (B, K, N) float32, any strides.
        init: (B, M, N) float32, any strides; it shares no memory with `out`.
        out: (B, M, N) float32, any strides.
    """
    batch, height, width = out.shape
    factor = b.astype(np.float64)
    widths = measure_columns(factor)
    cost = a.shape[2] * width

    def work_matrices(first: int, stop: int) -> None:
        count = max(1, _BLOCK_ELEMENTS // (height * width))
        for start in range(first, stop, count):
            z = slice(start, min(start + count, stop))
            _multiply(a[z], factor[z], widths[z], init[z], out[z])

    def work_rows(z: int, first: int, stop: int) -> None:
        count = max(1, _BLOCK_ELEMENTS // width)
        for start in range(first, stop, count):
            part = slice(z, z + 1), slice(start, min(start + count, stop))
            _multiply(a[part], factor[z : z + 1], widths[z : z + 1], init[part], out[part])

    threads = get_threads()
    with _alone():
        if batch >= threads and height * width <= _BLOCK_ELEMENTS:
            share(work_matrices, batch, max(1, _GRAIN // (height * cost)))
            return
        # As few parts as there are threads: every product packs its second factor anew.
        grain = max(_GRAIN // cost, -(-height // threads), 1)
        for z in range(batch):
            share(partial(work_rows, z), height, grain)


def _multiply(a: Floats, b: Doubles, widths: Doubles, init: Floats, out: Floats) -> None:
    """Multiply a part; `widths` are the norms of the columns of b."""
    steps = a.shape[2]
    factor = a.astype(np.float64)
    total = doubles.multiply(factor[:, :, :_DEPTH], b[:, :_DEPTH])
    for first in range(_DEPTH, steps, _DEPTH):
        part = slice(first, first + _DEPTH)
        total += doubles.multiply(factor[:, :, part], b[:, part])
    heights = measure_rows(factor)
    heights *= compute_reach(min(steps, _DEPTH) + -(-steps // _DEPTH), steps)
    rounded = out if out.flags.c_contiguous else np.empty(out.shape, np.float32)
    doubtful = np.empty(out.shape, np.bool_)
    round_sums(total, heights, widths, init, rounded, doubtful)
    for z in np.flatnonzero(doubtful.reshape(len(out), -1).any(1)):
        _settle(factor[z], b[z], init[z], doubtful[z], rounded[z])
    if rounded is not out:
        out[...] = rounded


def _settle(a: Doubles, b: Doubles, init: Floats, doubtful: Marks, out: Floats) -> None:
    """Sum the doubtful elements of one product by two-sums, and what is left as integers."""
    places = np.flatnonzero(doubtful)
    settled, left = np.empty(len(places), np.float32), np.empty(len(places), np.uint8)
    settle_products(a, b, init, places, settled, left)
    for place in np.flatnonzero(left):
        m, n = divmod(int(places[place]), out.shape[1])
        row, column = a[m].astype(np.float32), b[:, n].astype(np.float32)
        settled[place] = add_terms(init[m, n], zip(row, column, strict=True))
    out.reshape(-1)[places] = settled


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
