# pragma version 0.4.3
"""
@title The moves that narrow a fold to one step, and the verdict at its leaf
@license Apache-2.0
@notice Accumulators, and the choice among them, come from the member whose bond they risk.
        contracts/model/verdicts.py is the specification. Nothing is computed here: accumulators are
        told apart, and what they should be is the leaf's business.
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
           was folded.
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
    # Nothing was known of bits: behind an element's are zeros.
    found.bits[unsafe_add(turn.mover, 1)][0] = self._read_element(mine, start, width)
    found.bits[unsafe_sub(2, turn.mover)][0] = self._read_element(theirs, start, width)
    self._narrow(turn, found, values)


@external
def pick_segment(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    theirs: Bytes[accumulators.MAX_VALUES_BYTES],
    segment: uint256,
    bits: bytes32[3],
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
    segments: uint256 = min(accumulators.FOLD_ARITY, self._get_length(facts.fold))
    require.index_in_range(segment < segments)
    found: accumulators.Facts = facts
    # Segments are at most 17. Boundary b, for b from 1 on, is accumulator b - 1.
    next: uint256 = unsafe_add(segment, 1)
    if segment != 0:
        found.bits[0] = self._read(theirs, unsafe_sub(segment, 1))
    if next < segments:
        found.bits[unsafe_add(turn.mover, 1)] = bits
        found.bits[unsafe_sub(2, turn.mover)] = self._read(theirs, segment)
    mine: bytes32 = keccak256(abi_encode(found.bits[1]))
    require.difference(mine != keccak256(abi_encode(found.bits[2])))
    # Fold steps are below 2^64.
    length: uint256 = self._get_length(facts.fold)
    low: uint256 = unsafe_div(unsafe_mul(length, segment), segments)
    high: uint256 = unsafe_div(unsafe_mul(length, next), segments)
    start: uint256 = facts.fold & turns.U64
    found.fold = unsafe_add(start, low) | unsafe_add(start, high) << turns.HIGH_AT
    self._narrow(turn, found, values)


@external
def decide_leaf(pair: types.Pair, outcome: uint256, computed: uint256):
    """
    @notice End a match at its leaf; for the contract that has computed it, from what
            `prepare_leaf` has just told it.
    @param pair The members of the match.
    @param outcome Which side has claimed what is right, or 2 for neither.
    @param computed The digest of what is right.
    """
    require.mover(msg.sender == descent.LEAF.address)
    turns.end(pair, phases.BY_SCALAR, outcome, computed)


@internal
def _narrow(
    turn: turns.Turn,
    facts: accumulators.Facts,
    values: Bytes[accumulators.MAX_VALUES_BYTES],
):
    # Go on with the accumulators that the mover posts, or at the leaf if none are left.
    narrowed: turns.Turn = turns.find(turn, facts)
    # There are 17 segments at most, and none where nothing is folded.
    segments: uint256 = min(accumulators.FOLD_ARITY, self._get_length(facts.fold))
    inner: uint256 = unsafe_sub(max(segments, 1), 1)
    require.matching_values(len(values) == unsafe_mul(inner, accumulators.ACCUMULATOR_BYTES))
    if inner != 0:
        narrowed.phase = phases.FOLD
        narrowed.mine = self._hash_values(values)
    else:
        # Nothing that the leaf is about has a node.
        narrowed.phase = phases.LEAF
        narrowed.mine = empty(bytes32)
        narrowed.theirs = empty(bytes32)
    turns.pass_on(narrowed, [], values)


@internal
@pure
def _read_element(chunk: Bytes[types.CHUNK_BYTES], start: uint256, width: uint256) -> bytes32:
    # An element of a chunk, with zeros behind its bytes, eight at most.
    padded: Bytes[types.CHUNK_BYTES + 32] = concat(chunk, empty(bytes32))
    behind: uint256 = unsafe_sub(256, width << 3)
    word: uint256 = convert(extract32(padded, start), uint256) >> behind << behind
    return convert(word, bytes32)


@internal
@pure
def _read(values: Bytes[accumulators.MAX_VALUES_BYTES], place: uint256) -> bytes32[3]:
    # A posted accumulator; all its bytes exist.
    start: uint256 = unsafe_mul(place, accumulators.ACCUMULATOR_BYTES)
    return abi_decode(slice(values, start, accumulators.ACCUMULATOR_BYTES), (bytes32[3]))


@internal
@pure
def _hash_values(values: Bytes[accumulators.MAX_VALUES_BYTES]) -> bytes32:
    # The digest under which posted accumulators are remembered.
    return keccak256(concat(tags.FOLD, values))


@internal
@pure
def _get_length(fold: uint256) -> uint256:
    # The fold goes from a lower to a higher step.
    return unsafe_sub(fold >> turns.HIGH_AT, fold & turns.U64)
