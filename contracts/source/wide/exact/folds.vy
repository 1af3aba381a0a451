# pragma version 0.4.3
"""
@title Which folds are sums of their own: those that add up floats
@license Apache-2.0
"""

import nodes
import scalar

# Functions of which the fold is a sum.
SUMS: constant(uint256) = 1 << scalar.ADD | 1 << scalar.FMA


@internal
@pure
def is_sum(kind: uint256, function: uint256, dtype: uint256, term: uint256) -> bool:
    """
    @notice Whether an operator is a fold that adds up floats.
    @param kind The operator's kind.
    @param function Its function.
    @param dtype Its element type.
    @param term The word of its second operand, which is of the same type.
    @return Whether it is.
    """
    return dtype == nodes.FLOAT32 and (nodes.FOLDS >> kind) & (SUMS >> function) & 1 == 1
