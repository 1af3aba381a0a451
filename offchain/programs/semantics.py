"""What every operator kind computes, element by element: the specification of a program's meaning.

`compute_step` is one move of one element: the whole element of a kind that does not fold, or one
accumulator of a kind that does. It asks for the operands' elements through `fetch`, so the same
function serves the readable executor (which has the tensors), the referee's model (which has
proofs of the elements) and the bounded verifier. Nothing here is fast.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from offchain.arithmetic.evaluate import evaluate
from offchain.arithmetic.functions import DType, Function
from offchain.arithmetic.philox import uniform_bits
from offchain.programs.graph import Kind, Node, Operand, Origin


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


def compute_initial(node: Node, element: int, fetch: Fetch) -> int:
    """Return a fold's accumulator before its first step."""
    variables = unravel(element, node.shape) + [0] * len(node.fold_shape)
    return read(0, node.operands[0], variables, fetch)


def compute_step(
    node: Node, element: int, position: int, before: int, step: int, fetch: Fetch
) -> int:
    """Return an output element, or of a fold the accumulator after fold step `position`.

    Args:
        node: the operator.
        element: linear index of the output element.
        position: fold step in [0, fold_length); ignored by kinds that do not fold.
        before: bits of the accumulator before that step; ignored likewise.
        step: number of the training step, which random operators depend on.
        fetch: reads the operands' elements.
    """
    variables = unravel(element, node.shape)
    if node.kind.folds:
        variables += unravel(position, node.fold_shape)
    return _STEPS[node.kind](node, variables, element, position, before, step, fetch)


def compute_element(node: Node, element: int, step: int, fetch: Fetch) -> int:
    """Return an output element's bits."""
    if not node.kind.folds:
        return compute_step(node, element, 0, 0, step, fetch)
    accumulator = compute_initial(node, element, fetch)
    for position in range(node.fold_length):
        accumulator = compute_step(node, element, position, accumulator, step, fetch)
    return accumulator


def compute_partials(node: Node, element: int, step: int, fetch: Fetch) -> list[int]:
    """Return the fold_length + 1 accumulators of one element, the initial one first."""
    partials = [compute_initial(node, element, fetch)]
    for position in range(node.fold_length):
        partials.append(compute_step(node, element, position, partials[-1], step, fetch))
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


def _map(node: Node, variables: list[int], _e: int, _p: int, _b: int, _s: int, fetch: Fetch) -> int:
    values = [read(i, operand, variables, fetch) for i, operand in enumerate(node.operands)]
    types = [operand.dtype for operand in node.operands]
    return evaluate(node.function, types, node.dtype, values)


def _contract(
    node: Node, variables: list[int], _e: int, _p: int, before: int, _s: int, fetch: Fetch
) -> int:
    a = read(1, node.operands[1], variables, fetch)
    b = read(2, node.operands[2], variables, fetch)
    return evaluate(Function.FMA, (node.dtype,) * 3, node.dtype, (a, b, before))


def _reduce(
    node: Node, variables: list[int], _e: int, position: int, before: int, _s: int, fetch: Fetch
) -> int:
    operand = node.operands[1]
    value = read(1, operand, variables, fetch)
    if node.function not in (Function.ARGMAX, Function.ARGMIN):
        return evaluate(node.function, (node.dtype,) * 2, node.dtype, (before, value))
    if before >= node.fold_length:
        return position
    at_best = variables[: len(node.shape)] + unravel(before, node.fold_shape)
    best = read(BEST_PLACE, operand, at_best, fetch)
    return position if is_better(node.function, operand.dtype, value, best) else before


def _move(
    node: Node, variables: list[int], _e: int, _p: int, _b: int, _s: int, fetch: Fetch
) -> int:
    for place, operand in enumerate(node.operands):
        if operand.origin is Origin.IMMEDIATE or operand.index(variables) is not None:
            return read(place, operand, variables, fetch)
    return node.operands[-1].value


def _gather(
    node: Node, variables: list[int], _e: int, _p: int, _b: int, _s: int, fetch: Fetch
) -> int:
    data, *indices = node.operands
    values = [
        signed(read(1 + i, operand, variables, fetch), operand.dtype)
        for i, operand in enumerate(indices)
    ]
    return read(0, data, variables + values, fetch)


def _scatter(
    node: Node, variables: list[int], _e: int, _p: int, before: int, _s: int, fetch: Fetch
) -> int:
    if not is_matching(node, variables, fetch):
        return before
    value = read(1, node.operands[1], variables, fetch)
    if node.function is Function.COPY:
        return value
    return evaluate(node.function, (node.dtype,) * 2, node.dtype, (before, value))


def _random(node: Node, _v: list[int], element: int, _p: int, _b: int, step: int, _f: Fetch) -> int:
    return uniform_bits(node.seed, step, node.stream, element)


_Step = Callable[[Node, list[int], int, int, int, int, Fetch], int]
_STEPS: dict[Kind, _Step] = {
    Kind.MAP: _map,
    Kind.CONTRACT: _contract,
    Kind.REDUCE: _reduce,
    Kind.MOVE: _move,
    Kind.GATHER: _gather,
    Kind.SCATTER: _scatter,
    Kind.RANDOM: _random,
    Kind.SOURCE: _move,
    Kind.SINK: _move,
}
