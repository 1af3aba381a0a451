# pragma version 0.4.3
"""
@title Which folds are sums of their own: contractions of bfloat16, as tensor cores compute them
@license Apache-2.0
"""

import nodes


@internal
@pure
def is_sum(kind: uint256, function: uint256, dtype: uint256, term: uint256) -> bool:
    """
    @notice Whether an operator is a contraction whose factors are bfloat16.
    @param kind The operator's kind.
    @param function Its function, which a contraction has no choice of.
    @param dtype Its element type, likewise.
    @param term The word of its second operand, a contraction's first factor.
    @return Whether it is.
    """
    return kind == nodes.CONTRACT and nodes.get_dtype(term) == nodes.BFLOAT16
