"""Descents: two histories, of which any leaves differ, and the checkpoint at which they arrive."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contracts.model.referee import call
from contracts.model.types import MIN_BOND_WEI, NOBODY, Message, Pair, Position, Store, Terms
from contracts.model.words import hash_commitment
from contracts.reasons import LeafMode, Phase, Reason, Revert
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Tree, get_block, get_height
from offchain.disputes.dives import make_dive

CLIENT, FIRST, SECOND = (f"0x{number:040x}" for number in (1, 2, 3))
START = b"\x07" * 32


def make_terms(checkpoints: int) -> Terms:
    """Return the terms of a job with so many checkpoints, two at least."""
    return Terms(
        operators=1,
        state_slots=1,
        batch_slots=0,
        layout=bytes(32),
        program_top=bytes(32),
        start_root=START,
        data_top=bytes(32),
        steps=checkpoints - 1,
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
        call(store, "commit", Message(member, MIN_BOND_WEI, 2), 0, digest)
    for member, tree in zip((FIRST, SECOND), trees, strict=True):
        call(store, "reveal", Message(member, 0, 3), 0, tree.top, salt)
    tops = (trees[0].top, trees[1].top)
    (started,) = call(store, "start_match", Message(CLIENT, 0, 4), 0, FIRST, SECOND, tops)
    position = started.args[3]
    assert isinstance(position, Position)
    return store, Pair(0, FIRST, SECOND), position


def descend(trees: Sequence[Tree]) -> tuple[Position, int]:
    """Play the history to its leaf; return the last position, and how many moves it took."""
    store, pair, position = start_match(trees)
    nodes: object = ()
    moves = 0
    while position.phase is Phase.HISTORY:
        assert isinstance(nodes, tuple)
        dive = make_dive(trees[position.mover], position, nodes)
        assert dive is not None
        events = call(store, "descend", Message(CLIENT, 0, 5), pair, position, dive)
        moves += 1
        if events[-1].name == "MatchEnded":
            break
        _, _, _, following, nodes, _ = events[-1].args
        assert isinstance(following, Position)
        position = following
    return position, moves


@st.composite
def histories(draw: st.DrawFn) -> tuple[Tree, Tree, int]:
    """Draw two histories, and the first place in which they differ; it is not the start."""
    count = draw(st.one_of(st.integers(2, 40), st.integers(2, 5_000)))
    place = draw(st.integers(1, count - 1))
    leaves = [START, *(i.to_bytes(32, "big") for i in range(1, count))]
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
    position, _ = descend(trees)
    assert position.phase is Phase.TRACE
    assert position.index == place
    assert position.nodes == (trees[0].node(0, place), trees[1].node(0, place))


@given(histories())
def test_a_descent_takes_a_move_for_each_block_of_levels(drawn: tuple[Tree, Tree, int]) -> None:
    """A tree of height h takes one opening, and ceil(h / 4) picks, the last of them a leaf's."""
    *trees, _ = drawn
    _, moves = descend(trees)
    height, blocks = get_height(trees[0].count), 0
    while height:
        height, blocks = height - get_block(height), blocks + 1
    assert moves == blocks + 1


@given(histories())
def test_a_later_difference_is_refused(drawn: tuple[Tree, Tree, int]) -> None:
    """A side that passes over the first node that differs is refused, and nothing changes."""
    *trees, _ = drawn
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
    before = dict(store.matches)
    with pytest.raises(Revert, match=Reason.BAD_PROOF):
        call(store, "descend", Message(CLIENT, 0, 5), pair, position, later)
    assert store.matches == before
    call(store, "descend", Message(CLIENT, 0, 5), pair, position, right)
