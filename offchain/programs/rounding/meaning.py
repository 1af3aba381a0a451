"""The meaning of a rounding log's entry: the definition, element by element; nothing here is fast.

Only operators that round and that stock binary64 may round otherwise can have entries: sums of
floats, and transcendental functions. (Sums, products, quotients and square roots of two binary32
numbers come out right when they are computed in binary64 and rounded again.)
"""

from collections.abc import Sequence

from moot.offchain.arithmetic.exact import is_sum
from moot.offchain.arithmetic.logged import LOGGED, band
from moot.offchain.arithmetic.logged.band import choose_function, choose_sum
from moot.offchain.programs.graph import Kind, Node
from moot.offchain.programs.semantics import (
    Fetch,
    compute_element,
    is_matching,
    read,
    unravel,
)

_SPARE_ENTRIES = 16
_ELEMENTS_PER_ENTRY = 256


def is_loggable(node: Node) -> bool:
    """Whether elements of an operator may have entries."""
    if node.elements == 0:
        return False
    if node.kind is Kind.MAP:
        return node.function.is_transcendental
    return node.kind.folds and node.fold_length > 0 and is_sum(node.function, node.dtype)


def count_allowed(node: Node) -> int:
    """Return how many entries an operator may have; what is doubtful besides is decided exactly."""
    if not is_loggable(node):
        return 0
    return min(node.elements, _SPARE_ENTRIES + node.elements // _ELEMENTS_PER_ENTRY)


def compute_logged_element(
    node: Node, element: int, step: int, fetch: Fetch, *, up: bool | None
) -> int:
    """Return an element's bits, given the direction of its entry, None if it has none."""
    turned = None if up is None else apply_entry(node, element, fetch, up=up)
    return compute_element(LOGGED, node, element, step, fetch) if turned is None else turned


def apply_entry(node: Node, element: int, fetch: Fetch, *, up: bool) -> int | None:
    """Return what the entry of an element of a loggable operator makes of it; None if it is void.

    Args:
        node: the operator.
        element: linear index of the element.
        fetch: reads the operands' elements.
        up: the direction of the entry.
    """
    variables = unravel(element, node.shape)
    if node.kind is Kind.MAP:
        operands = [read(i, operand, variables, fetch) for i, operand in enumerate(node.operands)]
        return choose_function(node.function, operands, up=up)
    folded = [0] * len(node.fold_shape)
    initial = read(0, node.operands[0], variables + folded, fetch)
    terms = _read_terms(node, variables, fetch)
    additions = len(terms) + 1 if node.kind is Kind.SCATTER else band.depth(len(terms) + 1)
    return choose_sum(initial, terms, additions, up=up)


def _read_terms(node: Node, variables: Sequence[int], fetch: Fetch) -> list[list[int]]:
    """Return the bits of the terms of a sum: two factors each, or one number."""
    terms = []
    places = (1, 2) if node.kind is Kind.CONTRACT else (1,)
    for position in range(node.fold_length):
        here = [*variables, *unravel(position, node.fold_shape)]
        if node.kind is not Kind.SCATTER or is_matching(node, here, fetch):
            terms.append([read(place, node.operands[place], here, fetch) for place in places])
    return terms
