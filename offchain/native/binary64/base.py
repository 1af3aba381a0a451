"""The engine of binary64: what a machine brings to programs in `exact` and `logged`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS

Doubles = npt.NDArray[np.float64]


class Engine:
    """An engine of binary64: numpy's products, and the functions of numpy and the C library.

    Another engine is a subclass that replaces what it computes otherwise. What it has to keep:

    A **sum of K numbers**, in a product or by itself, is made by K - 1 additions in any order, of
    which each errs by at most 2^-52 of its result. So it is off by (K - 1) 2^-52 of the sum of the
    terms' magnitudes, to first order, and is exact where binary64 holds every partial sum. That
    excludes sums of sums of other terms (Strassen's), and numbers that are cut to the size of their
    row (binary64 out of integers). A **function** is off by 2^-46 of its value at most.

    `trial.py` tries that, and refuses what does not keep it.

    Attributes:
        adds_up: whether `add_up` makes reductions, too, instead of a kernel.
    """

    adds_up: bool = False

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """Return the products of matrices, or of batches of them; K <= 512.

        Args:
            a: (M, K), or (B, M, K), float64, any strides.
            b: (K, N), or (B, K, N), float64, any strides.
        """
        return np.matmul(a, b)

    def add_up(self, terms: Doubles) -> Any:
        """Return the sums (P,) of the rows of terms, (P, K) float64; K <= 128."""
        return self.multiply(terms, np.ones((terms.shape[1], 1)))[:, 0]

    def evaluate(self, function: Function, *operands: Doubles) -> Any:
        """Return a function of each element of float64 arrays of one shape."""
        return FUNCTIONS[function](*operands)
