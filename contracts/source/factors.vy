# pragma version 0.4.3
"""
@title What the two factors of a contraction of floats may be beside such numbers
@license Apache-2.0
"""

# The number of a type, or 0 for none.
SHORT: constant(uint256) = 0
