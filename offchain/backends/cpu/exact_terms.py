"""Sums of a few elements by the definition of `exact`, for what no faster way settles."""

from collections.abc import Iterable

import numpy as np

from offchain.arithmetic.exact import sums


def add_terms(initial: np.float32, terms: Iterable[tuple[np.float32, ...]]) -> np.float32:
    """Return a sum of numbers or of products, correctly rounded.

    Args:
        initial: the initial term.
        terms: numbers, as tuples of one, or the two factors of each product.
    """
    accumulator = sums.begin(_get_bits(initial))
    for values in terms:
        accumulator = sums.advance(accumulator, [_get_bits(value) for value in values])
    return np.uint32(sums.finish(accumulator)).view(np.float32)


def _get_bits(value: np.float32) -> int:
    return int(value.view(np.uint32))
