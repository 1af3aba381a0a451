"""Products of matrices in binary64, by the engine that this process has.

What is computed with them has a proven bound that holds for any order of the terms, so that results
never depend on which engine it is.
"""

import numpy as np
import numpy.typing as npt

from moot.offchain.native.binary64.current import get_engine

Doubles = npt.NDArray[np.float64]


def multiply(a: Doubles, b: Doubles) -> Doubles:
    """Return the product of two matrices, or of two batches of them, contiguous."""
    return np.ascontiguousarray(get_engine().multiply(a, b))
