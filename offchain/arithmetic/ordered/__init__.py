"""The arithmetic `ordered`: a fold rounds after every step, in ascending order of its positions."""

from collections.abc import Sequence
from functools import cache

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.integers import signed, wrap


@cache
def find_fold(function: Function, dtype: DType) -> Fold:
    """Return the fold whose accumulators are elements: each step is one scalar function.

    A step of a contraction of integers adds their product, modulo 2^32 or 2^64: of INT8 numbers to
    an INT32 one.
    """
    if function is Function.FMA and dtype is not DType.FLOAT32:
        return _find_integer_product(dtype)

    def advance(accumulator: int, values: Sequence[int]) -> int:
        if function is Function.FMA:
            return evaluate(function, (dtype,) * 3, dtype, (*values, accumulator))
        return evaluate(function, (dtype,) * 2, dtype, (accumulator, *values))

    return Fold(dtype.width, _keep, advance, _keep)


def _find_integer_product(dtype: DType) -> Fold:
    """Return the fold of a contraction whose factors are integers of some type."""
    width = 8 * dtype.width
    result = DType.INT32 if dtype is DType.INT8 else dtype

    def advance(accumulator: int, values: Sequence[int]) -> int:
        first, second = (signed(width, value) for value in values)
        return wrap(8 * result.width, accumulator + first * second)

    return Fold(result.width, _keep, advance, _keep)


def _keep(bits: int) -> int:
    return bits


ORDERED = Arithmetic("ordered", version=1, find_fold=find_fold)
