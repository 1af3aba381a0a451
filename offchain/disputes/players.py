"""Which move a provider makes: a function of the chain and of its own run, nothing remembered.

A player that is killed and started again reads the job's events and goes on. `None` means that
there is no move that would help, or that it is the other side's turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from contracts.model.descent import NODE_TAGS
from contracts.model.types import ZERO, Dive, Facts, Terms
from contracts.model.verdicts import get_boundary, get_segments
from contracts.reasons import Phase
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import encode_elements
from offchain.commitments.tree import Tree, hash_root
from offchain.disputes.board import Board, get_place
from offchain.disputes.dives import find_difference, make_dive, open_top
from offchain.disputes.openings import make_leaf
from offchain.programs.graph import Origin
from offchain.providers.run import Run

BOTH = 2
"""Sides that have entered a tree before it is descended."""
NO_DIVE = Dive(0, ZERO, (), ())
"""Stands where a tensor without elements has no tree."""


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee; the pair and the position come before its arguments."""

    call: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seat:
    """One side of a match, with all that decides its next move."""

    run: Run
    board: Board
    side: int
    place: Facts


def find_move(run: Run, terms: Terms, board: Board, side: int) -> Move | None:
    """Return the move that a side of a match makes now, if any."""
    position = board.position
    if not run.behaviour.plays:
        return None
    seat = _Seat(run, board, side, get_place(board, terms))
    if position.phase in _DECISIONS:
        return _DECISIONS[position.phase](seat)
    if position.mover != side or position.phase is Phase.VERIFIER:
        return None
    if position.phase in _ENTRANCES and position.entered < BOTH:
        return _ENTRANCES[position.phase](seat)
    if position.phase in NODE_TAGS:
        return _descend(seat)
    return _pick_segment(seat) if position.phase is Phase.FOLD else _show_chunk(seat)


def get_tree(seat: _Seat) -> Tree | None:
    """Return this provider's version of the tree that is being descended."""
    run, place = seat.run, seat.place
    match seat.board.position.phase:
        case Phase.HISTORY:
            return run.history
        case Phase.INTERVAL:
            return run.interval(place.first_step)
        case Phase.TRACE:
            return run.trace(place.step)
        case Phase.TENSOR:
            return run.tensor(place.step, Origin.NODE, place.operator).tree
    return run.state_tree(place.step + 1)


def _descend(seat: _Seat) -> Move | None:
    tree, position = get_tree(seat), seat.board.position
    assert tree is not None
    if tree.node(position.level, position.index) != position.nodes[seat.side]:
        return None
    dive = make_dive(tree, position, seat.board.nodes)
    if dive is None:
        return None
    if position.phase is Phase.TENSOR and position.level == position.span:
        index = (position.index << position.span) + dive.child
        return Move("reach_chunk", (seat.place, dive, _get_chunk(seat, index)))
    return Move("descend", (dive,))


def _get_chunk(seat: _Seat, index: int) -> bytes:
    facts = seat.place
    return seat.run.tensor(facts.step, Origin.NODE, facts.operator).chunk(index)


def _enter(seat: _Seat, tree: Tree) -> Dive | None:
    """Return the first step down a tree, as the first to enter it or as the second."""
    board = seat.board
    return (
        make_dive(tree, board.position, board.nodes) if board.position.entered else open_top(tree)
    )


def _enter_claimed(seat: _Seat, call: str) -> Move | None:
    """Enter a tree whose last leaf has been claimed before."""
    tree, board = get_tree(seat), seat.board
    assert tree is not None
    dive, last = _enter(seat, tree), tree.count - 1
    if dive is None or tree.node(0, last) != board.position.nodes[seat.side]:
        return None
    return Move(call, (board.facts, tree.top, tuple(tree.proof(last)), dive))


def _enter_tensor(seat: _Seat) -> Move | None:
    run, board, place = seat.run, seat.board, seat.place
    tensor = run.tensor(place.step, Origin.NODE, place.operator)
    if tensor.root != board.position.nodes[seat.side]:
        return None
    dive = _enter(seat, tensor.tree) if tensor.tree else NO_DIVE
    if dive is None:
        return None
    commitment = run.task.commitment
    proof = () if board.position.entered else tuple(commitment.tree.proof(place.operator))
    encoding = commitment.encodings[place.operator]
    return Move("enter_tensor", (board.facts, encoding, proof, tensor.top, dive))


def _enter_state(seat: _Seat) -> Move | None:
    tree = get_tree(seat)
    assert tree is not None
    dive = _enter(seat, tree)
    root = hash_root(Tag.STATE_ROOT, tree.count, tree.top)
    if dive is None or root != seat.board.position.nodes[seat.side]:
        return None
    return Move("enter_state", (tree.top, dive))


_ENTRANCES: dict[Phase, Callable[[_Seat], Move | None]] = {
    Phase.INTERVAL: lambda seat: _enter_claimed(seat, "enter_interval"),
    Phase.TRACE: lambda seat: _enter_claimed(seat, "enter_trace"),
    Phase.TENSOR: _enter_tensor,
    Phase.STATE: _enter_state,
}


def _show_chunk(seat: _Seat) -> Move | None:
    """Show the chunk, and if the other side has shown its own, pick the first element."""
    board, facts = seat.board, seat.place
    chunk = _get_chunk(seat, board.position.index)
    if not board.position.entered:
        return Move("open_chunk", (facts, chunk))
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
    facts, theirs = seat.place, seat.board.data
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
    run, position, facts = seat.run, seat.board.position, seat.place
    trace, sink = run.trace(facts.step), run.task.program.first_sink + position.index
    root = trace.node(0, sink)
    if root != position.nodes[seat.side]:
        return None
    return Move("prove_sink", (facts, seat.side, root, tuple(trace.proof(sink))))


def _compute_leaf(seat: _Seat) -> Move | None:
    """Return the proof that ends a match about a scalar, if it ends it in the side's favour."""
    facts = seat.place
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
