"""Descents in two histories that differ in random leaves, and the checkpoint that they reach."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from moot.contracts.model.checks import name_job
from moot.contracts.model.referee import call
from moot.contracts.model.types import (
    MIN_BOND_WEI,
    NOBODY,
    ZERO,
    Dive,
    Event,
    Facts,
    Message,
    Pair,
    Position,
    Store,
    Terms,
)
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import LeafMode, Phase, Reason, Revert
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree, get_block, get_height
from moot.offchain.disputes.play.descents import make_dive

CLIENT, FIRST, SECOND = (f"0x{number:040x}" for number in (1, 2, 3))
START = b"\x07" * 32


def make_terms(checkpoints: int) -> Terms:
    """Return the terms of a job with so many checkpoints."""
    return Terms(
        operators=1,
        state_slots=1,
        batch_slots=0,
        layout=bytes(32),
        program_top=bytes(32),
        start_root=START,
        data_top=bytes(32),
        steps=checkpoints,
        checkpoint_every=1,
        leaf_mode=LeafMode.SCALAR,
        verifier=NOBODY,
        bond_wei=MIN_BOND_WEI,
        commit_blocks=1,
        reveal_blocks=1,
        window_blocks=9,
        clock_blocks=9,
        increment_blocks=9,
    )


def start_match(trees: Sequence[Tree]) -> tuple[Store, Pair, Position]:
    """Let two histories meet."""
    store = Store(1, NOBODY)
    call(store, "open_job", Message(CLIENT, 0, 1), make_terms(trees[0].count))
    salt = bytes(32)
    for member, tree in zip((FIRST, SECOND), trees, strict=True):
        digest = hash_commitment(store, 0, member, tree.top, salt)
        args = (0, digest, name_job(store, 0))
        call(store, "commit", Message(member, MIN_BOND_WEI, 2), *args)
    for member, tree in zip((FIRST, SECOND), trees, strict=True):
        call(store, "reveal", Message(member, 0, 3), 0, tree.top, salt)
    tops = (trees[0].top, trees[1].top)
    args = (0, FIRST, SECOND, tops, (ZERO, ZERO))
    (started,) = call(store, "start_match", Message(CLIENT, 0, 4), *args)
    position = started.args[3]
    assert isinstance(position, Position)
    return store, Pair(0, FIRST, SECOND), position


def make_move(
    tree: Tree, store: Store, pair: Pair, position: Position, dive: Dive
) -> tuple[Event, ...]:
    """Descend, or at a leaf enter the step that leads to it."""
    mover = (pair.first, pair.second)[position.mover]
    if position.level > position.span:
        return call(store, "descend", Message(CLIENT, 0, 5), pair, position, dive)
    leaf = tree.node(0, (position.index << position.span) + dive.child)
    trace = Tree(Tag.TRACE_NODE, [START, leaf])
    entrance = (leaf, trace.top, tuple(trace.proof(1)), replace(dive, nodes=(START, leaf)))
    args = (pair, position, Facts(), *entrance)
    return call(store, "enter_claimed", Message(mover, 0, 5), *args)


def descend(trees: Sequence[Tree]) -> tuple[Position, Facts]:
    """Play the history to its leaf; return the position there, and what has been found."""
    store, pair, position = start_match(trees)
    nodes: object = ()
    facts: object = Facts()
    while position.phase is Phase.HISTORY:
        assert isinstance(nodes, tuple)
        tree = trees[position.mover]
        dive = make_dive(tree, position, nodes)
        assert dive is not None
        *others, moved = make_move(tree, store, pair, position, dive)
        facts = others[0].args[3] if others else facts
        _, _, _, following, nodes, _ = moved.args
        assert isinstance(following, Position)
        position = following
    assert isinstance(facts, Facts)
    return position, facts


@st.composite
def histories(draw: st.DrawFn) -> tuple[Tree, Tree, int]:
    """Draw two histories, and the first place in which they differ."""
    count = draw(st.one_of(st.integers(1, 3), st.integers(1, 40), st.integers(1, 5_000)))
    place = draw(st.integers(0, count - 1))
    leaves = [i.to_bytes(32, "big") for i in range(1, count + 1)]
    others = list(leaves)
    for later in {place, *draw(st.lists(st.integers(place, count - 1), max_size=5))}:
        others[later] = bytes([1 + draw(st.integers(0, 1))]) * 32
    both = [Tree(Tag.HISTORY_NODE, leaves), Tree(Tag.HISTORY_NODE, others)]
    first, second = both[:: draw(st.sampled_from([1, -1]))]
    return first, second, place


@given(histories())
def test_a_descent_arrives_at_the_first_difference(drawn: tuple[Tree, Tree, int]) -> None:
    """Whatever differs behind it, both sides together come to the first leaf that does."""
    *trees, place = drawn
    position, facts = descend(trees)
    assert (position.phase, position.entered) == (Phase.TRACE, 1)
    assert (facts.checkpoint, facts.first_step, facts.step) == (place, place, place)
    entered = 1 - position.mover
    own = trees[entered].node(0, place)
    trace = Tree(Tag.TRACE_NODE, [START, own])
    assert position.nodes[entered] == facts.traces[entered] == trace.top
    assert position.nodes[position.mover] == trees[position.mover].node(0, place)


@given(histories())
def test_a_descent_takes_a_move_for_each_block_of_levels(drawn: tuple[Tree, Tree, int]) -> None:
    """A tree of height h takes one opening, and ceil(h / 4) picks, the last of them a leaf's.

    Whoever picks the leaf enters the next tree in the same move; it is the first in a history of
    one leaf.
    """
    *trees, _ = drawn
    position, _ = descend(trees)
    height, blocks = get_height(trees[0].count), 0
    while height:
        height, blocks = height - get_block(height), blocks + 1
    assert position.moves == blocks + 1


@given(histories())
def test_a_later_difference_is_refused(drawn: tuple[Tree, Tree, int]) -> None:
    """A side that passes over the first node that differs is refused, and nothing changes."""
    *trees, _ = drawn
    assume(trees[0].count > 1)
    store, pair, position = start_match(trees)
    dive = make_dive(trees[0], position, ())
    moved = call(store, "descend", Message(CLIENT, 0, 5), pair, position, dive)[-1]
    _, _, _, position, nodes, _ = moved.args  # type: ignore[assignment] # the event's own types
    assert isinstance(nodes, tuple)
    right = make_dive(trees[1], position, nodes)
    assert right is not None
    level = position.level - position.span
    feigned = [trees[1].node(level, place) for place in range(right.child + 1)]
    later = make_dive(trees[1], position, [*feigned, *nodes[right.child + 1 :]])
    assume(later is not None)
    assert later is not None
    before = dict(store.matches)
    with pytest.raises(Revert, match=Reason.BAD_PROOF):
        make_move(trees[1], store, pair, position, later)
    assert store.matches == before
    make_move(trees[1], store, pair, position, right)


@given(histories())
def test_a_leaf_cannot_be_picked_without_entering(drawn: tuple[Tree, Tree, int]) -> None:
    """A descent stops above the leaves of a history, and nothing is entered before."""
    *trees, _ = drawn
    store, pair, position = start_match(trees)
    nodes: object = ()
    while position.level > position.span:
        assert isinstance(nodes, tuple)
        dive = make_dive(trees[position.mover], position, nodes)
        assert dive is not None
        mover = (FIRST, SECOND)[position.mover]
        args = (pair, position, Facts(), START, START, (), dive)
        with pytest.raises(Revert, match=Reason.WRONG_PHASE):
            call(store, "enter_claimed", Message(mover, 0, 5), *args)
        (moved,) = make_move(trees[position.mover], store, pair, position, dive)
        _, _, _, position, nodes, _ = moved.args  # type: ignore[assignment] # the event's own types
    assert isinstance(nodes, tuple)
    dive = make_dive(trees[position.mover], position, nodes)
    assert dive is not None
    with pytest.raises(Revert, match=Reason.WRONG_PHASE):
        call(store, "descend", Message(CLIENT, 0, 5), pair, position, dive)
    make_move(trees[position.mover], store, pair, position, dive)
