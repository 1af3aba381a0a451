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

import accumulators
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
    @notice Pick in the other side's opening, and open one's own node there. A leaf belongs to the
            call that enters what it stands for, and to this one where nothing can be entered.
    @param pair The members of the match.
    @param position Where it stands.
    @param dive The pick and the nodes.
    """
    turn: turns.Turn = turns.begin(pair, position, phases.TREES)
    require.phase(turn.entered == BOTH)
    turn = self._descend(turn, dive)
    if turn.level != 0:
        turns.pass_on(turn, dive.nodes, b"")
        return
    if turn.phase == phases.TRACE:
        require.phase(self._is_operator(turn, phases.OPERATOR_LEAF))
        turn.phase = phases.VERIFIER
    else:
        require.phase(turn.phase == phases.STATE)
        turn.phase = phases.SINK
    turns.pass_on(turn, dive.nodes, b"")


@external
def enter_claimed(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    leaf: bytes32,
    top: bytes32,
    last_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    dive: types.Dive,
):
    """
    @notice Commit to what has led to a state that has been claimed already: to the states after
            the steps of the disputed interval, or to the outputs of the operators of the disputed
            step. The claimed state is the last leaf of either tree.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param leaf The mover's state at the place that it picks; ignored from the second to enter.
    @param top The top of the tree that is entered.
    @param last_proof The proof of its last leaf.
    @param dive The pick in the tree that is left, or from the second to enter in this one; and
           what is opened in this one.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, phases.BEFORE_OPERATORS)
    turns.require_own(turn)
    found: accumulators.Facts = facts
    if turn.entered == BOTH:
        require.phase(turn.phase != phases.TRACE)
        turn = self.arrive(turn, leaf, dive)
        if turn.phase == phases.HISTORY:
            scope: uint256 = ledger.jobs[pair.job_id].scope
            every: uint256 = (scope >> ledger.CHECKPOINT_EVERY_AT) & turns.U64
            # Below the number of steps, 2^32.
            first: uint256 = unsafe_mul(turn.index, every)
            found.place = first | first << turns.STEP_AT | turn.index << turns.CHECKPOINT_AT
            turn.phase = phases.INTERVAL
            if self.get_interval_length(pair.job_id, first) == 1:
                turn.phase = phases.TRACE
        else:
            # Until now the step was the interval's first; the sum is below the number of steps.
            found.place = unsafe_add(found.place, turn.index << turns.STEP_AT)
            turn.phase = phases.TRACE
    # At most 2^20 operators.
    count: uint256 = unsafe_add(ledger.jobs[pair.job_id].scope & turns.U32, 1)
    tops: bytes32[2] = [found.trace_0, found.trace_1]
    if turn.phase == phases.INTERVAL:
        count = self.get_interval_length(pair.job_id, found.place & turns.U40)
        tops = [found.interval_0, found.interval_1]
    # A tree has one leaf at least.
    is_last: bool = merkle.is_member(
        self._get_tag(turn.phase), top, turn.mine, unsafe_sub(count, 1), count, last_proof
    )
    require.matching_proof(is_last)
    tops[turn.mover] = top
    if turn.phase == phases.INTERVAL:
        found.interval_0 = tops[0]
        found.interval_1 = tops[1]
    else:
        found.trace_0 = tops[0]
        found.trace_1 = tops[1]
    self._enter(turns.find(turn, found), top, count, dive)


@external
def enter_tensor(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
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
    @param proof Its proof against the program; ignored from the second to enter.
    @param top The top of the tree over the output's chunks.
    @param dive The pick in the trace, or from the second to enter in this tree; and what is opened
           in this one.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, phases.OF_OPERATOR)
    require.phase((turn.entered == BOTH) == (turn.phase == phases.TRACE))
    digest: bytes32 = keccak256(concat(tags.OPERATOR, encoding))
    if turn.phase == phases.TENSOR:
        require.matching_proof(digest == facts.encoding_digest)
        require.matching_opening(tensors.hash_output(encoding, top) == turn.mine)
        self._enter(turn, top, turn.count, dive)
        return
    turn = self._go_down(turn, dive)
    require.phase(turn.level == 0 and self._is_operator(turn, phases.SCALAR_LEAF))
    operators: uint256 = ledger.jobs[pair.job_id].scope & turns.U32
    program_top: bytes32 = ledger.jobs[pair.job_id].program_top
    is_operator: bool = merkle.is_member(
        tags.PROGRAM_NODE, program_top, digest, turn.index, operators, proof
    )
    require.matching_proof(is_operator)
    summary: types.Summary = staticcall LEAF.inspect(encoding)
    found: accumulators.Facts = facts
    found.place |= turn.index << turns.OPERATOR_AT
    found.encoding_digest = digest
    found.tensor = (
        summary.elements
        | summary.fold_length << turns.FOLD_LENGTH_AT
        | summary.width << turns.WIDTH_AT
    )
    turn = self._tie(turn, tensors.hash_output(encoding, top), dive)
    turn.phase = phases.TENSOR
    # A tensor has less than 2^63 bytes.
    size: uint256 = unsafe_mul(summary.elements, summary.width)
    if size == 0:
        root: bytes32 = tensors.hash_output(encoding, tensors.EMPTY_TOP)
        turns.decide(turn, phases.BY_EMPTY, turn.mine == root, turn.theirs == root)
        return
    self._enter(turns.find(turn, found), top, tensors.get_chunk_count(size), dive)


@external
def enter_state(pair: types.Pair, position: types.Position, top: bytes32, dive: types.Dive):
    """
    @notice Show the top of the state after the step, when that is the first thing in dispute.
    @param pair The members of the match.
    @param position Where it stands.
    @param top The top of the tree over the state's tensors.
    @param dive The pick in the trace, or from the second to enter in this tree; and what is opened
           in this one.
    """
    turn: turns.Turn = turns.begin(pair, position, phases.OF_STATE)
    require.phase((turn.entered == BOTH) == (turn.phase == phases.TRACE))
    scope: uint256 = ledger.jobs[pair.job_id].scope
    count: uint256 = (scope >> ledger.STATE_SLOTS_AT) & turns.U32
    root: bytes32 = merkle.hash_root(tags.STATE_ROOT, count, top)
    if turn.phase == phases.STATE:
        require.matching_opening(root == turn.mine)
    else:
        turn = self.arrive(turn, root, dive)
        require.phase(turn.index == scope & turns.U32)
        turn.phase = phases.STATE
    self._enter(turn, top, count, dive)


@internal
def _enter(entering: turns.Turn, top: bytes32, count: uint256, dive: types.Dive):
    # Put the mover at the top of its tree. The first to enter opens it; the second picks in that
    # opening at once, unless this would be a leaf: then it opens its own.
    turn: turns.Turn = entering
    turn.mine = top
    if turn.entered == 0:
        turn.level = merkle.get_height(count)
        turn.index = 0
        turn.count = count
    # At most two.
    turn.entered = unsafe_add(turn.entered, 1)
    if turn.entered == BOTH and turn.level > turn.span:
        turn = self._descend(turn, dive)
    else:
        require.matching_opening(self._fold(turn, dive.nodes) == top)
        turn.span = merkle.get_block(turn.level)
    turns.pass_on(turn, dive.nodes, b"")


@internal
@pure
def _descend(standing: turns.Turn, dive: types.Dive) -> turns.Turn:
    # Go to the place that the mover picks, and open its node there.
    turn: turns.Turn = self._go_down(standing, dive)
    return self._tie(turn, self._fold(turn, dive.nodes), dive)


@internal
@pure
def arrive(standing: turns.Turn, leaf: bytes32, dive: types.Dive) -> turns.Turn:
    """
    @notice Go to the leaf that the mover picks.
    @param standing The match.
    @param leaf The mover's own.
    @param dive The pick.
    @return The match there.
    """
    turn: turns.Turn = self._go_down(standing, dive)
    require.phase(turn.level == 0)
    return self._tie(turn, leaf, dive)


@internal
@pure
def _go_down(standing: turns.Turn, dive: types.Dive) -> turns.Turn:
    # Find the place that the mover picks in what the other side has opened.
    turn: turns.Turn = standing
    # An opening never goes below level 0, and spans few levels of trees of 2^55 leaves.
    turn.level = unsafe_sub(turn.level, turn.span)
    require.index_in_range(dive.child < 1 << turn.span)
    turn.index = unsafe_add(turn.index << turn.span, dive.child)
    require.index_in_range(turn.index < merkle.get_width(turn.count, turn.level))
    return turn


@internal
@pure
def _tie(picked: turns.Turn, mine: bytes32, dive: types.Dive) -> turns.Turn:
    # Tie both sides' nodes at the picked place to those from which it was reached.
    require.difference(mine != dive.node)
    is_whole: bool = False
    my_top: bytes32 = empty(bytes32)
    their_top: bytes32 = empty(bytes32)
    is_whole, my_top, their_top = self._climb(picked, mine, dive)
    require.matching_proof(is_whole and my_top == picked.mine and their_top == picked.theirs)
    turn: turns.Turn = picked
    turn.mine = mine
    turn.theirs = dive.node
    turn.span = merkle.get_block(turn.level)
    if turn.level == 0:
        turn.entered = 0
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
    turn: turns.Turn, leaf: bytes32, dive: types.Dive
) -> (bool, bytes32, bytes32):
    # Whether the siblings are those needed, and both sides' nodes a span above the picked ones.
    tag: bytes1 = self._get_tag(turn.phase)
    mine: bytes32 = leaf
    theirs: bytes32 = dive.node
    index: uint256 = turn.index
    # The place of the level's last node, which has no sibling if it is an even one.
    last: uint256 = unsafe_sub(merkle.get_width(turn.count, turn.level), 1)
    used: uint256 = 0
    given: uint256 = len(dive.siblings)
    for _: uint256 in range(turn.span, bound=merkle.ARITY_LOG2):
        if index & 1 == 1:
            if used >= given:
                return False, mine, theirs
            mine = keccak256(concat(tag, dive.siblings[used], mine))
            theirs = keccak256(concat(tag, dive.siblings[used], theirs))
            # At most MAX_SIBLINGS.
            used = unsafe_add(used, 1)
        elif index != last:
            if unsafe_add(used, 1) >= given:
                return False, mine, theirs
            theirs = keccak256(concat(tag, theirs, dive.siblings[used]))
            mine = keccak256(concat(tag, mine, dive.siblings[unsafe_add(used, 1)]))
            used = unsafe_add(used, 2)
        index >>= 1
        last >>= 1
    return used == given, mine, theirs


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
@view
def _is_operator(turn: turns.Turn, mode: uint256) -> bool:
    # Whether the leaf of a trace is an operator's output, in a job of this leaf mode.
    job_id: uint256 = turn.pair.job_id
    is_output: bool = turn.index != ledger.jobs[job_id].scope & turns.U32
    return is_output and ledger.jobs[job_id].scope >> ledger.LEAF_MODE_AT == mode


@internal
@view
def get_interval_length(job_id: uint256, first_step: uint256) -> uint256:
    """
    @notice Return the steps of an interval.
    @param job_id The job.
    @param first_step The first of them.
    @return Their number.
    """
    scope: uint256 = ledger.jobs[job_id].scope
    # An interval begins before the last step.
    steps: uint256 = unsafe_sub((scope >> ledger.STEPS_AT) & turns.U64, first_step)
    return min((scope >> ledger.CHECKPOINT_EVERY_AT) & turns.U64, steps)
