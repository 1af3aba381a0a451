# pragma version 0.4.3
"""
@title What a match remembers of accumulators, which are elements here
@license Apache-2.0
"""

# Segments into which one round divides a fold.
FOLD_ARITY: constant(uint256) = 64
# The accumulators of one round, 63 of eight bytes.
MAX_VALUES_BYTES: constant(uint256) = 504


# What a match has found out; turns.vy says how words are packed, `Facts` in
# contracts/model/types.py what all of it means.
struct Facts:
    place: uint256
    interval_0: bytes32
    interval_1: bytes32
    trace_0: bytes32
    trace_1: bytes32
    encoding_digest: bytes32
    tensor: uint256
    fold: uint256
    bits: uint256
