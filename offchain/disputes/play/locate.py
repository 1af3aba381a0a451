"""The finding of a dispute: the step, the operator, the element and the scalar operation."""

from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model.types import Facts
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tags import CHUNK_BYTES
from moot.offchain.commitments.tensors import encode_elements, get_chunk_count
from moot.offchain.disputes.play.descents import find_difference, split
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.play.tournament import Ended
from moot.offchain.disputes.referee.board import get_place
from moot.offchain.programs.graph import Kind, Origin
from moot.offchain.programs.semantics import finish, get_fold
from moot.offchain.providers.testimony import Testimony

_BEFORE_STEP = frozenset({Phase.HISTORY, Phase.INTERVAL})
_AT_OPERATOR = frozenset({Phase.TENSOR, Phase.CHUNK, Phase.FOLD, Phase.LEAF, Phase.VERIFIER})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar operation: operands, claimed and correct result as bit patterns.

    Attributes:
        function: such as `fma`.
        operands: as bits; those of a float32 as its IEEE 754 encoding.
        claimed: what the liar says.
        correct: what it is.
        width: bytes of the results.
        words: what the claimed and the correct one are, for people, where they are no elements.

    Example:
        >>> import moot
        >>> moot.Scalar("add", (0x3F800000, 0), 0x3F800001, 0x3F800000, 4).to_dict()["claimed"]
        '0x3f800001'
    """

    function: str
    operands: tuple[int, ...]
    claimed: int
    correct: int
    width: int
    words: tuple[str, str] | None = None

    def __str__(self) -> str:
        """Return the operation as a line: bit patterns in hexadecimal."""
        shown = self.to_dict()
        operands = ", ".join(shown["operands"])
        return f"{self.function}({operands}) = {shown['correct']}, claimed {shown['claimed']}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; bit patterns are hexadecimal."""
        digits = 2 * self.width
        words = {} if self.words is None else {"words": list(self.words)}
        return words | {
            "function": self.function,
            "operands": [f"0x{bits:08x}" for bits in self.operands],
            "claimed": f"0x{self.claimed:0{digits}x}",
            "correct": f"0x{self.correct:0{digits}x}",
        }


@dataclass(frozen=True, slots=True)
class Located:
    """The place at which a lie was found; fields below the dispute's last stage are None."""

    step: int | None = None
    operator: int | None = None
    element: int | None = None
    fold_index: int | None = None
    scalar: Scalar | None = None


def locate(game: Game, ended: Ended, side: int) -> Located:
    """Return the finding of a match that is over, about the side that lost it."""
    board, place = ended.board, get_place(ended.board)
    phase = board.position.phase
    if phase in _BEFORE_STEP:
        return Located()
    if phase not in _AT_OPERATOR:
        return Located(place.step)
    players = [game.find_player(member) for member in (board.pair.first, board.pair.second)]
    liar, rival = players[side], players[1 - side]
    if phase not in {Phase.LEAF, Phase.VERIFIER} or liar is None or rival is None:
        return Located(place.step, place.operator)
    if phase is Phase.VERIFIER:
        runs = (liar.run, rival.run) if side == 0 else (rival.run, liar.run)
        narrowed = narrow(place, rival.run, runs)
        if narrowed is None:
            return Located(place.step, place.operator)
        place = narrowed
    return locate_scalar(place, rival.run, side, is_finished=phase is Phase.VERIFIER)


def narrow(place: Facts, judge: Testimony, runs: tuple[Testimony, Testimony]) -> Facts | None:
    """Carry a match that ended at a whole operator on to the first element that differs.

    None differs where a side has claimed a root that is not that of its own output.

    Args:
        place: what the match has found out.
        judge: the run whose accumulators are taken for the right ones.
        runs: those of the two sides.
    """
    node = judge.task.program.nodes[place.operator]
    tensors = [run.tensor(place.step, Origin.NODE, place.operator) for run in runs]
    chunks = range(get_chunk_count(node.dtype, node.elements))
    index = find_difference(*(map(tensor.chunk, chunks) for tensor in tensors))
    if index is None:
        return None
    size = node.dtype.width
    values = [split(tensor.chunk(index), size) for tensor in tensors]
    differing = find_difference(*values)
    assert differing is not None, "the chunks differ"
    element = index * (CHUNK_BYTES // size) + differing
    bits = [int.from_bytes(each[differing], "little") for each in values]
    low, low_bits = 0, 0
    if node.kind.folds and node.fold_length:
        low = node.fold_length - 1
        partials = judge.partials(place.step, place.operator, element)
        low_bits = int.from_bytes(encode_elements(partials[low : low + 1]).tobytes(), "little")
    return replace(
        place, element=element, low=low, high=low + 1, low_bits=low_bits, bits=(bits[0], bits[1])
    )


def locate_scalar(facts: Facts, judge: Testimony, side: int, *, is_finished: bool) -> Located:
    """Return the scalar operation of a match that has come down to one, and what a side claims.

    Claims are about the finished element, or about what the operation itself leaves.
    """
    program = judge.task.program
    node, leaf = program.nodes[facts.operator], make_leaf(judge, facts)
    function = Function.FMA if node.kind is Kind.CONTRACT else node.function
    is_step = node.kind.folds and facts.low < node.fold_length
    correct = leaf.result
    if is_step and is_finished:
        correct = finish(program.arithmetic, node, correct)
    is_wide = is_step and not is_finished and program.arithmetic.accumulator_bytes is not None
    claimed = facts.bits[side]
    words = None
    if is_wide:
        fold = get_fold(program.arithmetic, node)
        words = (fold.describe(claimed), fold.describe(correct))
    scalar = Scalar(
        function=function.name.lower() if is_step or not node.kind.folds else "finish",
        operands=leaf.arguments,
        claimed=claimed,
        correct=correct,
        width=facts.bits_bytes if is_step and not is_finished else node.dtype.width,
        words=words,
    )
    fold_index = facts.low if node.kind.folds else None
    return Located(facts.step, facts.operator, facts.element, fold_index, scalar)
