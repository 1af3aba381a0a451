# pragma version 0.4.3
"""
@title The moves from one chunk of a tensor to a verdict
@license Apache-2.0
@notice What is bound by what has been committed to (a chunk, a leaf) may come from anyone;
        accumulators, and the choice among them, come from the member whose bond they risk.
        contracts/model/verdicts.py is the specification.
"""

import accumulators
import descent
import ledger
import merkle
import phases
import require
import tags
import tensors
import turns
import types

uses: descent
uses: ledger
uses: turns


@external
def reach_chunk(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    dive: types.Dive,
    chunk: Bytes[types.CHUNK_BYTES],
):
    """
    @notice Pick for the last time in a tensor's tree, and show the bytes of the mover's chunk.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param dive The pick.
    @param chunk The bytes.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.TENSOR)
    require.phase(turn.entered == descent.BOTH)
    turn = descent.arrive(turn, tensors.hash_chunk(chunk), dive)
    self.require_chunk(turn, facts, chunk, turn.mine)
    turn.phase = phases.CHUNK
    turns.pass_on(turn, [], chunk)


@external
@view
def prepare_leaf(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    side: uint256,
    encoding_digest: bytes32,
) -> types.Ground:
    """
    @notice Return what both sides agree on at a leaf, for the contract that computes it.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param side Whose trees the operands are proven against: they agree on all that is read.
    @param encoding_digest The digest of the operator.
    @return What they agree on.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.LEAF)
    require.index_in_range(side < 2)
    require.matching_proof(encoding_digest == facts.encoding_digest)
    account: address = pair.first
    tops: bytes32[2] = [facts.trace_0, facts.interval_0]
    if side == 1:
        account = pair.second
        tops = [facts.trace_1, facts.interval_1]
    key: uint256 = ledger.get_contender(pair.job_id, account) >> ledger.KEY_AT
    scope: uint256 = ledger.jobs[pair.job_id].scope
    first: uint256 = facts.place & turns.U40
    step: uint256 = (facts.place >> turns.STEP_AT) & turns.U40
    # The state before the step is in the interval, or else in the history; before the first step it
    # is the job's start, a tree of one leaf that nobody claims.
    before: types.Before = types.Before(
        tag=tags.HISTORY_NODE,
        key=key,
        # Where it is looked at, the disputed checkpoint is not the first.
        index=unsafe_sub((facts.place >> turns.CHECKPOINT_AT) & turns.U40, 1),
        count=ledger.get_checkpoints(pair.job_id),
    )
    if step != first:
        before = types.Before(
            tag=tags.INTERVAL_NODE,
            key=ledger.hash_top(tops[1]),
            # The step is after the interval's first.
            index=unsafe_sub(unsafe_sub(step, first), 1),
            count=descent.get_interval_length(pair.job_id, first),
        )
    elif step == 0:
        before.key = ledger.hash_top(ledger.jobs[pair.job_id].start_root)
        before.index = 0
        before.count = 1
    return types.Ground(
        context=types.Context(
            trace_top=tops[0],
            operators=scope & turns.U32,
            has_before=False,
            before=empty(bytes32),
            state_slots=(scope >> ledger.STATE_SLOTS_AT) & turns.U32,
            # The leaf reads it itself, if an operand comes from there.
            data_top=empty(bytes32),
            batch_slots=(scope >> ledger.BATCH_SLOTS_AT) & turns.U32,
            steps=(scope >> ledger.STEPS_AT) & turns.U64,
            step=step,
            element=(facts.tensor >> turns.ELEMENT_AT) & turns.U64,
            position=facts.fold & turns.U64,
            accumulator=facts.fold >> turns.LOW_BITS_AT,
        ),
        before=before,
    )


@external
def prove_sink(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    side: uint256,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show the output of the sink that the disputed slot of the state should be.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param side Whose trace it is proven against: they agree on the sinks.
    @param root The root of that output.
    @param proof Its proof against the trace.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.SINK)
    require.index_in_range(side < 2)
    scope: uint256 = ledger.jobs[pair.job_id].scope
    operators: uint256 = scope & turns.U32
    slots: uint256 = (scope >> ledger.STATE_SLOTS_AT) & turns.U32
    # There is a sink for every slot; operators are at most 2^20.
    index: uint256 = unsafe_add(unsafe_sub(operators, slots), turn.index)
    top: bytes32 = facts.trace_0
    if side == 1:
        top = facts.trace_1
    is_sink: bool = merkle.is_member(
        tags.TRACE_NODE, top, root, index, unsafe_add(operators, 1), proof
    )
    require.matching_proof(is_sink)
    turns.decide(turn, phases.BY_SINK, turn.mine == root, turn.theirs == root)


@external
def rule(pair: types.Pair, position: types.Position, outcome: uint256):
    """
    @notice Post the bounded verifier's ruling.
    @param pair The members of the match.
    @param position Where it stands.
    @param outcome Which side's output is right, or 2 for neither, and where neither side has shown
           what both have agreed on.
    """
    turn: turns.Turn = turns.begin(pair, position, 1 << phases.VERIFIER)
    require.mover(msg.sender == ledger.jobs[pair.job_id].verifier)
    require.index_in_range(outcome <= phases.NEITHER)
    turns.end(pair, phases.BY_VERIFIER, outcome, 0)


@external
def timeout(pair: types.Pair, position: types.Position):
    """
    @notice End a match whose side to move has let its clock run out; anyone may. If it is the
            verifier that is late, both members are out, with their bonds.
    @param pair The members of the match.
    @param position Where it stands.
    """
    turn: turns.Turn = turns.load(pair, position)
    require.no_time_left(block.number > turn.deadline)
    outcome: uint256 = turn.mover ^ 1
    if turn.phase == phases.VERIFIER:
        outcome = phases.UNDECIDED
    turns.end(pair, phases.BY_CLOCK, outcome, 0)


@internal
@pure
def require_chunk(
    turn: turns.Turn, facts: accumulators.Facts, chunk: Bytes[types.CHUNK_BYTES], node: bytes32
):
    """
    @notice Refuse a call unless these are the bytes of the chunk that the match has come to.
    @param turn The match.
    @param facts What it has found out.
    @param chunk The bytes.
    @param node The side's leaf.
    """
    # A tensor has less than 2^63 bytes, and the chunk begins before its end.
    size: uint256 = unsafe_mul(facts.tensor & turns.U64, facts.tensor >> turns.WIDTH_AT)
    size = unsafe_sub(size, unsafe_mul(turn.index, types.CHUNK_BYTES))
    require.matching_chunk(len(chunk) == min(size, types.CHUNK_BYTES))
    require.matching_chunk(tensors.hash_chunk(chunk) == node)
