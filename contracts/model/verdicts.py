"""The moves from one chunk of a tensor to a verdict.

What is bound by what has been committed to (a chunk, a leaf) may come from anyone; accumulators,
and the choice among them, come from the member whose bond they risk.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from moot.contracts.model.checks import get_claim, get_contender, require
from moot.contracts.model.descent import BOTH, arrive, get_before
from moot.contracts.model.leaf import Context, compute_leaf, read_node
from moot.contracts.model.turns import Turn, begin, begin_with, load
from moot.contracts.model.types import (
    FOLD_ARITY,
    WIDE_FOLD_ARITY,
    ZERO,
    Dive,
    Facts,
    Message,
    Pair,
    Position,
    Store,
    Terms,
)
from moot.contracts.model.words import announce
from moot.contracts.reasons import Ending, Outcome, Phase, Reason
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import hash_chunk
from moot.offchain.commitments.tree import Digest, is_member


def on_reach_chunk(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    dive: Dive,
    chunk: bytes,
) -> None:
    """Pick for the last time in a tensor's tree, and show the bytes of one's own chunk."""
    turn = begin_with(store, message, pair, position, facts, Phase.TENSOR)
    require(position.entered == BOTH, Reason.WRONG_PHASE)
    arrive(turn, hash_chunk(chunk), dive)
    _require_chunk(turn, facts, chunk, turn.mover)
    turn.change(phase=Phase.CHUNK)
    turn.pass_on(data=chunk)


def _require_chunk(turn: Turn, facts: Facts, chunk: bytes, side: int) -> None:
    position = turn.position
    size = min(CHUNK_BYTES, facts.elements * facts.width - position.index * CHUNK_BYTES)
    require(len(chunk) == size, Reason.BAD_CHUNK)
    require(hash_chunk(chunk) == position.nodes[side], Reason.BAD_CHUNK)


def on_pick_element(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    theirs: bytes,
    mine: bytes,
    values: bytes,
) -> None:
    """Show both chunks, of which the first different element is in dispute.

    If it was folded, the mover posts the accumulators at the inner boundaries of the segments.
    """
    turn = begin_with(store, message, pair, position, facts, Phase.CHUNK)
    turn.require_own()
    _require_chunk(turn, facts, theirs, 1 - turn.mover)
    _require_chunk(turn, facts, mine, turn.mover)
    size = facts.width
    pieces = zip(_split(theirs, size), _split(mine, size), strict=True)
    place = next(i for i, (their, my) in enumerate(pieces) if their != my)
    found = (_read(mine, place, size), _read(theirs, place, size))
    facts = replace(
        facts,
        element=position.index * (CHUNK_BYTES // size) + place,
        high=facts.fold_length,
        bits=found if turn.mover == 0 else found[::-1],
    )
    _narrow(turn, facts, values)


def _split(values: bytes, width: int) -> list[bytes]:
    ends = pairwise(range(0, len(values) + width, width))
    return [values[start:end] for start, end in ends]


def _read(values: bytes, place: int, width: int) -> int:
    return int.from_bytes(values[place * width :][:width], "little")


def _narrow(turn: Turn, facts: Facts, values: bytes) -> None:
    """Go on with the accumulators that the mover posts, or at the leaf if none are left."""
    turn.find(facts)
    is_leaf = facts.high - facts.low <= 1
    size = 0 if is_leaf else (get_segments(facts) - 1) * facts.bits_bytes
    require(len(values) == size, Reason.BAD_VALUES)
    if is_leaf:
        # Nothing that the leaf is about has a node.
        turn.change(phase=Phase.LEAF, nodes=(ZERO, ZERO))
    else:
        turn.change(phase=Phase.FOLD)
        turn.put_node(turn.mover, hash_values(values))
    turn.pass_on(data=values)


def get_segments(facts: Facts) -> int:
    """Return the number of segments into which the next round divides the fold."""
    arity = WIDE_FOLD_ARITY if facts.accumulator_bytes else FOLD_ARITY
    return min(arity, facts.high - facts.low)


def get_boundary(facts: Facts, segment: int) -> int:
    """Return the fold step at which a segment begins."""
    return facts.low + (facts.high - facts.low) * segment // get_segments(facts)


def hash_values(values: bytes) -> Digest:
    """Return the digest under which posted accumulators are remembered."""
    return keccak256(bytes([Tag.FOLD]) + values)


def on_pick_segment(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    theirs: bytes,
    segment: int,
    bits: int,
    values: bytes,
) -> None:
    """Name the segment that begins with an agreed accumulator and ends with a disputed one.

    `theirs` are the accumulators that the other side has posted, `bits` is what the mover says of
    the segment's last (ignored at the end of the fold's range, of which it has spoken already),
    and `values` are its own at the inner boundaries of the segment's segments.
    """
    turn = begin_with(store, message, pair, position, facts, Phase.FOLD)
    turn.require_own()
    mover, segments, width = turn.mover, get_segments(facts), facts.bits_bytes
    require(hash_values(theirs) == position.nodes[1 - mover], Reason.BAD_VALUES)
    require(segment < segments, Reason.OUT_OF_RANGE)
    low_bits, high_bits = facts.low_bits, facts.bits
    if segment > 0:
        low_bits = _read(theirs, segment - 1, width)
    if segment + 1 < segments:
        require(bits < 1 << 8 * width, Reason.BAD_VALUES)
        shown = (bits, _read(theirs, segment, width))
        high_bits = shown if mover == 0 else shown[::-1]
    require(high_bits[0] != high_bits[1], Reason.SAME_NODE)
    low, high = get_boundary(facts, segment), get_boundary(facts, segment + 1)
    _narrow(turn, replace(facts, low=low, high=high, low_bits=low_bits, bits=high_bits), values)


def get_context(terms: Terms, facts: Facts, side: int, before: Digest | None) -> Context:
    """Return what both sides agree on at the leaf of a match; `before` is None if not shown."""
    return Context(
        trace_top=facts.traces[side],
        operators=terms.operators,
        before=before,
        state_slots=terms.state_slots,
        data_top=terms.data_top,
        batch_slots=terms.batch_slots,
        steps=terms.steps,
        step=facts.step,
        element=facts.element,
        position=facts.low,
        accumulator=facts.low_bits,
    )


def on_leaf(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    side: int,
    encoding: bytes,
    before: Digest,
    before_proof: Sequence[Digest],
    evidence: bytes,
) -> None:
    """Compute the one scalar operation that is left, from proven operands, and decide.

    Operands are proven against the trees of `side`, either one: they agree on all that lies before
    what is in dispute. The state before the step is needed only if an operand comes from it.
    """
    turn = begin_with(store, message, pair, position, facts, Phase.LEAF)
    require(side < 2, Reason.OUT_OF_RANGE)
    digest = keccak256(bytes([Tag.OPERATOR]) + encoding)
    require(digest == facts.encoding_digest, Reason.BAD_PROOF)
    terms = turn.job.terms
    member = get_contender(store, pair.job_id, (pair.first, pair.second)[side])
    claim = get_claim(store, pair.job_id, member)
    tag, top, index, count = get_before(facts, terms, side, claim.top)
    is_shown = is_member(tag, top, before, index, count, before_proof)
    context = get_context(terms, facts, side, before if is_shown else None)
    node = read_node(encoding, store.arithmetic)
    computed = compute_leaf(store.arithmetic, context, node, evidence)
    is_right = (facts.bits[0] == computed, facts.bits[1] == computed)
    turn.decide(Ending.SCALAR, is_right, announce(facts, computed))


def on_prove_sink(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    side: int,
    root: Digest,
    proof: Sequence[Digest],
) -> None:
    """Show the output of the sink that the disputed slot of the state should be."""
    turn = begin_with(store, message, pair, position, facts, Phase.SINK)
    require(side < 2, Reason.OUT_OF_RANGE)
    terms = turn.job.terms
    index, count = terms.operators - terms.state_slots + position.index, terms.operators + 1
    is_sink = is_member(Tag.TRACE_NODE, facts.traces[side], root, index, count, proof)
    require(is_sink, Reason.BAD_PROOF)
    turn.decide(Ending.SINK, (position.nodes[0] == root, position.nodes[1] == root))


def on_rule(
    store: Store, message: Message, pair: Pair, position: Position, outcome: Outcome
) -> None:
    """Post the bounded verifier's ruling: which side's output is right, if any.

    Neither wins where neither has shown what both have agreed on.
    """
    turn = begin(store, message, pair, position, Phase.VERIFIER)
    require(message.sender == turn.job.terms.verifier, Reason.NOT_YOURS)
    require(outcome <= Outcome.NEITHER, Reason.OUT_OF_RANGE)
    turn.end(Ending.VERIFIER, Outcome(outcome))


def on_timeout(store: Store, message: Message, pair: Pair, position: Position) -> None:
    """End a match whose side to move has let its clock run out; anyone may.

    If it is the verifier that is late, both members are out, with their bonds.
    """
    turn = load(store, message, pair, position)
    require(message.block > position.deadline, Reason.CLOCK_RUNNING)
    is_verifiers = position.phase is Phase.VERIFIER
    turn.end(Ending.CLOCK, Outcome.UNDECIDED if is_verifiers else Outcome(1 - turn.mover))
