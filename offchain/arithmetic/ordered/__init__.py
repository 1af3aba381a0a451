"""The arithmetic `ordered`: a fold rounds after every step, in ascending order of its positions."""

from collections.abc import Sequence
from functools import cache

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function


@cache
def find_fold(function: Function, dtype: DType) -> Fold:
    """Return the fold whose accumulators are elements: each step is one scalar function."""

    def advance(accumulator: int, values: Sequence[int]) -> int:
        if function is Function.FMA:
            return evaluate(function, (dtype,) * 3, dtype, (*values, accumulator))
        return evaluate(function, (dtype,) * 2, dtype, (accumulator, *values))

    return Fold(dtype.width, _keep, advance, _keep)


def _keep(bits: int) -> int:
    return bits


ORDERED = Arithmetic("ordered", version=1, find_fold=find_fold)
