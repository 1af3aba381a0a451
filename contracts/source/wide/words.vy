# pragma version 0.4.3
"""
@title The words of an accumulator as bytes: both ways, since what is posted has the lowest first
@license Apache-2.0
"""

# Every second byte of a word, and pair, four and eight of them.
BYTES: constant(uint256) = max_value(uint256) // (2**8 + 1)
PAIRS: constant(uint256) = max_value(uint256) // (2**16 + 1)
FOURS: constant(uint256) = max_value(uint256) // (2**32 + 1)
EIGHTS: constant(uint256) = max_value(uint256) // (2**64 + 1)


@internal
@pure
def reverse(word: uint256) -> uint256:
    """
    @notice Return the 32 bytes of a word in the other order.
    @param word The word.
    @return The other word.
    """
    found: uint256 = (word >> 8) & BYTES | (word & BYTES) << 8
    found = (found >> 16) & PAIRS | (found & PAIRS) << 16
    found = (found >> 32) & FOURS | (found & FOURS) << 32
    found = (found >> 64) & EIGHTS | (found & EIGHTS) << 64
    return found >> 128 | found << 128
