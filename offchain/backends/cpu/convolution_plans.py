"""The choice of a plan for a contraction whose window slides over an image."""

from collections.abc import Callable, Sequence
from math import inf

from moot.offchain.backends.cpu.convolutions import Convolution
from moot.offchain.backends.cpu.line_convolutions import LineConvolution
from moot.offchain.backends.cpu.sliding import find_sliding
from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Node

_LEAST_SAVED = 128
"""Terms of an element, on average, that are worth parts for a border."""


def plan_convolution(
    node: Node, fall_back: Callable[[Sequence[Array | None]], Array]
) -> Convolution | None:
    """Return the plan of a contraction that slides a window over an image, None for any other.

    Args:
        node: a contract node with a positive number of elements and of fold steps.
        fall_back: returns the output computed in another way, from the tensors of init, a and b.
    """
    fine, coarse = (find_sliding(node, least_saved) for least_saved in (_LEAST_SAVED, inf))
    if fine is None or coarse is None:
        return None
    lines = LineConvolution(node, coarse, fall_back)
    if lines.is_fit():
        return lines
    plan = Convolution(node, coarse, fall_back)
    if not plan.is_fit():
        return None
    return plan if fine == coarse else Convolution(node, fine, lambda flats: plan.run(flats, 0))
