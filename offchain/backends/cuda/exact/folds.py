"""Folds that add floats in `exact`, one thread for each element."""

from functools import cache

from llvmlite import ir

from moot.offchain.backends.cuda.elements import read, unravel
from moot.offchain.backends.cuda.exact.sums import MOST_TERMS, OWN_BYTES, add_up
from moot.offchain.backends.cuda.kernel import Context, Kernel
from moot.offchain.backends.cuda.operators import (
    address,
    begin,
    count_parameters,
    finish,
    guard,
    reaches,
)
from moot.offchain.errors import ProgramError
from moot.offchain.native import vectors
from moot.offchain.native.vectors import DOUBLE, INDEX
from moot.offchain.programs.graph import Kind, Node


@cache
def make_kernel(node: Node) -> Kernel:
    """Return the kernel of a sum with a positive number of elements and of fold steps.

    Raises:
        ProgramError: it has too many terms.
    """
    if node.fold_length > MOST_TERMS:
        raise ProgramError(f"a sum has {node.fold_length} terms, above 2^30; use the cpu")
    name, count = f"{node.kind.name.lower()}_exactly", count_parameters(node)
    return Kernel(name, count, (guard(node, _sum),), own_bytes=OWN_BYTES)


def _sum(context: Context, node: Node, number: ir.Value) -> None:
    """Add up what one element is."""
    builder, variables = context.builder, unravel(context, number, node.shape)

    def get_term(step: ir.Value) -> ir.Value:
        at = [*variables, *unravel(context, step, node.fold_shape)]
        count = 3 if node.kind is Kind.CONTRACT else 2
        factors = [
            _widen(context, read(context, node.operands[place], at, address(context, place)))
            for place in range(1, count)
        ]
        if node.kind is Kind.SCATTER:
            nothing = ir.Constant(DOUBLE, -0.0)
            return builder.select(reaches(context, node, at), factors[0], nothing)
        return builder.fmul(*factors) if len(factors) > 1 else factors[0]

    start = _widen(context, begin(context, node, variables))
    found = add_up(context, start, node.fold_length, get_term)
    finish(context, node, vectors.splat(builder, found, 1), number)


def _widen(context: Context, value: ir.Value) -> ir.Value:
    """Return the one lane of a vector as a number of binary64."""
    return context.builder.fpext(context.builder.extract_element(value, INDEX(0)), DOUBLE)
