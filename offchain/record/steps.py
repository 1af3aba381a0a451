"""The picture of a move: what it picks in the other side's opening, and what it opens itself.

Both are read from where a match stands before and after the move, and from what the move shows. A
place is a leaf of a tree: a checkpoint, a step of an interval, an operator (after the last stands
the state), a chunk, a slot of the state; of a chunk an element, of a fold a step.
"""

from collections.abc import Callable
from dataclasses import dataclass

from moot.contracts.model.descent import BOTH, NODE_TAGS
from moot.contracts.model.types import Facts, Position
from moot.contracts.model.verdicts import get_boundary, get_segments
from moot.contracts.reasons import Phase
from moot.offchain.commitments.tags import CHUNK_BYTES
from moot.offchain.commitments.tree import get_block
from moot.offchain.disputes.referee.board import Board
from moot.offchain.record.schema import Opening, Pick, Side, Value

Name = Callable[[int], str]
"""(the index of an operator) -> its name, empty if nobody knows it."""

Show = Callable[[int], Value]
"""(an element's or an accumulator's bits) -> how it is shown."""


@dataclass(frozen=True, slots=True)
class Formats:
    """How the names of operators, elements and a fold's accumulators are shown."""

    name: Name
    element: Show
    accumulator: Show


def get_mover(position: Position) -> Side:
    """Return the side that is to move."""
    return 1 if position.mover else 0


def read_pick(before: Board, after: Board, formats: Formats) -> Pick | None:
    """Return what a move has picked; None if it only opens."""
    side, old, new = get_mover(before.position), before.position, after.position
    facts, phase = after.facts, old.phase
    if phase is Phase.FOLD:
        return Pick(by=side, tree="fold", low=facts.low, high=facts.high)
    if phase is Phase.CHUNK:
        return Pick(by=side, tree="chunk", low=facts.element, high=facts.element + 1)
    if new.phase is phase and phase in NODE_TAGS:
        if new.level == old.level or old.entered == 0:
            return None
        low, high = find_range(new)
    elif old.entered == BOTH:
        low = _find_leaf(old, new, facts)
        high = low + 1
    else:
        return None
    label = formats.name(low) if phase is Phase.TRACE and high - low == 1 else ""
    return Pick(by=side, tree=phase.name.lower(), low=low, high=high, label=label)


def _find_leaf(old: Position, new: Position, facts: Facts) -> int:
    """Return the leaf at which a tree was left."""
    match old.phase, new.phase:
        case Phase.HISTORY, _:
            return facts.checkpoint
        case Phase.INTERVAL, _:
            return facts.step - facts.first_step
        case Phase.TRACE, Phase.STATE:
            return old.count - 1
        case Phase.TRACE, Phase.TENSOR:
            return facts.operator
    return new.index


def find_range(position: Position) -> tuple[int, int]:
    """Return the leaves below the nodes in which two trees differ."""
    low = position.index << position.level
    return low, min(position.count, (position.index + 1) << position.level)


def read_opening(before: Board, after: Board, formats: Formats) -> Opening | None:
    """Return what a move has opened, if anything."""
    side, phase = get_mover(before.position), after.position.phase
    if phase in NODE_TAGS:
        return _open_tree(side, after.position, len(after.nodes), formats) if after.nodes else None
    if phase is Phase.CHUNK:
        return _open_chunk(side, after, formats)
    return _open_fold(side, after, formats) if phase is Phase.FOLD else None


def _open_tree(side: Side, position: Position, count: int, formats: Formats) -> Opening:
    low, high = find_range(position)
    step = 1 << (position.level - get_block(position.level))
    starts = [low + step * i for i in range(count)]
    labels = [formats.name(start) for start in starts]
    is_named = position.phase is Phase.TRACE and step == 1 and any(labels)
    return Opening(
        by=side,
        tree=position.phase.name.lower(),
        count=position.count,
        low=low,
        high=high,
        starts=starts,
        labels=labels if is_named else [],
    )


def _open_chunk(side: Side, after: Board, formats: Formats) -> Opening:
    width = after.facts.width
    low = after.position.index * (CHUNK_BYTES // width)
    values = _split(after.data, width, formats.element)
    return Opening(
        by=side,
        tree="chunk",
        count=after.facts.elements,
        low=low,
        high=low + len(values),
        starts=[low + i for i in range(len(values))],
        values=values,
    )


def _open_fold(side: Side, after: Board, formats: Formats) -> Opening:
    facts = after.facts
    return Opening(
        by=side,
        tree="fold",
        count=facts.fold_length,
        low=facts.low,
        high=facts.high,
        starts=[get_boundary(facts, segment) for segment in range(get_segments(facts))],
        values=_split(after.data, facts.bits_bytes, formats.accumulator),
    )


def _split(data: bytes, width: int, show: Show) -> list[Value]:
    pieces = [data[i : i + width] for i in range(0, len(data), width)]
    return [show(int.from_bytes(piece, "little")) for piece in pieces]
