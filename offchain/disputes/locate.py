"""What a dispute has found: the step, the operator, the element and the scalar operation."""

from dataclasses import dataclass, replace

from contracts.model.types import ZERO, Match
from contracts.reasons import Phase
from offchain.arithmetic.functions import Function
from offchain.commitments.tensors import Array, encode_elements
from offchain.disputes.game import Ended, Game
from offchain.disputes.openings import make_leaf
from offchain.programs.graph import Kind
from offchain.providers.run import Run

_BEFORE_STEP = frozenset({Phase.HISTORY, Phase.ENTER_INTERVAL, Phase.INTERVAL})
_AT_OPERATOR = frozenset(
    {
        Phase.ENTER_OPERATOR,
        Phase.TENSOR,
        Phase.CHUNK,
        Phase.FOLD,
        Phase.LEAF,
        Phase.VERIFIER,
    }
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar operation: operands, claimed and correct result as bit patterns."""

    function: str
    operands: tuple[int, ...]
    claimed: int
    correct: int
    width: int


@dataclass(frozen=True, slots=True)
class Located:
    """Where a lie was found, as deep as the dispute went (None: not so deep)."""

    step: int | None = None
    operator: int | None = None
    element: int | None = None
    fold_index: int | None = None
    scalar: Scalar | None = None


def locate(game: Game, ended: Ended) -> Located:
    """Return what a match that is over has found out about its loser."""
    match = ended.match
    if match.phase in _BEFORE_STEP:
        return Located()
    if match.phase not in _AT_OPERATOR:
        return Located(match.step)
    if match.phase not in {Phase.LEAF, Phase.VERIFIER} or ended.loser is None:
        return Located(match.step, match.operator)
    assert ended.winner is not None
    honest, liar = game.players[ended.winner].run, game.players[ended.loser].run
    if match.encoding_digest == ZERO:
        match = narrow(match, honest, liar)
    return locate_scalar(match, honest, liar)


def narrow(match: Match, honest: Run, liar: Run) -> Match:
    """Carry a match that ended at a whole operator on to its first wrong element."""
    node = honest.task.program.nodes[match.operator]
    right, wrong = (_output(run, match) for run in (honest, liar))
    size = node.dtype.width
    pairs = zip(range(0, len(right), size), range(node.elements), strict=True)
    element = next(e for i, e in pairs if right[i : i + size] != wrong[i : i + size])
    low, low_bits = 0, 0
    if node.kind.folds and node.fold_length:
        low = node.fold_length - 1
        low_bits = _bits(honest.partials(match.step, match.operator, element), low)
    return replace(match, element=element, low=low, high=low + 1, low_bits=low_bits)


def locate_scalar(match: Match, honest: Run, liar: Run) -> Located:
    """Return the scalar operation of a match that has come down to one."""
    node = honest.task.program.nodes[match.operator]
    leaf = make_leaf(honest, match, lambda _: [])
    if node.kind.folds and node.fold_length:
        claimed = _bits(liar.partials(match.step, match.operator, match.element), match.low + 1)
    else:
        size, start = node.dtype.width, match.element * node.dtype.width
        claimed = int.from_bytes(_output(liar, match)[start : start + size], "little")
    function = Function.FMA if node.kind is Kind.CONTRACT else node.function
    scalar = Scalar(function.name.lower(), leaf.arguments, claimed, leaf.result, node.dtype.width)
    fold_index = match.low if node.kind.folds else None
    return Located(match.step, match.operator, match.element, fold_index, scalar)


def _output(run: Run, match: Match) -> bytes:
    outputs = run.outputs(match.step, [match.operator])
    return encode_elements(outputs[match.operator]).tobytes()


def _bits(partials: Array, index: int) -> int:
    return int.from_bytes(encode_elements(partials[index : index + 1]).tobytes(), "little")
