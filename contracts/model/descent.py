"""The moves down the trees, from the two histories to one chunk of one tensor.

Both sides open their own trees by turns. A move picks the place where the other side's opened nodes
and the mover's own first differ, and shows the mover's nodes below that place. As all siblings left
of the path are shared, the leaf at which they arrive is the first in which the two trees differ,
whoever plays: there is nothing to choose, and so anyone may make these moves for a side. Fresh
commitments (`enter_interval`, `enter_trace`) come from the member whose bond they risk.
"""

from collections.abc import Callable
from dataclasses import replace

from contracts.model.checks import require
from contracts.model.leaf import read_node
from contracts.model.turns import Turn, begin, begin_with
from contracts.model.types import Dive, Facts, Message, Pair, Position, Store, Terms
from contracts.reasons import Ending, LeafMode, Phase, Reason
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import EMPTY_TOP, encode_header, get_chunk_count, hash_tensor
from offchain.commitments.tree import (
    Digest,
    fold_children,
    get_block,
    get_height,
    get_width,
    hash_node,
    hash_root,
    is_member,
)

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
    """Pick in the other side's opening, and open one's own node there."""
    turn = begin(store, message, pair, position, *NODE_TAGS)
    require(position.entered == BOTH, Reason.WRONG_PHASE)
    _descend(turn, dive)


def _descend(turn: Turn, dive: Dive) -> None:
    phase = turn.position.phase
    pick(turn, dive)
    if turn.position.level:
        turn.pass_on(nodes=dive.nodes)
    else:
        _LEAVES[phase](turn, dive.nodes)


def pick(turn: Turn, dive: Dive) -> None:
    """Go to the place that the mover picks, and open its node there."""
    old, tag = turn.position, NODE_TAGS[turn.position.phase]
    level, index = old.level - old.span, (old.index << old.span) + dive.child
    is_child = dive.child < 1 << old.span and index < get_width(old.count, level)
    require(is_child, Reason.OUT_OF_RANGE)
    turn.change(level=level, index=index)
    own = _fold(turn, dive.nodes)
    require(own != dive.node, Reason.SAME_NODE)
    pair = (own, dive.node) if turn.mover == 0 else (dive.node, own)
    above = _climb(tag, pair, turn.mover, index, old.count, level, old.level, dive.siblings)
    require(above == old.nodes, Reason.BAD_PROOF)
    turn.change(nodes=pair, span=get_block(level))


def _fold(turn: Turn, nodes: tuple[Digest, ...]) -> Digest:
    """Return the node that is opened, from all nodes of the block below it."""
    position = turn.position
    down = get_block(position.level)
    width = get_width(position.count, position.level - down)
    children = min(1 << down, width - (position.index << down))
    require(len(nodes) == children, Reason.BAD_OPENING)
    return fold_children(NODE_TAGS[position.phase], nodes)


def _climb(
    tag: Tag,
    pair: tuple[Digest, Digest],
    mover: int,
    index: int,
    count: int,
    low: int,
    high: int,
    siblings: tuple[Digest, ...],
) -> tuple[Digest, Digest] | None:
    """Return both sides' nodes of level `high`; None if the siblings are not those needed."""
    rest = list(siblings)
    width = get_width(count, low)
    for _ in range(low, high):
        if index & 1:
            if not rest:
                return None
            left = rest.pop(0)
            pair = (hash_node(tag, left, pair[0]), hash_node(tag, left, pair[1]))
        elif index + 1 < width:
            if len(rest) < BOTH:
                return None
            theirs, mine = rest.pop(0), rest.pop(0)
            right = (mine, theirs) if mover == 0 else (theirs, mine)
            pair = (hash_node(tag, pair[0], right[0]), hash_node(tag, pair[1], right[1]))
        index, width = index >> 1, (width + 1) >> 1
    return None if rest else pair


def _reach_checkpoint(turn: Turn, nodes: tuple[Digest, ...]) -> None:
    """The first checkpoint in dispute; the start is checked at once."""
    terms, position = turn.job.terms, turn.position
    if position.index == 0:
        is_right = (position.nodes[0] == terms.start_root, position.nodes[1] == terms.start_root)
        turn.decide(Ending.START, is_right)
        return
    first = (position.index - 1) * terms.checkpoint_every
    is_step = get_interval_length(terms, first) == 1
    turn.change(phase=Phase.TRACE if is_step else Phase.INTERVAL, entered=0)
    turn.pass_on(nodes=nodes)


def _reach_state(turn: Turn, nodes: tuple[Digest, ...]) -> None:
    """The first state of the interval in dispute."""
    turn.change(phase=Phase.TRACE, entered=0)
    turn.pass_on(nodes=nodes)


def _reach_operator(turn: Turn, nodes: tuple[Digest, ...]) -> None:
    """The first operator whose output is in dispute, or else the state that the outputs make."""
    terms = turn.job.terms
    phase = Phase.TENSOR if terms.leaf_mode is LeafMode.SCALAR else Phase.VERIFIER
    if turn.position.index == terms.operators:
        phase = Phase.STATE
    turn.change(phase=phase, entered=0)
    turn.pass_on(nodes=nodes)


def _reach_chunk(turn: Turn, nodes: tuple[Digest, ...]) -> None:
    """The first chunk of the output in dispute."""
    turn.change(phase=Phase.CHUNK, entered=0)
    turn.pass_on(nodes=nodes)


def _reach_slot(turn: Turn, nodes: tuple[Digest, ...]) -> None:
    """The first tensor of the state after the step in dispute."""
    turn.change(phase=Phase.SINK)
    turn.pass_on(nodes=nodes)


_LEAVES: dict[Phase, Callable[[Turn, tuple[Digest, ...]], None]] = {
    Phase.HISTORY: _reach_checkpoint,
    Phase.INTERVAL: _reach_state,
    Phase.TRACE: _reach_operator,
    Phase.TENSOR: _reach_chunk,
    Phase.STATE: _reach_slot,
}


def get_interval_length(terms: Terms, first_step: int) -> int:
    """Return the steps between the checkpoint before a step and the next one."""
    return min(terms.checkpoint_every, terms.steps - first_step)


def on_enter_interval(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    top: Digest,
    last_proof: tuple[Digest, ...],
    dive: Dive,
) -> None:
    """Commit to the state after every step of the disputed interval; the last one is claimed."""
    turn = begin_with(store, message, pair, position, facts, Phase.INTERVAL)
    turn.require_own()
    if position.entered == 0:
        facts = _locate_interval(turn.job.terms, facts, position.index)
    count = get_interval_length(turn.job.terms, facts.first_step)
    claimed = position.nodes[turn.mover]
    is_last = is_member(Tag.INTERVAL_NODE, top, claimed, count - 1, count, last_proof)
    require(is_last, Reason.BAD_PROOF)
    turn.find(replace(facts, intervals=_put(facts.intervals, turn.mover, top)))
    _enter(turn, top, count, dive)


def _locate_interval(terms: Terms, facts: Facts, checkpoint: int) -> Facts:
    first = (checkpoint - 1) * terms.checkpoint_every
    return replace(facts, checkpoint=checkpoint, first_step=first, step=first)


def on_enter_trace(
    store: Store,
    message: Message,
    pair: Pair,
    position: Position,
    facts: Facts,
    top: Digest,
    last_proof: tuple[Digest, ...],
    dive: Dive,
) -> None:
    """Commit to the outputs of all operators of the disputed step; the last leaf is its state."""
    turn = begin_with(store, message, pair, position, facts, Phase.TRACE)
    turn.require_own()
    if position.entered == 0:
        if facts.checkpoint == 0:
            facts = _locate_interval(turn.job.terms, facts, position.index)
        else:
            facts = replace(facts, step=facts.first_step + position.index)
    count = turn.job.terms.operators + 1
    claimed = position.nodes[turn.mover]
    is_last = is_member(Tag.TRACE_NODE, top, claimed, count - 1, count, last_proof)
    require(is_last, Reason.BAD_PROOF)
    turn.find(replace(facts, traces=_put(facts.traces, turn.mover, top)))
    _enter(turn, top, count, dive)


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
    turn = begin_with(store, message, pair, position, facts, Phase.TENSOR)
    terms = turn.job.terms
    digest = keccak256(bytes([Tag.OPERATOR]) + encoding)
    if position.entered == 0:
        place = (position.index, terms.operators, proof)
        is_operator = is_member(Tag.PROGRAM_NODE, terms.program_top, digest, *place)
        require(is_operator, Reason.BAD_PROOF)
        facts = replace(facts, operator=position.index, encoding_digest=digest)
    require(digest == facts.encoding_digest, Reason.BAD_PROOF)
    node = read_node(encoding)
    header = encode_header(node.dtype, node.shape)
    if node.elements == 0:
        root = hash_tensor(header, EMPTY_TOP)
        turn.decide(Ending.EMPTY, (position.nodes[0] == root, position.nodes[1] == root))
        return
    require(hash_tensor(header, top) == position.nodes[turn.mover], Reason.BAD_OPENING)
    turn.find(
        replace(
            facts,
            elements=node.elements,
            fold_length=node.fold_length if node.kind.folds else 0,
            width=node.dtype.width,
        )
    )
    _enter(turn, top, get_chunk_count(node.dtype, node.elements), dive)


def on_enter_state(
    store: Store, message: Message, pair: Pair, position: Position, top: Digest, dive: Dive
) -> None:
    """Show the top of the state after the step, when that is the first thing in dispute."""
    turn = begin(store, message, pair, position, Phase.STATE)
    require(position.entered != BOTH, Reason.WRONG_PHASE)
    count = turn.job.terms.state_slots
    root = hash_root(Tag.STATE_ROOT, count, top)
    require(root == position.nodes[turn.mover], Reason.BAD_OPENING)
    _enter(turn, top, count, dive)


def _enter(turn: Turn, top: Digest, count: int, dive: Dive) -> None:
    """Put the mover at the top of its tree. The first to enter opens it, the second descends."""
    require(turn.position.entered != BOTH, Reason.WRONG_PHASE)
    turn.put_node(turn.mover, top)
    if turn.position.entered == 0:
        turn.change(entered=1, level=get_height(count), index=0, count=count)
        require(_fold(turn, dive.nodes) == top, Reason.BAD_OPENING)
        turn.change(span=get_block(turn.position.level))
        turn.pass_on(nodes=dive.nodes)
    else:
        turn.change(entered=BOTH)
        _descend(turn, dive)


def _put(pair: tuple[Digest, Digest], side: int, top: Digest) -> tuple[Digest, Digest]:
    return (top, pair[1]) if side == 0 else (pair[0], top)


def get_before(
    facts: Facts, terms: Terms, side: int, claim: Digest
) -> tuple[Tag, Digest, int, int]:
    """Return where the agreed state before the step lies: tag, top, index, number of leaves."""
    place = facts.step - facts.first_step
    if place == 0:
        return Tag.HISTORY_NODE, claim, facts.checkpoint - 1, terms.checkpoints
    count = get_interval_length(terms, facts.first_step)
    return Tag.INTERVAL_NODE, facts.intervals[side], place - 1, count
