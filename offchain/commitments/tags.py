"""The tag byte before everything that is hashed: it keeps leaves, nodes, roots and trees apart."""

from enum import IntEnum


class Tag(IntEnum):
    """First byte of a keccak-256 preimage."""

    CHUNK = 0x01
    TENSOR_NODE = 0x02
    TENSOR_ROOT = 0x03
    STATE_NODE = 0x04
    STATE_ROOT = 0x05
    HISTORY_NODE = 0x06
    HISTORY_ROOT = 0x07
    INTERVAL_NODE = 0x08
    TRACE_NODE = 0x09
    OPERATOR = 0x0A
    PROGRAM_NODE = 0x0B
    PROGRAM_ROOT = 0x0C
    DATA_NODE = 0x0D
    DATA_ROOT = 0x0E
    FOLD = 0x0F
    LAYOUT = 0x10
    CLAIM = 0x11
    POSITION = 0x12
    LOG_ENTRIES = 0x13
    LOG_NODE = 0x14
    LOG_ROOT = 0x15
    RECEIPT_NODE = 0x16
    ANNOUNCEMENT = 0x17


CHUNK_BYTES = 256
"""Bytes of a tensor under one leaf; docs/reference/commitments.md has the measurement behind it."""
