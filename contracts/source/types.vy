# pragma version 0.4.3
"""
@title What callers hand to the referee, and the referee to the leaf
@license Apache-2.0
"""

import merkle

MAX_NODE_BYTES: constant(uint256) = 2_048
MAX_OPERANDS: constant(uint256) = 8
CHUNK_BYTES: constant(uint256) = 256
# Element type and rank, one byte each, and eight dimensions of eight bytes.
MAX_HEADER_BYTES: constant(uint256) = 66


# What a client asks for; windows and clocks are in blocks, money in wei.
struct Terms:
    operators: uint256
    state_slots: uint256
    batch_slots: uint256
    layout: bytes32
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32
    steps: uint256
    checkpoint_every: uint256
    leaf_mode: uint256
    verifier: address
    bond_wei: uint256
    commit_blocks: uint256
    reveal_blocks: uint256
    clock_blocks: uint256
    increment_blocks: uint256


# Proof of an operand's element: its chunk, up to the tensor root, up to an agreed root. One whose
# header is empty stands where a leaf needs no operand.
struct Opening:
    header: Bytes[MAX_HEADER_BYTES]
    chunk: Bytes[CHUNK_BYTES]
    chunk_proof: DynArray[bytes32, merkle.MAX_HEIGHT]
    root_proof: DynArray[bytes32, merkle.MAX_HEIGHT]


# What both sides agree on at a leaf: the roots, the place, the accumulator before it.
struct Context:
    trace_top: bytes32
    operators: uint256
    before: bytes32
    state_slots: uint256
    data_top: bytes32
    batch_slots: uint256
    steps: uint256
    step: uint256
    element: uint256
    position: uint256
    accumulator: uint256


# What the referee has to know of an operator whose output is disputed; `fold_length` is 0 where
# nothing is folded.
struct Summary:
    width: uint256
    elements: uint256
    fold_length: uint256
    output_root: bytes32
