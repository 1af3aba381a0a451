# pragma version 0.4.3
"""
@title The tag byte before everything that is hashed
@license Apache-2.0
@notice Tags keep leaves, nodes, roots and trees apart; offchain/commitments/tags.py has the same.
"""

CHUNK: constant(bytes1) = 0x01
TENSOR_NODE: constant(bytes1) = 0x02
TENSOR_ROOT: constant(bytes1) = 0x03
STATE_NODE: constant(bytes1) = 0x04
STATE_ROOT: constant(bytes1) = 0x05
HISTORY_NODE: constant(bytes1) = 0x06
HISTORY_ROOT: constant(bytes1) = 0x07
INTERVAL_NODE: constant(bytes1) = 0x08
TRACE_NODE: constant(bytes1) = 0x09
OPERATOR: constant(bytes1) = 0x0A
PROGRAM_NODE: constant(bytes1) = 0x0B
PROGRAM_ROOT: constant(bytes1) = 0x0C
DATA_NODE: constant(bytes1) = 0x0D
FOLD: constant(bytes1) = 0x0F
RECEIPT_NODE: constant(bytes1) = 0x16
ANNOUNCEMENT: constant(bytes1) = 0x17

# These begin digests of whole words, of which the tag is the first.
CLAIM: constant(uint256) = 17
POSITION: constant(uint256) = 18
