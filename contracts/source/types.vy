# pragma version 0.4.3
"""
@title What callers hand to the referee, and the referee to the leaf
@license Apache-2.0
"""

import merkle

MAX_NODE_BYTES: constant(uint256) = 2_048
MAX_OPERANDS: constant(uint256) = 8
CHUNK_BYTES: constant(uint256) = 256
# Eight elements with the longest proofs: a header, a chunk, and siblings in trees of 2^55 chunks
# and of 2^48 tensors.
MAX_EVIDENCE_BYTES: constant(uint256) = 28_944
# Two for each level that an opening shows.
MAX_SIBLINGS: constant(uint256) = 8
# Of a tensor's header: 32 bytes in front of it, element type and rank, one byte each, and eight
# dimensions of eight bytes.
MAX_PADDED_HEADER: constant(uint256) = 98


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
    window_blocks: uint256
    clock_blocks: uint256
    increment_blocks: uint256


# The two members of a match; the first, side 0, has the lower address.
struct Pair:
    job_id: uint256
    first: address
    second: address


# Where a match stands: a packed word (turns.vy says how), both sides' nodes, the digest of what has
# been found out. The contract remembers its digest alone, and every move brings it along.
struct Position:
    head: uint256
    node_0: bytes32
    node_1: bytes32
    facts: bytes32


# One step down a tree: `Dive` in contracts/model/types.py says what is what.
struct Dive:
    child: uint256
    node: bytes32
    siblings: DynArray[bytes32, MAX_SIBLINGS]
    nodes: DynArray[bytes32, merkle.ARITY]


# What both sides agree on at a leaf: the roots, the place, the accumulator before it. The state
# before the step counts only if it has been shown.
struct Context:
    trace_top: bytes32
    operators: uint256
    has_before: bool
    before: bytes32
    state_slots: uint256
    data_top: bytes32
    batch_slots: uint256
    steps: uint256
    step: uint256
    element: uint256
    position: uint256
    accumulator: uint256


# Where the state before a step lies: in the tree with this tag, whose top has this key. A tree of
# one leaf is that leaf, and has no proof.
struct Before:
    tag: bytes1
    key: uint256
    index: uint256
    count: uint256


# What the referee tells the leaf: the context, in which the state before the step is still to be
# shown, and where that lies.
struct Ground:
    context: Context
    before: Before


# What the referee has to know of an operator whose output is disputed; `fold_length` is 0 where
# nothing is folded.
struct Summary:
    width: uint256
    elements: uint256
    fold_length: uint256
