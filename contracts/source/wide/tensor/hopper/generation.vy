# pragma version 0.4.3
"""
@title The block of Hopper's tensor cores
@license Apache-2.0
@notice offchain/arithmetic/tensor/blocks.py is the specification.
"""

# How many products are added at once, a power of two.
PAIRS: constant(uint256) = 16
# How many bits below the largest exponent a term is cut.
KEPT_BITS: constant(uint256) = 25
# The exponent with which a term that is zero takes part.
ZERO_EXPONENT: constant(int256) = -133
