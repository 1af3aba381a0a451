"""The choice of a provider's move: a function of the chain and of its own run, without memory.

A player that is killed and started again reads the job's events and goes on. `None` means that
there is no move that would help, or that it is the other side's turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model.descent import BOTH, NODE_TAGS, get_interval_length
from moot.contracts.model.types import ZERO, Dive, Facts, Terms
from moot.contracts.model.verdicts import get_boundary, get_segments
from moot.contracts.reasons import LeafMode, Phase
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import encode_elements
from moot.offchain.commitments.tree import Tree, hash_root
from moot.offchain.disputes.play.descents import find_difference, make_dive, open_top, split
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.referee.board import Board
from moot.offchain.programs.graph import Origin
from moot.offchain.providers.testimony import Testimony


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee; the pair and the position come before its arguments."""

    call: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seat:
    """One side of a match, with everything that decides its next move."""

    run: Testimony
    terms: Terms
    board: Board
    side: int

    @property
    def facts(self) -> Facts:
        """What the match has found out."""
        return self.board.facts


def find_move(run: Testimony, terms: Terms, board: Board, side: int) -> Move | None:
    """Return the move that a side of a match makes now, if any."""
    position = board.position
    if not run.behaviour.plays:
        return None
    if position.phase in _DECISIONS:
        move, is_won = _DECISIONS[position.phase](run, board, side)
        return move if is_won else None
    if position.mover != side or position.phase is Phase.VERIFIER:
        return None
    seat = _Seat(run, terms, board, side)
    if position.phase in NODE_TAGS:
        return _descend(seat) if position.entered == BOTH else _follow(seat)
    return _pick_segment(seat) if position.phase is Phase.FOLD else _pick_element(seat)


def decide(run: Testimony, board: Board, side: int) -> Move:
    """Return the call that ends a match at its leaf or its sink by a side's trees.

    Whoever wins by it; `find_move` returns it to the winner alone.
    """
    move, _ = _DECISIONS[board.position.phase](run, board, side)
    return move


def get_tree(run: Testimony, phase: Phase, facts: Facts) -> Tree | None:
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
    """Return the mover's version of the tree that both sides have entered, or are about to."""
    tree = get_tree(seat.run, seat.board.position.phase, seat.facts)
    assert tree is not None, "a tensor without elements is never entered"
    return tree


def _descend(seat: _Seat) -> Move | None:
    """Pick in the other side's opening; at a leaf, enter the tree that the leaf stands for."""
    tree, position = _get_own(seat), seat.board.position
    if tree.node(position.level, position.index) != position.nodes[seat.side]:
        return None
    dive = make_dive(tree, position, seat.board.nodes)
    if dive is None:
        return None
    if position.level > position.span:
        return Move("descend", (dive,))
    return _leave(seat, dive, (position.index << position.span) + dive.child)


def _leave(seat: _Seat, pick: Dive, index: int) -> Move | None:
    """Leave a tree at a leaf, for the tree that the leaf stands for."""
    facts = seat.facts
    match seat.board.position.phase:
        case Phase.HISTORY:
            return _enter(seat, *_find_interval(seat, index), pick)
        case Phase.INTERVAL:
            step = facts.first_step + index
            return _enter(seat, Phase.TRACE, replace(facts, step=step), pick)
        case Phase.TRACE if index == seat.terms.operators:
            return _enter(seat, Phase.STATE, facts, pick)
        case Phase.TRACE if seat.terms.leaf_mode is LeafMode.SCALAR:
            return _enter(seat, Phase.TENSOR, replace(facts, operator=index), pick)
        case Phase.TENSOR:
            chunk = _get_chunk(seat, index)
            return Move("reach_chunk", (facts, replace(pick, nodes=()), chunk))
    return Move("descend", (pick,))


def _find_interval(seat: _Seat, checkpoint: int) -> tuple[Phase, Facts]:
    """Return which tree follows from a disputed checkpoint, and the facts that say where it is."""
    first = checkpoint * seat.terms.checkpoint_every
    is_step = get_interval_length(seat.terms, first) == 1
    facts = replace(seat.facts, checkpoint=checkpoint, first_step=first, step=first)
    return Phase.TRACE if is_step else Phase.INTERVAL, facts


def _follow(seat: _Seat) -> Move | None:
    """Enter a tree that the other side has entered."""
    position = seat.board.position
    tree = _get_own(seat)
    dive: Dive | None = open_top(tree)
    if position.level > position.span:
        dive = make_dive(tree, position, seat.board.nodes)
    return _enter(seat, position.phase, seat.facts, dive) if dive else None


def _enter(seat: _Seat, phase: Phase, place: Facts, dive: Dive) -> Move | None:
    """Enter a tree, if it is the one that this side has claimed.

    Args:
        seat: the side.
        phase: which tree.
        place: the facts that say where it is.
        dive: the pick in the tree that is left, with this side's leaf there; or from the second to
            enter the step into this one.
    """
    position, run = seat.board.position, seat.run
    tree, is_first = get_tree(run, phase, place), position.phase is not phase
    claimed = position.nodes[seat.side]
    if is_first:
        (claimed,) = dive.nodes
        dive = replace(dive, nodes=open_top(tree).nodes if tree else ())
    if phase is Phase.TENSOR:
        tensor = run.tensor(place.step, Origin.NODE, place.operator)
        commitment = run.task.commitment
        proof = tuple(commitment.tree.proof(place.operator)) if is_first else ()
        encoding = commitment.encodings[place.operator]
        move = Move("enter_tensor", (seat.facts, encoding, proof, tensor.top, dive))
        return move if tensor.root == claimed else None
    assert tree is not None, "only a tensor may have no elements"
    if phase is Phase.STATE:
        root = hash_root(Tag.STATE_ROOT, tree.count, tree.top)
        return Move("enter_state", (tree.top, dive)) if root == claimed else None
    last, leaf = tree.count - 1, claimed if is_first else ZERO
    move = Move("enter_claimed", (seat.facts, leaf, tree.top, tuple(tree.proof(last)), dive))
    return move if tree.node(0, last) == claimed else None


def _get_chunk(seat: _Seat, index: int) -> bytes:
    facts = seat.facts
    return seat.run.tensor(facts.step, Origin.NODE, facts.operator).chunk(index)


def _pick_element(seat: _Seat) -> Move | None:
    """Pick the first element in which the chunk that the other side has shown differs."""
    board, facts = seat.board, seat.facts
    chunk = _get_chunk(seat, board.position.index)
    size, theirs = facts.width, board.data
    place = find_difference(split(chunk, size), split(theirs, size))
    if place is None:
        return None
    element = board.position.index * (CHUNK_BYTES // size) + place
    values = _get_inner(seat.run, replace(facts, element=element, high=facts.fold_length))
    return Move("pick_element", (facts, theirs, chunk, values))


def _get_inner(run: Testimony, facts: Facts) -> bytes:
    """Return a provider's accumulators at the inner boundaries of the segments."""
    if facts.high - facts.low <= 1:
        return b""
    partials = run.partials(facts.step, facts.operator, facts.element)
    boundaries = [get_boundary(facts, segment) for segment in range(1, get_segments(facts))]
    return encode_elements(partials[boundaries]).tobytes()


def _pick_segment(seat: _Seat) -> Move | None:
    facts, theirs = seat.facts, seat.board.data
    size, last = facts.bits_bytes, get_segments(facts) - 1
    mine = _get_inner(seat.run, facts)
    segment = find_difference(split(mine, size), split(theirs, size))
    if segment is None:
        segment = last
    bits = facts.bits[seat.side]
    if segment < last:
        bits = int.from_bytes(split(mine, size)[segment], "little")
    low, high = get_boundary(facts, segment), get_boundary(facts, segment + 1)
    values = _get_inner(seat.run, replace(facts, low=low, high=high))
    return Move("pick_segment", (facts, theirs, segment, bits, values))


def _prove_sink(run: Testimony, board: Board, side: int) -> tuple[Move, bool]:
    """Return the proof that ends a match about the state, and whether the side wins by it."""
    position, facts = board.position, board.facts
    trace, sink = run.trace(facts.step), run.task.program.first_sink + position.index
    root = trace.node(0, sink)
    move = Move("prove_sink", (facts, side, root, tuple(trace.proof(sink))))
    return move, root == position.nodes[side]


def _compute_leaf(run: Testimony, board: Board, side: int) -> tuple[Move, bool]:
    """Return the proof that ends a match about a scalar, and whether the side wins by it."""
    facts = board.facts
    leaf = make_leaf(run, facts)
    encoding = run.task.commitment.encodings[facts.operator]
    proofs = (leaf.before, leaf.before_proof, leaf.evidence)
    return Move("leaf", (facts, side, encoding, *proofs)), leaf.result == facts.bits[side]


_DECISIONS: dict[Phase, Callable[[Testimony, Board, int], tuple[Move, bool]]] = {
    Phase.SINK: _prove_sink,
    Phase.LEAF: _compute_leaf,
}
"""The moves that end a match, which either side may make whoever's clock is running."""
