"""The arithmetic `exact`: a sum is the correctly rounded exact sum, in whatever order it is made.

Folds that add floats, and contractions, mean that; all others mean what they mean in `ordered`,
where no order of their steps makes a difference, products aside.
"""

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.exact import sums
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED

_SUMS = frozenset({Function.ADD, Function.FMA})
_MEANING = (sums.begin, sums.advance, sums.finish, sums.describe)
_SUM = Fold(sums.WIDTH_BYTES, *_MEANING, is_finished=False)


def is_sum(function: Function, dtype: DType) -> bool:
    """Whether a fold by this function is a sum that is rounded once."""
    return dtype is DType.FLOAT32 and function in _SUMS


def find_fold(function: Function, dtype: DType) -> Fold:
    """Return the exact sum, or what the fold means in `ordered`."""
    return _SUM if is_sum(function, dtype) else ORDERED.find_fold(function, dtype)


EXACT = Arithmetic(
    "exact",
    version=1,
    find_fold=find_fold,
    contracts="exact",
    accumulator_bytes=sums.WIDTH_BYTES,
    has_engines=True,
)
