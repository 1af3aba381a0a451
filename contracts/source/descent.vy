# pragma version 0.4.3
"""
@title The moves down the trees, from the history to one chunk of one tensor
@license Apache-2.0
@notice contracts/model/moves.py is the specification of each. A move that is bound by what is
        already committed (an opening) may come from anyone; a fresh commitment and a pick come
        from the member whose bond they risk.
"""

import ILeaf
import ledger
import matches
import merkle
import phases
import require
import tags
import tensors
import types

uses: ledger
uses: matches

# Siblings of a pick: one for each level that an opening shows, and room for one too many.
MAX_SIBLINGS: constant(uint256) = 5

LEAF: immutable(ILeaf)


event Opened:
    job_id: indexed(uint256)
    number: uint256
    nodes: DynArray[bytes32, merkle.ARITY]


event Picked:
    job_id: indexed(uint256)
    number: uint256
    index: uint256
    node: bytes32


event Entered:
    job_id: indexed(uint256)
    number: uint256
    phase: uint256
    first: bytes32
    top: bytes32


@deploy
def __init__(leaf: address):
    """
    @notice Remember who computes leaves.
    @param leaf The leaf contract.
    """
    LEAF = ILeaf(leaf)


@external
def open(job_id: uint256, position: bytes32, nodes: DynArray[bytes32, merkle.ARITY]):
    """
    @notice Open a node of the defender's tree: all nodes up to four levels below it.
    @param job_id The job.
    @param position The position that the move answers.
    @param nodes The nodes, from the left.
    """
    turn: matches.Turn = matches.begin(job_id, position, phases.TREES)
    require.phase(not turn.opened)
    children: uint256 = self._get_children_count(turn.level, turn.index, turn.count)
    require.matching_opening(len(nodes) == children)
    above: bytes32 = merkle.fold_children(self._get_tag(turn.phase), nodes)
    require.matching_opening(above == turn.node)
    turn.opened = True
    matches.save(turn)
    log Opened(job_id=job_id, number=turn.number, nodes=nodes)


@external
def pick(
    job_id: uint256,
    position: bytes32,
    child: uint256,
    node: bytes32,
    siblings: DynArray[bytes32, MAX_SIBLINGS],
):
    """
    @notice Name the opened child that the challenger disputes.
    @param job_id The job.
    @param position The position that the move answers.
    @param child The child's place among the opened nodes.
    @param node The child.
    @param siblings Its proof against the opened node.
    """
    turn: matches.Turn = matches.begin(job_id, position, phases.TREES)
    matches.require_member(turn, turn.challenger)
    require.phase(turn.opened)
    children: uint256 = self._get_children_count(turn.level, turn.index, turn.count)
    require.index_in_range(child < children)
    down: uint256 = min(turn.level, merkle.ARITY_LOG2)
    # `down` is at most the level; the child exists, so that its index is below the tree's width.
    level: uint256 = unsafe_sub(turn.level, down)
    index: uint256 = unsafe_add(turn.index << down, child)
    is_proven: bool = False
    parent: bytes32 = empty(bytes32)
    is_proven, parent = merkle.climb(
        self._get_tag(turn.phase), node, index, turn.count, level, turn.level, siblings
    )
    require.matching_proof(is_proven and parent == turn.node)
    turn.opened = False
    turn.level = level
    turn.index = index
    turn.node = node
    if level == 0:
        self._leave_tree(turn)
    else:
        self._pick(turn)


@external
def enter_interval(
    job_id: uint256,
    position: bytes32,
    before: bytes32,
    before_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    top: bytes32,
    first_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    last_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Commit to the state after every step of the disputed interval; its ends are given.
    @param job_id The job.
    @param position The position that the move answers.
    @param before The agreed state at which the interval begins.
    @param before_proof Its proof against the history.
    @param top The top of the tree over the interval's states.
    @param first_proof The proof of the first state in it.
    @param last_proof The proof of the last state in it, the disputed checkpoint.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.ENTER_INTERVAL)
    matches.require_member(turn, turn.defender)
    place: uint256 = matches.matches[turn.job_id].place
    self._require_before(turn, place, before, before_proof)
    length: uint256 = self._get_interval_length(job_id, place & matches.U40)
    # An interval has at most 2^32 steps.
    count: uint256 = unsafe_add(length, 1)
    self._require_leaf(tags.INTERVAL_NODE, top, before, 0, count, first_proof)
    self._require_leaf(tags.INTERVAL_NODE, top, turn.node, length, count, last_proof)
    place &= ~(matches.U40 << matches.TREE_COUNT_AT)
    place |= count << matches.TREE_COUNT_AT | 1 << matches.INTERVAL_AT
    matches.matches[turn.job_id].place = place
    matches.matches[turn.job_id].interval_top = top
    self._enter(turn, phases.INTERVAL, before, top, count)


@external
def enter_trace(
    job_id: uint256,
    position: bytes32,
    before: bytes32,
    before_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    top: bytes32,
    last_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Commit to the outputs of all operators of the disputed step; the last leaf is its state.
    @param job_id The job.
    @param position The position that the move answers.
    @param before The agreed state before the step.
    @param before_proof Its proof against the history or the interval.
    @param top The top of the tree over the outputs.
    @param last_proof The proof of the disputed state as its last leaf.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.ENTER_TRACE)
    matches.require_member(turn, turn.defender)
    self._require_before(turn, matches.matches[turn.job_id].place, before, before_proof)
    operators: uint256 = ledger.jobs[job_id].scope & ledger.U32
    # At most 2^20 operators.
    count: uint256 = unsafe_add(operators, 1)
    self._require_leaf(tags.TRACE_NODE, top, turn.node, operators, count, last_proof)
    matches.matches[turn.job_id].before = before
    matches.matches[turn.job_id].trace_top = top
    self._enter(turn, phases.TRACE, before, top, count)


@external
def enter_operator(
    job_id: uint256,
    position: bytes32,
    encoding: Bytes[types.MAX_NODE_BYTES],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    top: bytes32,
):
    """
    @notice Show what the disputed operator is, and the top of its output's chunks.
    @param job_id The job.
    @param position The position that the move answers.
    @param encoding The operator.
    @param proof Its proof against the program.
    @param top The top of the tree over its output's chunks; ignored if it has no elements.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.ENTER_OPERATOR)
    operator: uint256 = (matches.matches[turn.job_id].place >> matches.OPERATOR_AT) & matches.U32
    operators: uint256 = ledger.jobs[job_id].scope & ledger.U32
    leaf: bytes32 = keccak256(concat(tags.OPERATOR, encoding))
    program_top: bytes32 = ledger.jobs[job_id].program_top
    self._require_leaf(tags.PROGRAM_NODE, program_top, leaf, operator, operators, proof)
    summary: types.Summary = staticcall LEAF.inspect(encoding, top)
    if summary.elements == 0:
        matches.end(turn, summary.output_root == turn.node, phases.BY_EMPTY)
        return
    require.matching_opening(summary.output_root == turn.node)
    matches.matches[turn.job_id].encoding_digest = leaf
    matches.matches[turn.job_id].tensor = (
        summary.elements
        | summary.fold_length << matches.FOLD_LENGTH_AT
        | summary.width << matches.WIDTH_AT
    )
    # A tensor has less than 2^63 bytes.
    count: uint256 = tensors.get_chunk_count(unsafe_mul(summary.elements, summary.width))
    self._enter(turn, phases.TENSOR, leaf, top, count)


@external
def enter_state(job_id: uint256, position: bytes32, top: bytes32):
    """
    @notice Show the top of the state after the step, when that is the first thing disputed.
    @param job_id The job.
    @param position The position that the move answers.
    @param top The top of the tree over the state's tensors.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.ENTER_STATE)
    count: uint256 = (ledger.jobs[job_id].scope >> ledger.STATE_SLOTS_AT) & ledger.U32
    root: bytes32 = merkle.hash_root(tags.STATE_ROOT, count, top)
    require.matching_opening(root == turn.node)
    self._enter(turn, phases.STATE, root, top, count)


@internal
@pure
def _get_tag(phase: uint256) -> bytes1:
    # The tag of the tree that is descended in a phase.
    if phase == phases.TRACE:
        return tags.TRACE_NODE
    if phase == phases.TENSOR:
        return tags.TENSOR_NODE
    if phase == phases.HISTORY:
        return tags.HISTORY_NODE
    if phase == phases.INTERVAL:
        return tags.INTERVAL_NODE
    return tags.STATE_NODE


@internal
@pure
def _get_children_count(level: uint256, index: uint256, count: uint256) -> uint256:
    # How many nodes an opening shows. The node exists, so that its first child does.
    down: uint256 = min(level, merkle.ARITY_LOG2)
    width: uint256 = merkle.get_width(count, unsafe_sub(level, down))
    return min(1 << down, unsafe_sub(width, index << down))


@internal
def _pick(turn: matches.Turn):
    # Go on from the node that the turn has arrived at.
    matches.save_at(turn, turn.node)
    log Picked(job_id=turn.job_id, number=turn.number, index=turn.index, node=turn.node)


@internal
def _leave_tree(picked: matches.Turn):
    # What follows from the leaf that has been picked.
    turn: matches.Turn = picked
    if turn.phase == phases.HISTORY:
        self._pick_checkpoint(turn)
        return
    if turn.phase == phases.INTERVAL:
        self._place_state(turn)
        turn.phase = phases.ENTER_TRACE
    elif turn.phase == phases.TRACE:
        turn.phase = self._place_operator(turn)
    elif turn.phase == phases.TENSOR:
        turn.phase = phases.CHUNK
    else:
        turn.phase = phases.SINK
    self._pick(turn)


@internal
def _pick_checkpoint(picked: matches.Turn):
    # The first checkpoint that the challenger disputes; the start is checked at once.
    turn: matches.Turn = picked
    if turn.index == 0:
        is_start: bool = turn.node == ledger.jobs[turn.job_id].start_root
        matches.end(turn, is_start, phases.BY_START)
        return
    every: uint256 = ledger.jobs[turn.job_id].scope >> ledger.CHECKPOINT_EVERY_AT
    # Below the number of steps, 2^32.
    first: uint256 = unsafe_mul(unsafe_sub(turn.index, 1), every)
    matches.matches[turn.job_id].place = (
        first
        | first << matches.STEP_AT
        | turn.index << matches.TREE_INDEX_AT
        | turn.count << matches.TREE_COUNT_AT
    )
    turn.phase = phases.ENTER_INTERVAL
    if self._get_interval_length(turn.job_id, first) == 1:
        turn.phase = phases.ENTER_TRACE
    self._pick(turn)


@internal
def _place_state(turn: matches.Turn):
    # The first state of the interval that the challenger disputes; the first one is agreed.
    require.index_in_range(turn.index != 0)
    place: uint256 = matches.matches[turn.job_id].place
    # The sum is at most the number of steps, 2^32.
    step: uint256 = unsafe_sub(unsafe_add(place & matches.U40, turn.index), 1)
    place &= ~(matches.U40 << matches.STEP_AT | matches.U40 << matches.TREE_INDEX_AT)
    place |= step << matches.STEP_AT | turn.index << matches.TREE_INDEX_AT
    matches.matches[turn.job_id].place = place


@internal
def _place_operator(turn: matches.Turn) -> uint256:
    # The first operator whose output the challenger disputes, or the state after the step.
    matches.matches[turn.job_id].place |= turn.index << matches.OPERATOR_AT
    if turn.index == ledger.jobs[turn.job_id].scope & ledger.U32:
        return phases.ENTER_STATE
    mode: uint256 = (ledger.jobs[turn.job_id].head >> ledger.LEAF_MODE_AT) & ledger.BYTE
    if mode == phases.SCALAR_LEAF:
        return phases.ENTER_OPERATOR
    return phases.VERIFIER


@internal
def _enter(entered: matches.Turn, phase: uint256, first: bytes32, top: bytes32, count: uint256):
    # Begin to descend a tree.
    turn: matches.Turn = entered
    turn.phase = phase
    turn.level = merkle.get_height(count)
    turn.index = 0
    turn.count = count
    matches.save_at(turn, top)
    log Entered(job_id=turn.job_id, number=turn.number, phase=phase, first=first, top=top)


@internal
@view
def _get_interval_length(job_id: uint256, first_step: uint256) -> uint256:
    scope: uint256 = ledger.jobs[job_id].scope
    # An interval begins before the last step.
    steps: uint256 = unsafe_sub((scope >> ledger.STEPS_AT) & ledger.U64, first_step)
    return min(scope >> ledger.CHECKPOINT_EVERY_AT, steps)


@internal
@view
def _require_before(
    turn: matches.Turn,
    place: uint256,
    before: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    # The agreed state is the leaf just left of the disputed one, which is not the first.
    index: uint256 = unsafe_sub((place >> matches.TREE_INDEX_AT) & matches.U40, 1)
    count: uint256 = (place >> matches.TREE_COUNT_AT) & matches.U40
    top: bytes32 = matches.matches[turn.job_id].interval_top
    tag: bytes1 = tags.INTERVAL_NODE
    if place >> matches.INTERVAL_AT == 0:
        top = ledger.members[ledger.get_key(turn.job_id, turn.defender)].claim
        tag = tags.HISTORY_NODE
    self._require_leaf(tag, top, before, index, count, proof)


@internal
@pure
def _require_leaf(
    tag: bytes1,
    top: bytes32,
    leaf: bytes32,
    index: uint256,
    count: uint256,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    is_proven: bool = merkle.is_member(tag, top, leaf, index, count, proof)
    require.matching_proof(is_proven)
