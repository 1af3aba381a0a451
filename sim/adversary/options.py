"""The moves of an adversary within a match: what its scripts say, and what nobody honest would do.

Each is a call that the referee may refuse. What is refused is no move, and no game.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from moot.contracts.model.types import Dive, Facts, Terms
from moot.contracts.model.verdicts import get_boundary, get_segments
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.disputes.play.descents import split
from moot.offchain.disputes.play.players import Move, decide, find_move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.providers.testimony import Testimony

FORCED = frozenset({"descend", "enter_tensor", "enter_state", "reach_chunk"})
"""Moves that existing commitments determine, which anybody may make for a side."""
_MOST_SEGMENTS = 3


def list_moves(
    scripts: Sequence[Testimony], terms: Terms, board: Board, side: int
) -> tuple[Move, ...]:
    """Return the moves that a side can make by any of its scripts, and variations of them."""
    found: list[Move] = []
    for script in scripts:
        move = find_move(script, terms, board, side)
        if move is not None and move not in found:
            found.append(move)
    variations = [other for move in found for other in _vary(side, move)]
    return tuple(dict.fromkeys([*found, *variations]))


def list_forged(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return moves that say of the other side's tree what is not so; a sound referee takes none."""
    return tuple(forged for move in moves for forged in _forge(move))


def list_decisions(runs: Sequence[Testimony], board: Board) -> tuple[Move, ...]:
    """Return the calls that end a match at a leaf, by the trees of either side.

    Args:
        runs: all testimonies that somebody at the table has.
        board: the match, at a leaf.
    """
    facts = board.facts
    found = [
        decide(run, board, side)
        for side, top in enumerate(facts.traces)
        for run in runs
        if run.trace(facts.step).top == top
    ]
    return tuple(dict.fromkeys(found))


def _vary(side: int, move: Move) -> Iterator[Move]:
    """Yield moves like one in which something else is said that nothing before has fixed."""
    match move.call, move.args:
        case "pick_element", (facts, theirs, mine, bytes(values)) if values:
            yield Move("pick_element", (facts, theirs, mine, _blur(values)))
            yield Move("pick_element", (facts, theirs, mine, bytes(len(values))))
        case "pick_segment", (Facts() as facts, bytes(theirs), int(own), int(bits), bytes(values)):
            if values:
                yield Move("pick_segment", (facts, theirs, own, bits, _blur(values)))
            yield from _vary_segment(facts, theirs, own, side)


def _vary_segment(facts: Facts, theirs: bytes, own: int, side: int) -> Iterator[Move]:
    """Yield picks of other segments, and of what else they could end with."""
    segments, width = get_segments(facts), facts.bits_bytes
    shown = [int.from_bytes(piece, "little") for piece in split(theirs, width)]
    others = [own, 0, segments - 1, segments // 2]
    for segment in dict.fromkeys(others[: 1 + _MOST_SEGMENTS]):
        low, high = get_boundary(facts, segment), get_boundary(facts, segment + 1)
        inner = replace(facts, low=low, high=high)
        size = 0 if high - low <= 1 else (get_segments(inner) - 1) * width
        is_last = segment + 1 == segments
        ends = [facts.bits[side]] if is_last else [shown[segment] ^ 1, 0]
        for bits in ends:
            values = keccak256(bytes([segment]))[:1] * size
            yield Move("pick_segment", (facts, theirs, segment, bits, values))


def _blur(values: bytes) -> bytes:
    """Return other accumulators of the same length."""
    random = Random(values)  # noqa: S311 - not a secret
    place = random.randrange(len(values))
    return values[:place] + bytes([values[place] ^ 1]) + values[place + 1 :]


def _forge(move: Move) -> Iterator[Move]:
    for place, arg in enumerate(move.args):
        if isinstance(arg, Dive) and arg.siblings:
            made_up = replace(arg, node=keccak256(arg.node))
            yield Move(move.call, (*move.args[:place], made_up, *move.args[place + 1 :]))
