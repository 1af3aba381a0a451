"""Which move a provider makes: a function of the chain and of its own run, nothing remembered.

A player that is killed and started again reads the job's events and goes on. `None` means that
there is no move that would help, or that it is the other side's turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from contracts.model.descent import BOTH, NODE_TAGS, get_interval_length
from contracts.model.types import ZERO, Dive, Facts, Terms
from contracts.model.verdicts import get_boundary, get_segments
from contracts.reasons import LeafMode, Phase
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import encode_elements
from offchain.commitments.tree import Tree, hash_root
from offchain.disputes.board import Board
from offchain.disputes.dives import find_difference, make_dive, open_top
from offchain.disputes.openings import make_leaf
from offchain.programs.graph import Origin
from offchain.providers.run import Run


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee; the pair and the position come before its arguments."""

    call: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seat:
    """One side of a match, with all that decides its next move."""

    run: Run
    terms: Terms
    board: Board
    side: int

    @property
    def facts(self) -> Facts:
        """What the match has found out."""
        return self.board.facts


def find_move(run: Run, terms: Terms, board: Board, side: int) -> Move | None:
    """Return the move that a side of a match makes now, if any."""
    position = board.position
    if not run.behaviour.plays:
        return None
    seat = _Seat(run, terms, board, side)
    if position.phase in _DECISIONS:
        return _DECISIONS[position.phase](seat)
    if position.mover != side or position.phase is Phase.VERIFIER:
        return None
    if position.phase in NODE_TAGS:
        return _descend(seat) if position.entered == BOTH else _follow(seat)
    return _pick_segment(seat) if position.phase is Phase.FOLD else _pick_element(seat)


def get_tree(run: Run, phase: Phase, facts: Facts) -> Tree | None:
    """Return a provider's version of a tree; None for that of a tensor without elements."""
    match phase:
        case Phase.HISTORY:
            return run.history
        case Phase.INTERVAL:
            return run.interval(facts.first_step)
        case Phase.TRACE:
            return run.trace(facts.step)
        case Phase.TENSOR:
            return run.tensor(facts.step, Origin.NODE, facts.operator).tree
    return run.state_tree(facts.step + 1)


def _get_own(seat: _Seat) -> Tree:
    """Return one's own version of the tree that both have entered, or are about to."""
    tree = get_tree(seat.run, seat.board.position.phase, seat.facts)
    assert tree is not None, "a tensor without elements is never entered"
    return tree


def _descend(seat: _Seat) -> Move | None:
    """Pick in the other side's opening; at a leaf, enter what it stands for."""
    tree, position = _get_own(seat), seat.board.position
    if tree.node(position.level, position.index) != position.nodes[seat.side]:
        return None
    dive = make_dive(tree, position, seat.board.nodes)
    if dive is None:
        return None
    if position.level > position.span:
        return Move("descend", (dive,))
    return _leave(seat, dive, (position.index << position.span) + dive.child)


def _leave(seat: _Seat, dive: Dive, index: int) -> Move | None:
    """Leave a tree at a leaf, for what this stands for."""
    move: Move | None = Move("descend", (dive,))
    match seat.board.position.phase:
        case Phase.HISTORY if index:
            move = _enter_claimed(seat, dive, _find_interval(seat, index))
        case Phase.INTERVAL:
            facts = replace(seat.facts, step=seat.facts.first_step + index)
            move = _enter_claimed(seat, dive, (Phase.TRACE, facts))
        case Phase.TRACE if index == seat.terms.operators:
            move = _enter_state(seat, dive)
        case Phase.TRACE if seat.terms.leaf_mode is LeafMode.SCALAR:
            move = _enter_tensor(seat, dive, index)
        case Phase.TENSOR:
            chunk = _get_chunk(seat, index)
            move = Move("reach_chunk", (seat.facts, replace(dive, nodes=()), chunk))
    return move


def _find_interval(seat: _Seat, checkpoint: int) -> tuple[Phase, Facts]:
    """Return which tree follows from a disputed checkpoint, and the facts that say where it is."""
    first = (checkpoint - 1) * seat.terms.checkpoint_every
    is_step = get_interval_length(seat.terms, first) == 1
    facts = replace(seat.facts, checkpoint=checkpoint, first_step=first, step=first)
    return Phase.TRACE if is_step else Phase.INTERVAL, facts


def _enter_claimed(seat: _Seat, pick: Dive, following: tuple[Phase, Facts]) -> Move | None:
    """Leave a tree of states for what has led to one of them, which must be its last leaf."""
    tree, leaf = get_tree(seat.run, *following), pick.nodes[0]
    assert tree is not None
    if tree.node(0, tree.count - 1) != leaf:
        return None
    proof = tuple(tree.proof(tree.count - 1))
    dive = replace(pick, nodes=open_top(tree).nodes)
    return Move("enter_claimed", (seat.facts, leaf, tree.top, proof, dive))


def _enter_tensor(seat: _Seat, pick: Dive, operator: int) -> Move | None:
    """Leave the trace for an operator's output."""
    tensor = seat.run.tensor(seat.facts.step, Origin.NODE, operator)
    if tensor.root != pick.nodes[0]:
        return None
    commitment = seat.run.task.commitment
    proof = tuple(commitment.tree.proof(operator))
    dive = replace(pick, nodes=open_top(tensor.tree).nodes if tensor.tree else ())
    encoding = commitment.encodings[operator]
    return Move("enter_tensor", (seat.facts, encoding, proof, tensor.top, dive))


def _enter_state(seat: _Seat, pick: Dive) -> Move | None:
    """Leave the trace for the state that its outputs make."""
    tree = seat.run.state_tree(seat.facts.step + 1)
    if hash_root(Tag.STATE_ROOT, tree.count, tree.top) != pick.nodes[0]:
        return None
    return Move("enter_state", (tree.top, replace(pick, nodes=open_top(tree).nodes)))


def _follow(seat: _Seat) -> Move | None:
    """Enter a tree that the other side has entered."""
    tree, board = _get_own(seat), seat.board
    dive: Dive | None = open_top(tree)
    if board.position.level > board.position.span:
        dive = make_dive(tree, board.position, board.nodes)
    return _ENTRANCES[board.position.phase](seat, tree, dive) if dive else None


def _follow_claimed(seat: _Seat, tree: Tree, dive: Dive) -> Move | None:
    if tree.node(0, tree.count - 1) != seat.board.position.nodes[seat.side]:
        return None
    proof = tuple(tree.proof(tree.count - 1))
    return Move("enter_claimed", (seat.facts, ZERO, tree.top, proof, dive))


def _follow_tensor(seat: _Seat, tree: Tree, dive: Dive) -> Move | None:
    facts = seat.facts
    tensor = seat.run.tensor(facts.step, Origin.NODE, facts.operator)
    if tensor.root != seat.board.position.nodes[seat.side]:
        return None
    encoding = seat.run.task.commitment.encodings[facts.operator]
    return Move("enter_tensor", (facts, encoding, (), tree.top, dive))


def _follow_state(seat: _Seat, tree: Tree, dive: Dive) -> Move | None:
    root = hash_root(Tag.STATE_ROOT, tree.count, tree.top)
    if root != seat.board.position.nodes[seat.side]:
        return None
    return Move("enter_state", (tree.top, dive))


_ENTRANCES: dict[Phase, Callable[[_Seat, Tree, Dive], Move | None]] = {
    Phase.INTERVAL: _follow_claimed,
    Phase.TRACE: _follow_claimed,
    Phase.TENSOR: _follow_tensor,
    Phase.STATE: _follow_state,
}
"""How the second to enter a tree does it."""


def _get_chunk(seat: _Seat, index: int) -> bytes:
    facts = seat.facts
    return seat.run.tensor(facts.step, Origin.NODE, facts.operator).chunk(index)


def _pick_element(seat: _Seat) -> Move | None:
    """Pick the first element in which the chunk that the other side has shown differs."""
    board, facts = seat.board, seat.facts
    chunk = _get_chunk(seat, board.position.index)
    size, theirs = facts.width, board.data
    place = find_difference(_split(chunk, size), _split(theirs, size))
    if place is None:
        return None
    element = board.position.index * (CHUNK_BYTES // size) + place
    values = _get_inner(seat.run, replace(facts, element=element, high=facts.fold_length))
    return Move("pick_element", (facts, theirs, chunk, values))


def _split(values: bytes, width: int) -> list[bytes]:
    return [values[start : start + width] for start in range(0, len(values), width)]


def _get_inner(run: Run, facts: Facts) -> bytes:
    """Return a provider's accumulators at the inner boundaries of the segments."""
    if facts.high - facts.low <= 1:
        return b""
    partials = run.partials(facts.step, facts.operator, facts.element)
    boundaries = [get_boundary(facts, segment) for segment in range(1, get_segments(facts))]
    return encode_elements(partials[boundaries]).tobytes()


def _pick_segment(seat: _Seat) -> Move | None:
    facts, theirs = seat.facts, seat.board.data
    size, last = facts.width, get_segments(facts) - 1
    mine = _get_inner(seat.run, facts)
    segment = find_difference(_split(mine, size), _split(theirs, size))
    if segment is None:
        segment = last
    bits = facts.bits[seat.side]
    if segment < last:
        bits = int.from_bytes(_split(mine, size)[segment], "little")
    low, high = get_boundary(facts, segment), get_boundary(facts, segment + 1)
    values = _get_inner(seat.run, replace(facts, low=low, high=high))
    return Move("pick_segment", (facts, theirs, segment, bits, values))


def _prove_sink(seat: _Seat) -> Move | None:
    """Return the proof that ends a match about the state, if it ends it in the side's favour."""
    run, position, facts = seat.run, seat.board.position, seat.facts
    trace, sink = run.trace(facts.step), run.task.program.first_sink + position.index
    root = trace.node(0, sink)
    if root != position.nodes[seat.side]:
        return None
    return Move("prove_sink", (facts, seat.side, root, tuple(trace.proof(sink))))


def _compute_leaf(seat: _Seat) -> Move | None:
    """Return the proof that ends a match about a scalar, if it ends it in the side's favour."""
    facts = seat.facts
    leaf = make_leaf(seat.run, facts)
    if leaf.result != facts.bits[seat.side]:
        return None
    encoding = seat.run.task.commitment.encodings[facts.operator]
    proofs = (leaf.before, leaf.before_proof, leaf.evidence)
    return Move("leaf", (facts, seat.side, encoding, *proofs))


_DECISIONS: dict[Phase, Callable[[_Seat], Move | None]] = {
    Phase.SINK: _prove_sink,
    Phase.LEAF: _compute_leaf,
}
"""The moves that end a match, which either side may make whoever's clock is running."""
