"""Functions of full values along a row, where quotients by what is the same for it are products."""

from collections.abc import Iterable, Mapping, Sequence

from llvmlite import ir

from moot.offchain.arithmetic.functions import Function
from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.native import division, emit
from moot.offchain.planning.region import Apply


def prepare_divisors(
    frame: Frame, reached: Iterable[int], same: Mapping[int, ir.Value], width: int
) -> dict[int, division.Divisor]:
    """Look at the divisors of a row whose quotients are worth it, by their values' places.

    Args:
        frame: the kernel's frame.
        reached: the values that a pass computes or reads.
        same: the vectors of those that are the same for the whole row.
        width: lanes of the pass's vectors.
    """
    region, builder = frame.region, frame.builder
    if not division.is_worth(width, region.columns):
        return {}
    applied = [v for index in reached if isinstance(v := region.values[index], Apply)]
    divisors = {v.arguments[1] for v in applied if v.function is Function.DIV}
    return {i: division.prepare(builder, same[i]) for i in sorted(divisors & same.keys())}


def apply(
    frame: Frame,
    value: Apply,
    arguments: Sequence[ir.Value],
    divisors: Mapping[int, division.Divisor],
) -> ir.Value:
    """A vector of a function's results, given those of its arguments and a row's divisors."""
    divisor = divisors.get(value.arguments[-1]) if value.function is Function.DIV else None
    if divisor is not None:
        return division.divide(frame.builder, arguments[0], divisor)
    types = [frame.region.values[i].dtype for i in value.arguments]
    return emit.emit(frame.builder, value.function, types, value.dtype, arguments)
