"""The arithmetics `hopper` and `ampere`: contractions of bfloat16 as tensor cores compute them.

A contraction whose two factors are BFLOAT16 is a chain of blocks of products, in ascending order of
its terms (`blocks.py`), and its elements are FLOAT32. Its pairs of factors wait in the accumulator
until their block is full (`pairs.py`), so a step reads one pair, as it does in every arithmetic.
All else means what it means in `ordered`, contractions of FLOAT32 among it.
"""

from collections.abc import Callable
from functools import partial

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import pairs
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block


def _make_chain(block: Block) -> Fold:
    advance, finish = partial(pairs.advance, block), partial(pairs.finish, block)
    meaning = (pairs.begin, advance, finish, partial(pairs.describe, block))
    return Fold(pairs.WIDTH_BYTES, *meaning, is_finished=False)


_CHAINS = {name: _make_chain(block) for name, block in BLOCKS.items()}


def _find_fold(name: str, function: Function, dtype: DType) -> Fold:
    is_chain = function is Function.FMA and dtype is DType.BFLOAT16
    return _CHAINS[name] if is_chain else ORDERED.find_fold(function, dtype)


def find_hopper_fold(function: Function, dtype: DType) -> Fold:
    """Return a chain of Hopper's blocks, or what the fold means in `ordered`."""
    return _find_fold("hopper", function, dtype)


def find_ampere_fold(function: Function, dtype: DType) -> Fold:
    """Return a chain of Ampere's blocks, or what the fold means in `ordered`."""
    return _find_fold("ampere", function, dtype)


def _make(name: str, find_fold: Callable[[Function, DType], Fold]) -> Arithmetic:
    return Arithmetic(
        name,
        version=1,
        find_fold=find_fold,
        short_factors=DType.BFLOAT16,
        contracts=name,
        accumulator_bytes=pairs.WIDTH_BYTES,
    )


HOPPER, AMPERE = _make("hopper", find_hopper_fold), _make("ampere", find_ampere_fold)
TENSOR = (HOPPER, AMPERE)
"""The arithmetics of tensor cores; the blocks of `BLOCKS` have the same names."""
