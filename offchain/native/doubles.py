"""The binary64 product of batches of matrices: the one part of an engine that a device brings.

It is numpy's unless another one is set. What is computed with it has a proven bound that holds for
any order of the terms, so that results never depend on which one it is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Product = Callable[[Any, Any], Any]
"""(B, M, K) float64, (B, K, N) float64, any strides -> (B, M, N) float64."""

_chosen: list[Product] = [np.matmul]


def multiply(a: Doubles, b: Doubles) -> Doubles:
    """Return the products of two batches of matrices, contiguous."""
    return np.ascontiguousarray(_chosen[0](a, b))


def set_product(product: Product) -> None:
    """Let this process multiply so from now on."""
    _chosen[0] = product
