"""The engine that computes in binary64 in this process: numpy's unless another one is chosen.

What is computed with it has a proven bound that holds for any order of the terms, so that results
never depend on which one it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.binary64.base import Doubles, Engine

_chosen: list[Engine] = [Engine()]


def get_engine() -> Engine:
    """Return the engine."""
    return _chosen[0]


def set_engine(engine: Engine) -> None:
    """Let this process compute by an engine from now on; `trial.py` tries one before."""
    _chosen[0] = engine


@contextmanager
def computing_by(engine: Engine) -> Iterator[None]:
    """Let this process compute by an engine for a while."""
    before = get_engine()
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(before)


def evaluate(function: Function, *operands: Doubles) -> Doubles:
    """Return a function of each element, contiguous."""
    return np.ascontiguousarray(_chosen[0].evaluate(function, *operands))
