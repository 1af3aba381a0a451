"""Products of matrices in `exact`: the sums of a binary64 product, and a second look at a few."""

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu import products
from moot.offchain.backends.cpu.kernels.bounded_sums import round_sums
from moot.offchain.backends.cpu.kernels.exact_sums import settle_products
from moot.offchain.backends.cpu.products import Products
from moot.offchain.native.doubles import Doubles

Floats = npt.NDArray[np.float32]
Marks = npt.NDArray[np.bool_]


def multiply(a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply batches of matrices as `products.multiply` does, each sum rounded once."""
    products.multiply(_round, a, b, init, out)


def _round(found: Products, init: Floats, out: Floats) -> None:
    doubtful = np.empty(out.shape, np.bool_)
    round_sums(found.sums, found.rows, found.columns, init, out, doubtful)
    for z in np.flatnonzero(doubtful.reshape(len(out), -1).any(1)):
        _settle(found.left[z], found.right[z], init[z], doubtful[z], out[z])


def _settle(a: Doubles, b: Doubles, init: Floats, doubtful: Marks, out: Floats) -> None:
    """Sum the doubtful elements of one product by two-sums, or as integers."""
    places = np.flatnonzero(doubtful)
    settled = np.empty(len(places), np.float32)
    settle_products(a, b, init, places, settled)
    out.reshape(-1)[places] = settled
