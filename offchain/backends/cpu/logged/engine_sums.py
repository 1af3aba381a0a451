"""Sums in binary64 by an engine's own additions, where it has some; else `stock` makes them."""

import numpy as np

from moot.offchain.arithmetic.logged.band import CHUNK
from moot.offchain.backends.cpu.kernels.bounded_sums import compute_reach
from moot.offchain.backends.cpu.kernels.doubts import EXACT_RATIO
from moot.offchain.backends.cpu.logged import stock
from moot.offchain.backends.cpu.logged.stock import Floats
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.binary64.base import Engine
from moot.offchain.native.binary64.current import get_engine
from moot.offchain.native.doubles import Doubles


def add_up(terms: Doubles) -> Doubles:
    """Return the sums of rows, in chunks, and of the chunks' sums: (P, K) -> (P,)."""
    if type(get_engine()).add_up is Engine.add_up:
        return stock.add_up(terms)
    return _add_up(terms)


def _add_up(terms: Doubles) -> Doubles:
    steps, size = terms.shape[1], CHUNK
    if steps <= CHUNK:
        return np.array(get_engine().add_up(terms), np.float64)
    while size * CHUNK < steps:
        size *= CHUNK
    total = _add_up(terms[:, :size])
    for first in range(size, steps, size):
        total += _add_up(terms[:, first : first + size])
    return total


@np.errstate(all="ignore")
def fold_rows(reach: float, matrix: Array, init: Array) -> Floats:
    """Return the sum of each row as `stock.fold_rows` does, rounded once or marked."""
    if not get_engine().adds_up or matrix.shape[1] == 0:
        return stock.fold_rows(reach, matrix, init)
    terms, initial = matrix.astype(np.float64), np.asarray(init).astype(np.float64)
    sizes, first = np.abs(terms), np.abs(initial)
    whole = sizes.sum(axis=1) + first
    smallest = np.where(sizes == 0, np.inf, sizes).min(axis=1)
    smallest = np.minimum(smallest, np.where(first == 0, np.inf, first))
    error = whole * compute_reach(matrix.shape[1] + 1, matrix.shape[1] + 1)
    error[whole <= EXACT_RATIO * smallest] = 0
    return stock.round_sums(_add_up(terms) + initial, reach * error, initial)
