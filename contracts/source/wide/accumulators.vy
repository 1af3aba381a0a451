# pragma version 0.4.3
"""
@title What a match remembers of accumulators, which are three words here
@license Apache-2.0
@notice Sums and elements alike are kept as they are posted: 96 bytes, the lowest first.
"""

# Segments into which one round divides a fold: a fold of 2^12 terms takes three rounds.
FOLD_ARITY: constant(uint256) = 17
ACCUMULATOR_BYTES: constant(uint256) = 96
# The accumulators of one round, 16 of them.
MAX_VALUES_BYTES: constant(uint256) = 1_536


# What a match has found out; turns.vy says how words are packed, `Facts` in
# contracts/model/types.py what all of it means. The bits are those that are agreed, those of side 0
# and those of side 1.
struct Facts:
    place: uint256
    interval_0: bytes32
    interval_1: bytes32
    trace_0: bytes32
    trace_1: bytes32
    encoding_digest: bytes32
    tensor: uint256
    fold: uint256
    bits: bytes32[3][3]
