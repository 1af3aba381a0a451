"""Rules of softmax and log-softmax, composed so that their parts have names."""

# ruff: noqa: FBT001 - rules have the signatures of ATen's operators

from collections.abc import Mapping

from moot.offchain.arithmetic.functions import Function
from moot.offchain.frontend.lowering.builder import Builder, Rule
from moot.offchain.frontend.lowering.reductions import fold
from moot.offchain.frontend.lowering.views import View


def _shift(b: Builder, x: View, dim: int) -> tuple[View, View, View]:
    """Return x minus its maximum, the exponential of that, and the sum of those."""
    largest = fold(b, Function.MAX, x, dim, keepdim=True)
    shifted = b.map(Function.SUB, x, largest)
    exponential = b.map(Function.EXP, shifted)
    return shifted, exponential, fold(b, Function.ADD, exponential, dim, keepdim=True, part="sum")


def softmax(b: Builder, x: View, dim: int, _half_to_float: bool) -> View:
    """Lower _softmax."""
    _, exponential, total = _shift(b, x, dim)
    return b.map(Function.DIV, exponential, total)


def log_softmax(b: Builder, x: View, dim: int, _half_to_float: bool) -> View:
    """Lower _log_softmax."""
    shifted, _, total = _shift(b, x, dim)
    return b.map(Function.SUB, shifted, b.map(Function.LOG, total), part="result")


NORMALIZATION: Mapping[str, Rule] = {
    "aten._softmax.default": softmax,
    "aten._log_softmax.default": log_softmax,
}
"""ATen overload -> rule."""
