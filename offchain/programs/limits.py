"""The limits of programs and of the jobs that run them, which the referee's types set.

The contracts have constants of the same values, and a test compares them.
"""

from moot.offchain.commitments.tags import CHUNK_BYTES

MAX_RANK = 8
"""Dimensions of an output, of a slot and of an operand's access."""
MAX_FOLD_RANK = 4
MAX_OPERANDS = 8
MAX_TERMS = 12
"""Variables in one row of an access."""
MAX_NODE_BYTES = 2_048
"""The canonical encoding of an operator."""
MAX_OPERATORS = 1 << 20
MAX_SLOTS = 1 << 16
"""Slots of the state, and of the batch."""
MAX_TENSOR_BYTES = 1 << 63
"""The least size that no tensor has."""
MAX_STEPS = 1 << 32
MAX_EVIDENCE_BYTES = MAX_OPERANDS * (
    (2 + 8 * MAX_RANK)
    + CHUNK_BYTES
    + 32 * (MAX_TENSOR_BYTES // CHUNK_BYTES - 1).bit_length()
    + 32 * (MAX_STEPS * MAX_SLOTS - 1).bit_length()
)
"""What a leaf takes at most: of each operand a header, a chunk, and the siblings in two trees."""
MAX_TEXT_BYTES = (1 << 16) - 1
"""The UTF-8 of a slot's name; of an operator's name and line, which only a program's file has."""
