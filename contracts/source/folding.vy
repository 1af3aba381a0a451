# pragma version 0.4.3
"""
@title The moves that narrow a fold to one step, and the verdict at its leaf
@license Apache-2.0
@notice Accumulators, and the choice among them, come from the member whose bond they risk.
        contracts/model/verdicts.py is the specification.
"""

import accumulators
import descent
import phases
import require
import tags
import tensors
import turns
import types
import verdicts

uses: descent
uses: turns


@external
def pick_element(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    theirs: Bytes[types.CHUNK_BYTES],
    mine: Bytes[types.CHUNK_BYTES],
    values: Bytes[accumulators.MAX_VALUES_BYTES],
):
    """
    @notice Show both chunks, of which the first different element is in dispute.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param theirs The bytes that the other side has shown.
    @param mine The mover's own.
    @param values The mover's accumulators at the inner boundaries of the segments, if the element
           was folded; little-endian.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.CHUNK)
    turns.require_own(turn)
    verdicts.require_chunk(turn, facts, theirs, turn.theirs)
    verdicts.require_chunk(turn, facts, mine, turn.mine)
    width: uint256 = facts.tensor >> turns.WIDTH_AT
    # An element's index is below 2^63, a width is not 0.
    place: uint256 = unsafe_div(tensors.find_difference(mine, theirs), width)
    start: uint256 = unsafe_mul(place, width)
    element: uint256 = unsafe_mul(turn.index, unsafe_div(types.CHUNK_BYTES, width))
    element = unsafe_add(element, place)
    found: accumulators.Facts = facts
    found.tensor |= element << turns.ELEMENT_AT
    fold_length: uint256 = (facts.tensor >> turns.FOLD_LENGTH_AT) & turns.U64
    found.fold = fold_length << turns.HIGH_AT
    found.bits = self._pack_bits(
        turn,
        tensors.read_element(mine, start, width),
        tensors.read_element(theirs, start, width),
    )
    self._narrow(turn, found, values)


@external
def pick_segment(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    theirs: Bytes[accumulators.MAX_VALUES_BYTES],
    segment: uint256,
    bits: uint256,
    values: Bytes[accumulators.MAX_VALUES_BYTES],
):
    """
    @notice Name the segment that begins with an agreed accumulator and ends with a disputed one.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param theirs The accumulators that the other side has posted.
    @param segment The segment.
    @param bits What the mover says of its last accumulator; ignored at the end of the fold's range,
           of which it has spoken already.
    @param values The mover's accumulators at the inner boundaries of the segment's segments.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.FOLD)
    turns.require_own(turn)
    require.matching_values(self._hash_values(theirs) == turn.theirs)
    segments: uint256 = self._get_segments(facts.fold)
    require.index_in_range(segment < segments)
    width: uint256 = facts.tensor >> turns.WIDTH_AT
    low_bits: uint256 = facts.fold >> turns.LOW_BITS_AT
    found: accumulators.Facts = facts
    # Boundary b, for b from 1 on, is the accumulator at (b - 1) * width; segments are at most 64.
    next: uint256 = unsafe_add(segment, 1)
    if segment != 0:
        start: uint256 = unsafe_mul(unsafe_sub(segment, 1), width)
        low_bits = tensors.read_element(theirs, start, width)
    if next < segments:
        require.matching_values(bits >> (width << 3) == 0)
        their_bits: uint256 = tensors.read_element(theirs, unsafe_mul(segment, width), width)
        found.bits = self._pack_bits(turn, bits, their_bits)
    require.difference(found.bits & turns.U64 != found.bits >> turns.BITS_1_AT)
    found.fold = (
        self._get_boundary(facts.fold, segment)
        | self._get_boundary(facts.fold, next) << turns.HIGH_AT
        | low_bits << turns.LOW_BITS_AT
    )
    self._narrow(turn, found, values)


@external
def decide_leaf(pair: types.Pair, bits: uint256, computed: uint256):
    """
    @notice End a match at its leaf; for the contract that has computed it, from what
            `prepare_leaf` has just told it.
    @param pair The members of the match.
    @param bits What the sides claim, packed as in the facts.
    @param computed What is right.
    """
    require.mover(msg.sender == descent.LEAF.address)
    outcome: uint256 = phases.NEITHER
    if bits & turns.U64 == computed:
        outcome = 0
    elif bits >> turns.BITS_1_AT == computed:
        outcome = 1
    turns.end(pair, phases.BY_SCALAR, outcome, computed)


@internal
def _narrow(turn: turns.Turn, facts: accumulators.Facts, values: Bytes[accumulators.MAX_VALUES_BYTES]):
    # Go on with the accumulators that the mover posts, or at the leaf if none are left.
    narrowed: turns.Turn = turns.find(turn, facts)
    # The fold goes from a lower to a higher step.
    length: uint256 = unsafe_sub(
        (facts.fold >> turns.HIGH_AT) & turns.U64, facts.fold & turns.U64
    )
    size: uint256 = 0
    if length > 1:
        narrowed.phase = phases.FOLD
        # Two segments at least, and 64 at most, of elements of eight bytes at most.
        inner: uint256 = unsafe_sub(self._get_segments(facts.fold), 1)
        size = unsafe_mul(inner, facts.tensor >> turns.WIDTH_AT)
        narrowed.mine = self._hash_values(values)
    else:
        # Nothing that the leaf is about has a node.
        narrowed.phase = phases.LEAF
        narrowed.mine = empty(bytes32)
        narrowed.theirs = empty(bytes32)
    require.matching_values(len(values) == size)
    turns.pass_on(narrowed, [], values)


@internal
@pure
def _pack_bits(turn: turns.Turn, mine: uint256, theirs: uint256) -> uint256:
    if turn.mover == 0:
        return mine | theirs << turns.BITS_1_AT
    return theirs | mine << turns.BITS_1_AT


@internal
@pure
def _hash_values(values: Bytes[accumulators.MAX_VALUES_BYTES]) -> bytes32:
    # The digest under which posted accumulators are remembered.
    return keccak256(concat(tags.FOLD, values))


@internal
@pure
def _get_segments(fold: uint256) -> uint256:
    # The fold goes from a lower to a higher step.
    return min(
        accumulators.FOLD_ARITY, unsafe_sub((fold >> turns.HIGH_AT) & turns.U64, fold & turns.U64)
    )


@internal
@pure
def _get_boundary(fold: uint256, segment: uint256) -> uint256:
    # The fold step at which a segment begins; fold steps are below 2^63, segments at most 64.
    low: uint256 = fold & turns.U64
    length: uint256 = unsafe_sub((fold >> turns.HIGH_AT) & turns.U64, low)
    past: uint256 = unsafe_div(unsafe_mul(length, segment), self._get_segments(fold))
    return unsafe_add(low, past)
