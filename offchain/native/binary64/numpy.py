"""The engine of binary64 that is numpy's alone, its reductions included."""

from typing import Any

import numpy as np

from moot.offchain.native.binary64.base import Doubles, Engine


class NumpyEngine(Engine):
    """Numpy's products, reductions and functions."""

    adds_up: bool = True

    def add_up(self, terms: Doubles) -> Any:
        """See Engine."""
        return np.add.reduce(terms, axis=1)
