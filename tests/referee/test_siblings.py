"""Every sibling of every pick counts: as many as are needed, each the right one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from moot.contracts.model.types import ZERO, Dive, Facts, Pair, Position
from moot.contracts.reasons import Phase, Reason
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, get_width
from moot.offchain.disputes.play.descents import make_dive
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.story import assemble, meet
from tests.lockstep.twin import RefereeTwin
from tests.property.test_descents import CLIENT, FIRST, SECOND, START, make_terms
from tests.quick import only

BLOCK = 16
"""Leaves of a tree that one opening shows, and the places in it that a pick has."""
MOST_SIBLINGS = 8


def make_trees(count: int, place: int) -> tuple[Tree, Tree]:
    """Return two histories that differ in one leaf."""
    leaves = [number.to_bytes(32, "big") for number in range(1, count + 1)]
    others = [*leaves[:place], bytes([0xEE]) * 32, *leaves[place + 1 :]]
    return Tree(Tag.HISTORY_NODE, leaves), Tree(Tag.HISTORY_NODE, others)


def start_match(twins: RefereeTwin, trees: Sequence[Tree]) -> tuple[Pair, Position]:
    """Let two histories meet."""
    terms = make_terms(trees[0].count)
    twins.call("open_job", CLIENT, terms)
    twins.block += 1
    assemble(twins, {FIRST: trees[0].top, SECOND: trees[1].top})
    assert meet(twins, CLIENT, FIRST, SECOND) is None
    pair = Pair(0, FIRST, SECOND)
    return pair, twins.watcher.positions[pair]


def list_bent(siblings: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
    """Yield lists of every other length, and lists of the same length with another sibling."""
    for length in range(MOST_SIBLINGS + 1):
        if length != len(siblings):
            missing = max(0, length - len(siblings))
            yield (*siblings[:length], *[*siblings, ZERO][-1:] * missing)
    for place in range(len(siblings)):
        yield (*siblings[:place], ZERO, *siblings[place + 1 :])
    if len(set(siblings)) > 1:
        yield (*siblings[1:], siblings[0])


def move(twins: RefereeTwin, tree: Tree, pair: Pair, position: Position, dive: Dive) -> str | None:
    """Descend, or at a leaf enter the step that leads to it; return why that is refused."""
    if position.level > position.span:
        return twins.call("descend", CLIENT, pair, position, dive)
    mover = (pair.first, pair.second)[position.mover]
    leaf = tree.node(0, (position.index << position.span) + dive.child)
    trace = Tree(Tag.TRACE_NODE, [START, leaf])
    entrance = (leaf, trace.top, tuple(trace.proof(1)), replace(dive, nodes=(START, leaf)))
    return twins.call("enter_claimed", mover, pair, position, Facts(), *entrance)


@pytest.mark.parametrize("count", only({BLOCK}, (BLOCK, BLOCK - 1, 9, BLOCK * BLOCK)))
def test_siblings_are_as_many_as_are_needed_and_each_counts(count: int) -> None:
    """In every place of a block: more, fewer or other siblings are refused, up to the most."""
    contract = RefereeContract((CLIENT, FIRST, SECOND))
    needed = set()
    for place in {*range(0, count, max(1, count // BLOCK)), count - 1}:
        mark = contract.machine.snapshot()
        twins, trees = RefereeTwin((CLIENT, FIRST, SECOND), contract), make_trees(count, place)
        pair, position = start_match(twins, trees)
        while (position := twins.watcher.positions[pair]).phase is Phase.HISTORY:
            tree, rival = trees[position.mover], trees[1 - position.mover]
            level, first = position.level - position.span, position.index << position.span
            width = min(1 << position.span, get_width(count, level) - first)
            dive = make_dive(tree, position, [rival.node(level, first + n) for n in range(width)])
            assert dive is not None
            for siblings in list_bent(dive.siblings) if position.span else ():
                bent = replace(dive, siblings=siblings)
                assert move(twins, tree, pair, position, bent) == Reason.BAD_PROOF
            assert move(twins, tree, pair, position, dive) is None
            needed.add(len(dive.siblings))
        contract.machine.revert(mark)
    assert MOST_SIBLINGS in needed
