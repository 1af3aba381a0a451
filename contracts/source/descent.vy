# pragma version 0.4.3
"""
@title The moves down the trees, from the two histories to one chunk of one tensor
@license Apache-2.0
@notice Both sides open their own trees by turns. A move picks the place where the other side's
        opened nodes and the mover's own first differ, and shows the mover's nodes below that place.
        All siblings left of the path are shared, so that there is nothing to choose, and anyone
        may make these moves for a side. Fresh commitments come from the member whose bond they
        risk. contracts/model/descent.py is the specification.
"""

import ILeaf
import ledger
import merkle
import phases
import require
import tags
import tensors
import turns
import types

uses: ledger
uses: turns

# How many sides have to enter a tree.
BOTH: constant(uint256) = 2

LEAF: immutable(ILeaf)


@deploy
def __init__(leaf: address):
    """
    @notice Remember who computes leaves.
    @param leaf The leaf contract.
    """
    LEAF = ILeaf(leaf)


@external
def descend(pair: types.Pair, position: types.Position, dive: types.Dive):
    """
    @notice Pick in the other side's opening, and open one's own node there.
    @param pair The members of the match.
    @param position Where it stands.
    @param dive The pick and the nodes.
    """
    turn: turns.Turn = turns.begin(pair, position, phases.TREES)
    require.phase(turn.entered == BOTH)
    self._descend(turn, dive)


@external
def enter_interval(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    top: bytes32,
    last_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    dive: types.Dive,
):
    """
    @notice Commit to the state after every step of the disputed interval; the last one is claimed.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param top The top of the tree over the interval's states.
    @param last_proof The proof of the last of them, the mover's checkpoint.
    @param dive The pick, if the other side has entered, and the nodes.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, phases.INTERVAL)
    turns.require_own(turn)
    found: types.Facts = facts
    if turn.entered == 0:
        found.place = self._locate_interval(turn.job_id, turn.index)
    count: uint256 = self._get_interval_length(turn.job_id, found.place & turns.U40)
    self._require_last(tags.INTERVAL_NODE, top, turn.mine, count, last_proof)
    if turn.mover == 0:
        found.interval_0 = top
    else:
        found.interval_1 = top
    self._enter(turns.find(turn, found), top, count, dive)


@external
def enter_trace(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    top: bytes32,
    last_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    dive: types.Dive,
):
    """
    @notice Commit to the outputs of all operators of the disputed step; the last leaf is its state.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param top The top of the tree over the outputs.
    @param last_proof The proof of the mover's state after the step as its last leaf.
    @param dive The pick, if the other side has entered, and the nodes.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, phases.TRACE)
    turns.require_own(turn)
    found: types.Facts = facts
    if turn.entered == 0:
        if found.place == 0:
            found.place = self._locate_interval(turn.job_id, turn.index)
        else:
            # Until now the step was the interval's first; the sum is below the number of steps.
            found.place = unsafe_add(found.place, turn.index << turns.STEP_AT)
    # At most 2^20 operators.
    count: uint256 = unsafe_add(ledger.jobs[turn.job_id].scope & turns.U32, 1)
    self._require_last(tags.TRACE_NODE, top, turn.mine, count, last_proof)
    if turn.mover == 0:
        found.trace_0 = top
    else:
        found.trace_1 = top
    self._enter(turns.find(turn, found), top, count, dive)


@external
def enter_tensor(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    encoding: Bytes[types.MAX_NODE_BYTES],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    top: bytes32,
    dive: types.Dive,
):
    """
    @notice Show what the disputed operator is, and the top of its output's chunks.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param encoding The operator.
    @param proof Its proof against the program; ignored once the other side has entered.
    @param top The top of the tree over the output's chunks; ignored if it has no elements.
    @param dive The pick, if the other side has entered, and the nodes.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, phases.TENSOR)
    found: types.Facts = facts
    digest: bytes32 = keccak256(concat(tags.OPERATOR, encoding))
    if turn.entered == 0:
        operators: uint256 = ledger.jobs[turn.job_id].scope & turns.U32
        program_top: bytes32 = ledger.jobs[turn.job_id].program_top
        is_operator: bool = merkle.is_member(
            tags.PROGRAM_NODE, program_top, digest, turn.index, operators, proof
        )
        require.matching_proof(is_operator)
        found.place |= turn.index << turns.OPERATOR_AT
        found.encoding_digest = digest
        summary: types.Summary = staticcall LEAF.inspect(encoding)
        found.tensor = (
            summary.elements
            | summary.fold_length << turns.FOLD_LENGTH_AT
            | summary.width << turns.WIDTH_AT
        )
    require.matching_proof(digest == found.encoding_digest)
    # A tensor has less than 2^63 bytes.
    size: uint256 = unsafe_mul(found.tensor & turns.U64, found.tensor >> turns.WIDTH_AT)
    if size == 0:
        root: bytes32 = tensors.hash_output(encoding, tensors.EMPTY_TOP)
        turns.decide(turn, phases.BY_EMPTY, turn.mine == root, turn.theirs == root)
        return
    require.matching_opening(tensors.hash_output(encoding, top) == turn.mine)
    self._enter(turns.find(turn, found), top, tensors.get_chunk_count(size), dive)


@external
def enter_state(pair: types.Pair, position: types.Position, top: bytes32, dive: types.Dive):
    """
    @notice Show the top of the state after the step, when that is the first thing in dispute.
    @param pair The members of the match.
    @param position Where it stands.
    @param top The top of the tree over the state's tensors.
    @param dive The pick, if the other side has entered, and the nodes.
    """
    turn: turns.Turn = turns.begin(pair, position, 1 << phases.STATE)
    require.phase(turn.entered != BOTH)
    count: uint256 = (ledger.jobs[turn.job_id].scope >> ledger.STATE_SLOTS_AT) & turns.U32
    root: bytes32 = merkle.hash_root(tags.STATE_ROOT, count, top)
    require.matching_opening(root == turn.mine)
    self._enter(turn, top, count, dive)


@internal
def _enter(entered: turns.Turn, top: bytes32, count: uint256, dive: types.Dive):
    # Put the mover at the top of its tree. The first to enter opens it, the second descends.
    turn: turns.Turn = entered
    require.phase(turn.entered != BOTH)
    turn.mine = top
    if turn.entered == 1:
        turn.entered = BOTH
        self._descend(turn, dive)
        return
    turn.entered = 1
    turn.level = merkle.get_height(count)
    turn.index = 0
    turn.count = count
    require.matching_opening(self._fold(turn, dive.nodes) == top)
    turn.span = merkle.get_block(turn.level)
    turns.pass_on(turn, dive.nodes, b"")


@internal
def _descend(standing: turns.Turn, dive: types.Dive):
    # Go on below the place that the mover picks.
    turn: turns.Turn = self.pick(standing, dive)
    if turn.level == 0:
        self._leave_tree(turn, dive.nodes)
    else:
        turns.pass_on(turn, dive.nodes, b"")


@internal
@pure
def pick(standing: turns.Turn, dive: types.Dive) -> turns.Turn:
    """
    @notice Go to the place that the mover picks, and open its node there.
    @param standing The match.
    @param dive The pick and the nodes.
    @return The match there.
    """
    turn: turns.Turn = standing
    # An opening never goes below level 0, and spans few levels of trees of 2^55 leaves.
    turn.level = unsafe_sub(turn.level, turn.span)
    require.index_in_range(dive.child < 1 << turn.span)
    turn.index = unsafe_add(turn.index << turn.span, dive.child)
    require.index_in_range(turn.index < merkle.get_width(turn.count, turn.level))
    turn.mine = self._fold(turn, dive.nodes)
    turn.theirs = dive.node
    require.difference(turn.mine != turn.theirs)
    is_whole: bool = False
    mine: bytes32 = empty(bytes32)
    theirs: bytes32 = empty(bytes32)
    is_whole, mine, theirs = self._climb(turn, standing.level, dive.siblings)
    require.matching_proof(is_whole and mine == standing.mine and theirs == standing.theirs)
    turn.span = merkle.get_block(turn.level)
    return turn


@internal
@pure
def _fold(turn: turns.Turn, nodes: DynArray[bytes32, merkle.ARITY]) -> bytes32:
    # The node that is opened, from all nodes of the block below it. The first of these exists.
    down: uint256 = merkle.get_block(turn.level)
    width: uint256 = merkle.get_width(turn.count, unsafe_sub(turn.level, down))
    children: uint256 = min(1 << down, unsafe_sub(width, turn.index << down))
    require.matching_opening(len(nodes) == children)
    return merkle.fold_children(self._get_tag(turn.phase), nodes)


@internal
@pure
def _climb(
    turn: turns.Turn, high: uint256, siblings: DynArray[bytes32, types.MAX_SIBLINGS]
) -> (bool, bytes32, bytes32):
    # Whether the siblings are those needed, and both sides' nodes at level `high`.
    tag: bytes1 = self._get_tag(turn.phase)
    mine: bytes32 = turn.mine
    theirs: bytes32 = turn.theirs
    index: uint256 = turn.index
    # The place of the level's last node, which has no sibling if it is an even one.
    last: uint256 = unsafe_sub(merkle.get_width(turn.count, turn.level), 1)
    used: uint256 = 0
    for _: uint256 in range(unsafe_sub(high, turn.level), bound=merkle.ARITY_LOG2):
        if index & 1 == 1:
            if used >= len(siblings):
                return False, mine, theirs
            mine = keccak256(concat(tag, siblings[used], mine))
            theirs = keccak256(concat(tag, siblings[used], theirs))
            # At most MAX_SIBLINGS.
            used = unsafe_add(used, 1)
        elif index != last:
            if unsafe_add(used, 1) >= len(siblings):
                return False, mine, theirs
            theirs = keccak256(concat(tag, theirs, siblings[used]))
            mine = keccak256(concat(tag, mine, siblings[unsafe_add(used, 1)]))
            used = unsafe_add(used, 2)
        index >>= 1
        last >>= 1
    return used == len(siblings), mine, theirs


@internal
@pure
def _get_tag(phase: uint256) -> bytes1:
    # The tag of the tree that is descended in a phase.
    if phase == phases.HISTORY:
        return tags.HISTORY_NODE
    if phase == phases.TENSOR:
        return tags.TENSOR_NODE
    if phase == phases.TRACE:
        return tags.TRACE_NODE
    if phase == phases.INTERVAL:
        return tags.INTERVAL_NODE
    return tags.STATE_NODE


@internal
def _leave_tree(arrived: turns.Turn, nodes: DynArray[bytes32, merkle.ARITY]):
    # What follows from the first leaf in dispute.
    turn: turns.Turn = arrived
    turn.entered = 0
    if turn.phase == phases.HISTORY:
        if turn.index == 0:
            start_root: bytes32 = ledger.jobs[turn.job_id].start_root
            turns.decide(
                turn, phases.BY_START, turn.mine == start_root, turn.theirs == start_root
            )
            return
        turn.phase = phases.INTERVAL
        first: uint256 = self._locate_interval(turn.job_id, turn.index) & turns.U40
        if self._get_interval_length(turn.job_id, first) == 1:
            turn.phase = phases.TRACE
    elif turn.phase == phases.INTERVAL:
        turn.phase = phases.TRACE
    elif turn.phase == phases.TRACE:
        turn.phase = phases.TENSOR
        if turn.index == ledger.jobs[turn.job_id].scope & turns.U32:
            turn.phase = phases.STATE
        elif ledger.jobs[turn.job_id].head >> ledger.LEAF_MODE_AT == phases.OPERATOR_LEAF:
            turn.phase = phases.VERIFIER
    elif turn.phase == phases.TENSOR:
        turn.phase = phases.CHUNK
    else:
        turn.phase = phases.SINK
        turn.entered = BOTH
    turns.pass_on(turn, nodes, b"")


@internal
@view
def _locate_interval(job_id: uint256, checkpoint: uint256) -> uint256:
    # The place of a disputed checkpoint, which is not the start, as a packed word.
    every: uint256 = ledger.jobs[job_id].scope >> ledger.CHECKPOINT_EVERY_AT
    # Below the number of steps, 2^32.
    first: uint256 = unsafe_mul(unsafe_sub(checkpoint, 1), every)
    return first | first << turns.STEP_AT | checkpoint << turns.CHECKPOINT_AT


@internal
@view
def _get_interval_length(job_id: uint256, first_step: uint256) -> uint256:
    scope: uint256 = ledger.jobs[job_id].scope
    # An interval begins before the last step.
    steps: uint256 = unsafe_sub((scope >> ledger.STEPS_AT) & turns.U64, first_step)
    return min(scope >> ledger.CHECKPOINT_EVERY_AT, steps)


@internal
@pure
def _require_last(
    tag: bytes1,
    top: bytes32,
    leaf: bytes32,
    count: uint256,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    # A tree has one leaf at least.
    index: uint256 = unsafe_sub(count, 1)
    is_last: bool = merkle.is_member(tag, top, leaf, index, count, proof)
    require.matching_proof(is_last)
