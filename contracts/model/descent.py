"""The moves down the trees, from the two histories to one chunk of one tensor.

Both sides open their own trees by turns. A move picks the place where the other side's opened nodes
and the mover's own first differ, and shows the mover's nodes below that place. As all siblings left
of the path are shared, the leaf at which they arrive is the first in which the two trees differ,
whoever plays: there is nothing to choose, and so anyone may make these moves for a side. Fresh
commitments (`enter_claimed`) come from the member whose bond they risk.
"""

from dataclasses import replace

from moot.contracts.model.checks import require
from moot.contracts.model.leaf import read_node
from moot.contracts.model.turns import Turn, begin, begin_with
from moot.contracts.model.types import Dive, Facts, Message, Pair, Position, Store, Terms
from moot.contracts.reasons import Ending, LeafMode, Phase, Reason
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import EMPTY_TOP, encode_header, get_chunk_count, hash_tensor
from moot.offchain.commitments.tree import (
    Digest,
    fold_children,
    get_block,
    get_height,
    get_width,
    hash_node,
    hash_root,
    is_member,
)
from moot.offchain.programs.graph import Node
from moot.offchain.programs.semantics import count_links

NODE_TAGS = {
    Phase.HISTORY: Tag.HISTORY_NODE,
    Phase.INTERVAL: Tag.INTERVAL_NODE,
    Phase.TRACE: Tag.TRACE_NODE,
    Phase.TENSOR: Tag.TENSOR_NODE,
    Phase.STATE: Tag.STATE_NODE,
}
"""The trees that are descended, and the tag of their nodes."""

BOTH = 2


def on_descend(store: Store, message: Message, pair: Pair, position: Position, dive: Dive) -> None:
    """Pick in the other side's opening, and open one's own node there.

    A leaf belongs to the call that enters what it stands for, and to this one where nothing can be
    entered: at an operator that the verifier rules on, at a tensor of the state.
    """
    turn = begin(store, message, pair, position, *NODE_TAGS)
    require(position.entered == BOTH, Reason.WRONG_PHASE)
    _descend(turn, dive)
    if turn.position.level:
        turn.pass_on(nodes=dive.nodes)
        return
    if position.phase is Phase.TRACE:
        require(_is_operator(turn, LeafMode.OPERATOR), Reason.WRONG_PHASE)
        turn.change(phase=Phase.VERIFIER)
    else:
        require(position.phase is Phase.STATE, Reason.WRONG_PHASE)
        turn.change(phase=Phase.SINK)
    turn.pass_on(nodes=dive.nodes)


def _descend(turn: Turn, dive: Dive) -> None:
    """Go to the place that the mover picks, and open its node there."""
    _go_down(turn, dive)
    _tie(turn, _fold(turn, dive.nodes), dive)


def arrive(turn: Turn, leaf: Digest, dive: Dive) -> None:
    """Go to the leaf that the mover picks; `leaf` is its own."""
    _go_down(turn, dive)
    require(turn.position.level == 0, Reason.WRONG_PHASE)
    _tie(turn, leaf, dive)


def _go_down(turn: Turn, dive: Dive) -> None:
    """Find the place that the mover picks in what the other side has opened."""
    old = turn.position
    level, index = old.level - old.span, (old.index << old.span) + dive.child
    is_child = dive.child < 1 << old.span and index < get_width(old.count, level)
    require(is_child, Reason.OUT_OF_RANGE)
    turn.change(level=level, index=index)


def _tie(turn: Turn, mine: Digest, dive: Dive) -> None:
    """Tie both sides' nodes at the picked place to those from which it was reached."""
    require(mine != dive.node, Reason.SAME_NODE)
    pair = (mine, dive.node) if turn.mover == 0 else (dive.node, mine)
    above = _climb(turn, pair, dive.siblings)
    require(above == turn.position.nodes, Reason.BAD_PROOF)
    turn.change(nodes=pair, span=get_block(turn.position.level))
    if turn.position.level == 0:
        turn.change(entered=0)


def _fold(turn: Turn, nodes: tuple[Digest, ...]) -> Digest:
    """Return the node that is opened, from all nodes of the block below it."""
    position = turn.position
    down = get_block(position.level)
    width = get_width(position.count, position.level - down)
    children = min(1 << down, width - (position.index << down))
    require(len(nodes) == children, Reason.BAD_OPENING)
    return fold_children(NODE_TAGS[position.phase], nodes)


def _climb(
    turn: Turn, picked: tuple[Digest, Digest], siblings: tuple[Digest, ...]
) -> tuple[Digest, Digest] | None:
    """Return both sides' nodes a span above the picked ones; None if siblings lack or are left."""
    position, pair, rest = turn.position, picked, list(siblings)
    tag, index = NODE_TAGS[position.phase], position.index
    width = get_width(position.count, position.level)
    for _ in range(position.span):
        if index & 1:
            if not rest:
                return None
            left = rest.pop(0)
            pair = (hash_node(tag, left, pair[0]), hash_node(tag, left, pair[1]))
        elif index + 1 < width:
            if len(rest) < BOTH:
                return None
            theirs, mine = rest.pop(0), rest.pop(0)
            right = (mine, theirs) if turn.mover == 0 else (theirs, mine)
            pair = (hash_node(tag, pair[0], right[0]), hash_node(tag, pair[1], right[1]))
        index, width = index >> 1, (width + 1) >> 1
    return None if rest else pair


def _is_operator(turn: Turn, mode: LeafMode) -> bool:
    """Whether the leaf of a trace is an operator's output, in a job of this leaf mode."""
    terms = turn.job.terms
    return turn.position.index != terms.operators and terms.leaf_mode is mode


def get_interval_length(terms: Terms, first_step: int) -> int:
    """Return the steps of the interval that begins with a step."""
    return min(terms.checkpoint_every, terms.steps - first_step)


def on_enter_claimed(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    leaf: Digest,
    top: Digest,
    last_proof: tuple[Digest, ...],
    dive: Dive,
) -> None:
    """Commit to what has led to a state that has been claimed already.

    That is the states after the steps of the disputed interval, or the outputs of the operators of
    the disputed step; the claimed state is the last leaf of either tree. `leaf` is the mover's own
    state at the place that it picks; the second to enter picks in the tree that is entered.
    """
    phases = (Phase.HISTORY, Phase.INTERVAL, Phase.TRACE)
    turn = begin_with(store, message, pair, position, facts, *phases)
    turn.require_own()
    if position.entered == BOTH:
        require(position.phase is not Phase.TRACE, Reason.WRONG_PHASE)
        arrive(turn, leaf, dive)
        facts = _find_step(turn, facts)
    terms, mover = turn.job.terms, turn.mover
    count, phase = terms.operators + 1, turn.position.phase
    if phase is Phase.INTERVAL:
        count = get_interval_length(terms, facts.first_step)
    claimed = turn.position.nodes[mover]
    is_last = is_member(NODE_TAGS[phase], top, claimed, count - 1, count, last_proof)
    require(is_last, Reason.BAD_PROOF)
    if phase is Phase.INTERVAL:
        facts = replace(facts, intervals=_put(facts.intervals, mover, top))
    else:
        facts = replace(facts, traces=_put(facts.traces, mover, top))
    turn.find(facts)
    _enter(turn, top, count, dive)


def _find_step(turn: Turn, facts: Facts) -> Facts:
    """Go on from the first checkpoint in dispute, or from the first such state of an interval."""
    terms, index = turn.job.terms, turn.position.index
    if turn.position.phase is Phase.INTERVAL:
        # Until now the step was the interval's first.
        turn.change(phase=Phase.TRACE)
        return replace(facts, step=facts.first_step + index)
    first = index * terms.checkpoint_every
    is_step = get_interval_length(terms, first) == 1
    turn.change(phase=Phase.TRACE if is_step else Phase.INTERVAL)
    return replace(facts, checkpoint=index, first_step=first, step=first)


def on_enter_tensor(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    encoding: bytes,
    proof: tuple[Digest, ...],
    top: Digest,
    dive: Dive,
) -> None:
    """Show what the disputed operator is, and the top of its output's chunks.

    Only the side that enters first has to prove the operator.
    """
    turn = begin_with(store, message, pair, position, facts, Phase.TRACE, Phase.TENSOR)
    require((position.entered == BOTH) == (position.phase is Phase.TRACE), Reason.WRONG_PHASE)
    digest = keccak256(bytes([Tag.OPERATOR]) + encoding)
    if position.phase is Phase.TENSOR:
        require(digest == facts.encoding_digest, Reason.BAD_PROOF)
        root = hash_tensor(_get_header(read_node(encoding, store.arithmetic)), top)
        require(root == position.nodes[turn.mover], Reason.BAD_OPENING)
        _enter(turn, top, position.count, dive)
        return
    terms = turn.job.terms
    _go_down(turn, dive)
    is_reached = turn.position.level == 0 and _is_operator(turn, LeafMode.SCALAR)
    require(is_reached, Reason.WRONG_PHASE)
    operator = turn.position.index
    place = (operator, terms.operators, proof)
    require(is_member(Tag.PROGRAM_NODE, terms.program_top, digest, *place), Reason.BAD_PROOF)
    node = read_node(encoding, store.arithmetic)
    header = _get_header(node)
    _tie(turn, hash_tensor(header, top), dive)
    turn.change(phase=Phase.TENSOR)
    if node.elements == 0:
        root, nodes = hash_tensor(header, EMPTY_TOP), turn.position.nodes
        turn.decide(Ending.EMPTY, (nodes[0] == root, nodes[1] == root))
        return
    turn.find(
        replace(
            facts,
            operator=operator,
            encoding_digest=digest,
            elements=node.elements,
            fold_length=count_links(store.arithmetic, node),
            width=node.dtype.width,
        )
    )
    _enter(turn, top, get_chunk_count(node.dtype, node.elements), dive)


def _get_header(node: Node) -> bytes:
    return encode_header(node.dtype, node.shape)


def on_enter_state(
    store: Store, message: Message, pair: Pair, position: Position, top: Digest, dive: Dive
) -> None:
    """Show the top of the state after the step, when that is the first thing in dispute."""
    turn = begin(store, message, pair, position, Phase.TRACE, Phase.STATE)
    require((position.entered == BOTH) == (position.phase is Phase.TRACE), Reason.WRONG_PHASE)
    terms = turn.job.terms
    root = hash_root(Tag.STATE_ROOT, terms.state_slots, top)
    if position.phase is Phase.STATE:
        require(root == position.nodes[turn.mover], Reason.BAD_OPENING)
    else:
        arrive(turn, root, dive)
        require(turn.position.index == terms.operators, Reason.WRONG_PHASE)
        turn.change(phase=Phase.STATE)
    _enter(turn, top, terms.state_slots, dive)


def _enter(turn: Turn, top: Digest, count: int, dive: Dive) -> None:
    """Put the mover at the top of its tree.

    The first to enter opens it; the second picks in that opening at once, unless this would be a
    leaf: then it opens its own.
    """
    turn.put_node(turn.mover, top)
    if turn.position.entered == 0:
        turn.change(level=get_height(count), index=0, count=count)
    turn.change(entered=turn.position.entered + 1)
    if turn.position.entered == BOTH and turn.position.level > turn.position.span:
        _descend(turn, dive)
    else:
        require(_fold(turn, dive.nodes) == top, Reason.BAD_OPENING)
        turn.change(span=get_block(turn.position.level))
    turn.pass_on(nodes=dive.nodes)


def _put(pair: tuple[Digest, Digest], side: int, top: Digest) -> tuple[Digest, Digest]:
    return (top, pair[1]) if side == 0 else (pair[0], top)


def get_before(
    facts: Facts, terms: Terms, side: int, claim: Digest
) -> tuple[Tag, Digest, int, int]:
    """Return where the agreed state before the step lies: tag, top, index, number of leaves.

    Before the first step it is the job's start, a tree of one leaf that nobody claims.
    """
    if facts.step == 0:
        return Tag.HISTORY_NODE, terms.start_root, 0, 1
    place = facts.step - facts.first_step
    if place == 0:
        return Tag.HISTORY_NODE, claim, facts.checkpoint - 1, terms.checkpoints
    count = get_interval_length(terms, facts.first_step)
    return Tag.INTERVAL_NODE, facts.intervals[side], place - 1, count
