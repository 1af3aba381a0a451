"""What every operator kind computes, element by element: the specification of a program's meaning.

`compute_step` is one move of one element: the whole element of a kind that does not fold, or one
accumulator of a kind that does. It asks for the operands' elements through `fetch`, so the same
function serves the readable executor (which has the tensors), the referee's model (which has
proofs of the elements) and the bounded verifier. What a fold's accumulators are, the program's
arithmetic says. Nothing here is fast.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.programs.graph import Kind, Node, Operand, Origin


class Fetch(Protocol):
    """Reads one element of one operand.

    `place` is the position among the openings of a leaf: the operand's own position, except that
    argmax and argmin read the best element so far at place 2.
    """

    def __call__(self, place: int, operand: Operand, index: int) -> int:
        """Return the element's bits."""


BEST_PLACE = 2


def unravel(index: int, shape: Sequence[int]) -> list[int]:
    """Return the row-major coordinates of a linear index."""
    coordinates = []
    for size in reversed(shape):
        index, coordinate = divmod(index, size)
        coordinates.append(coordinate)
    return coordinates[::-1]


def signed(bits: int, dtype: DType) -> int:
    """Return the integer that an integer element's bits mean."""
    width = 8 * dtype.width
    return bits - (1 << width) if dtype is not DType.BOOL and bits >> (width - 1) else bits


def read(place: int, operand: Operand, variables: Sequence[int], fetch: Fetch) -> int:
    """Return an operand's bits at these variables: a constant, an element or the fill."""
    if operand.origin is Origin.IMMEDIATE:
        return operand.value
    index = operand.index(variables)
    return operand.value if index is None else fetch(place, operand, index)


def get_fold(arithmetic: Arithmetic, node: Node) -> Fold:
    """Return what a fold means in an arithmetic."""
    is_product = node.kind is Kind.CONTRACT
    return arithmetic.find_fold(node.function, node.operands[1].dtype if is_product else node.dtype)


def finish(arithmetic: Arithmetic, node: Node, accumulator: int) -> int:
    """Return the bits of an element, given what its last step has left."""
    return get_fold(arithmetic, node).finish(accumulator) if node.kind.folds else accumulator


def count_links(arithmetic: Arithmetic, node: Node) -> int:
    """Return the steps from the initial element of a fold to the folded one; 0 if nothing folds.

    They are those of the fold, and one more that finishes where that is a step of its own.
    """
    if not node.kind.folds:
        return 0
    return node.fold_length + (not get_fold(arithmetic, node).is_finished)


def compute_initial(arithmetic: Arithmetic, node: Node, element: int, fetch: Fetch) -> int:
    """Return a fold's accumulator before its first step."""
    variables = unravel(element, node.shape) + [0] * len(node.fold_shape)
    return get_fold(arithmetic, node).begin(read(0, node.operands[0], variables, fetch))


def compute_step(
    arithmetic: Arithmetic,
    node: Node,
    element: int,
    position: int,
    before: int,
    step: int,
    fetch: Fetch,
) -> int:
    """Return an output element, or of a fold the accumulator after fold step `position`.

    Args:
        arithmetic: the program's arithmetic.
        node: the operator.
        element: linear index of the output element.
        position: fold step in [0, fold_length), or fold_length to finish the fold; ignored by
            kinds that do not fold.
        before: the accumulator before that step; ignored likewise.
        step: number of the training step, which random operators depend on.
        fetch: reads the operands' elements.
    """
    variables = unravel(element, node.shape)
    if node.kind in _FOLDS:
        fold = get_fold(arithmetic, node)
        if position == node.fold_length:
            return fold.finish(before)
        variables += unravel(position, node.fold_shape)
        return _FOLDS[node.kind](fold, node, variables, position, before, fetch)
    return _ELEMENTS[node.kind](node, variables, element, step, fetch)


def compute_element(
    arithmetic: Arithmetic, node: Node, element: int, step: int, fetch: Fetch
) -> int:
    """Return an output element's bits."""
    if not node.kind.folds:
        return compute_step(arithmetic, node, element, 0, 0, step, fetch)
    *_, last = compute_partials(arithmetic, node, element, step, fetch)
    return finish(arithmetic, node, last)


def compute_partials(
    arithmetic: Arithmetic, node: Node, element: int, step: int, fetch: Fetch
) -> list[int]:
    """Return the fold_length + 1 accumulators of one element, the initial one first."""
    partials = [compute_initial(arithmetic, node, element, fetch)]
    for position in range(node.fold_length):
        place = (arithmetic, node, element, position, partials[-1], step, fetch)
        partials.append(compute_step(*place))
    return partials


def is_matching(node: Node, variables: Sequence[int], fetch: Fetch) -> bool:
    """Whether a scatter's source position lands on the output element."""
    return all(
        signed(read(2 + i, operand, variables, fetch), operand.dtype) == variables[target]
        for i, (operand, target) in enumerate(zip(node.operands[2:], node.targets, strict=True))
    )


def is_better(function: Function, dtype: DType, candidate: int, best: int) -> bool:
    """Whether argmax or argmin moves on to the candidate: NaN beats all numbers, the first wins."""
    compare = Function.GT if function is Function.ARGMAX else Function.LT
    types = (dtype, dtype)
    if evaluate(compare, types, DType.BOOL, (candidate, best)):
        return True
    return bool(
        evaluate(Function.NE, types, DType.BOOL, (candidate, candidate))
        and evaluate(Function.EQ, types, DType.BOOL, (best, best))
    )


def _map(node: Node, variables: list[int], _element: int, _step: int, fetch: Fetch) -> int:
    values = [read(i, operand, variables, fetch) for i, operand in enumerate(node.operands)]
    types = [operand.dtype for operand in node.operands]
    return evaluate(node.function, types, node.dtype, values)


def _contract(
    fold: Fold, node: Node, variables: list[int], _position: int, before: int, fetch: Fetch
) -> int:
    factors = [read(place, node.operands[place], variables, fetch) for place in (1, 2)]
    return fold.advance(before, factors)


def _reduce(
    fold: Fold, node: Node, variables: list[int], position: int, before: int, fetch: Fetch
) -> int:
    operand = node.operands[1]
    value = read(1, operand, variables, fetch)
    if node.function not in (Function.ARGMAX, Function.ARGMIN):
        return fold.advance(before, (value,))
    if before >= node.fold_length:
        return position
    at_best = variables[: len(node.shape)] + unravel(before, node.fold_shape)
    best = read(BEST_PLACE, operand, at_best, fetch)
    return position if is_better(node.function, operand.dtype, value, best) else before


def _move(node: Node, variables: list[int], _element: int, _step: int, fetch: Fetch) -> int:
    for place, operand in enumerate(node.operands):
        if operand.origin is Origin.IMMEDIATE or operand.index(variables) is not None:
            return read(place, operand, variables, fetch)
    return node.operands[-1].value


def _gather(node: Node, variables: list[int], _element: int, _step: int, fetch: Fetch) -> int:
    data, *indices = node.operands
    values = [
        signed(read(1 + i, operand, variables, fetch), operand.dtype)
        for i, operand in enumerate(indices)
    ]
    return read(0, data, variables + values, fetch)


def _scatter(
    fold: Fold, node: Node, variables: list[int], _position: int, before: int, fetch: Fetch
) -> int:
    if not is_matching(node, variables, fetch):
        return before
    value = read(1, node.operands[1], variables, fetch)
    if node.function is Function.COPY:
        return value
    return fold.advance(before, (value,))


def _random(node: Node, _variables: list[int], element: int, step: int, _fetch: Fetch) -> int:
    return uniform_bits(node.seed, step, node.stream, element)


_ELEMENTS: Mapping[Kind, Callable[[Node, list[int], int, int, Fetch], int]] = {
    Kind.MAP: _map,
    Kind.MOVE: _move,
    Kind.GATHER: _gather,
    Kind.RANDOM: _random,
    Kind.SOURCE: _move,
    Kind.SINK: _move,
}
"""(node, variables, element, step, fetch) -> the bits of an element that is not folded."""

_FOLDS: Mapping[Kind, Callable[[Fold, Node, list[int], int, int, Fetch], int]] = {
    Kind.CONTRACT: _contract,
    Kind.REDUCE: _reduce,
    Kind.SCATTER: _scatter,
}
"""(meaning, node, variables, fold step, accumulator before it, fetch) -> the one after it."""
