"""The arithmetics `hopper` and `ampere`: contractions of bfloat16 as tensor cores compute them.

A contraction whose two factors are BFLOAT16 is a chain of blocks of products, in ascending order of
its terms (`blocks.py`), and its elements are FLOAT32. Its pairs of factors wait in the accumulator
until their block is full (`pairs.py`), so a step reads one pair, as it does in every arithmetic.
All else means what it means in `ordered`, contractions of FLOAT32 among it.
"""

from functools import partial

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import pairs
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block


def _make(name: str) -> Arithmetic:
    """Return the arithmetic of a generation of tensor cores."""
    chain = _make_chain(BLOCKS[name])

    def find_fold(function: Function, dtype: DType) -> Fold:
        is_chain = function is Function.FMA and dtype is DType.BFLOAT16
        return chain if is_chain else ORDERED.find_fold(function, dtype)

    return Arithmetic(
        name,
        version=1,
        find_fold=find_fold,
        short_factors=DType.BFLOAT16,
        contracts=name,
        accumulator_bytes=pairs.WIDTH_BYTES,
    )


def _make_chain(block: Block) -> Fold:
    advance, finish = partial(pairs.advance, block), partial(pairs.finish, block)
    meaning = (pairs.begin, advance, finish, partial(pairs.describe, block))
    return Fold(pairs.WIDTH_BYTES, *meaning, is_finished=False)


HOPPER, AMPERE = _make("hopper"), _make("ampere")
TENSOR = (HOPPER, AMPERE)
"""The arithmetics of tensor cores; the blocks of `BLOCKS` have the same names."""
