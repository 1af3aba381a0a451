"""The end of an exact product: sums from their residues, with initial terms, rounded where known.

A sum of whole numbers comes out of its residues without any error. It is off by what was cut off
of its factors alone, and both ends of that band mostly round to one number. Where they do not,
where a factor has no numbers, or where 128 bits do not hold the initial term beside the sum, the
thread adds the element's terms up one by one (`sums.py`).
"""

from collections.abc import Sequence
from functools import reduce
from math import prod

from llvmlite import ir

from moot.offchain.backends.cuda.elements import Variable, ravel, read, unravel, write
from moot.offchain.backends.cuda.exact.residues import (
    BITS,
    EXPONENT,
    NO_NUMBER,
    Cut,
    get_significand,
    load_info,
)
from moot.offchain.backends.cuda.exact.rounding import WIDE, round_signed, wide
from moot.offchain.backends.cuda.exact.sums import OWN_BYTES, add_up
from moot.offchain.backends.cuda.kernel import Context, Kernel, word
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tiling import Split
from moot.offchain.native import vectors
from moot.offchain.native.vectors import BYTE, DOUBLE, INDEX, WORD
from moot.offchain.programs.graph import Node, Operand

_PARAMETERS = 9
_ROOM = 126
"""The bits of a magnitude."""

_SIGNIFICAND_BITS, _LEAST_EXPONENT = 24, 150


class Layout(Matrices):
    """A contraction as batches of products of matrices that are cut.

    Args:
        node: the contraction.
        split: which variables are those of rows, columns and batches.
        parts: the rows of the parts of both factors; None where these are in no parts.

    Attributes:
        cuts: the layouts of both factors.
    """

    def __init__(self, node: Node, split: Split, parts: tuple[int, int] | None = None) -> None:
        super().__init__(node, split)
        (rows, columns), steps = self.sides, node.fold_length
        first, second = parts or (None, None)
        self.cuts = Cut(rows, steps, first), Cut(columns, steps, second)


def _read(
    context: Context, operand: Operand, variables: Sequence[Variable], address: ir.Value
) -> ir.Value:
    found = read(context, operand, variables, address)
    return context.builder.extract_element(found, INDEX(0))


def make_kernel(node: Node, layout: Layout) -> Kernel:
    """Return the kernel that finishes products, a thread for each element.

    Parameters are the addresses of the output, of the tensors of the initial terms and of both
    factors, of the residues of the products and of what is known of both factors' rows, the number
    of the first batch, and how many elements there are.
    """

    def phase(context: Context) -> None:
        builder = context.builder
        first = builder.mul(context.block, word(Kernel("", 0, ()).threads))
        number = builder.add(first, context.thread)
        with builder.if_then(builder.icmp_unsigned("<", number, context.parameters[-1])):
            _Element(context, node, layout, number).finish()

    return Kernel("finish_products", _PARAMETERS, (phase,), own_bytes=OWN_BYTES)


class _Element:
    """Writes what the thread of an element does."""

    def __init__(self, context: Context, node: Node, layout: Layout, number: ir.Value) -> None:
        builder = context.builder
        self._context, self._node, self._layout, self._number = context, node, layout, number
        width, height = (word(cut.rows) for cut in reversed(layout.cuts))
        column, line = builder.urem(number, width), builder.udiv(number, width)
        row, batch = builder.urem(line, height), builder.udiv(line, height)
        self._lines = line, builder.add(builder.mul(batch, width), column)
        batch = builder.add(batch, context.parameters[-2])
        self._variables = layout.find_variables(context, batch, row, column)
        nothing = [Variable(word(0), 0, 0)] * len(node.fold_shape)
        variables = [*self._variables, *nothing]
        self._start = _read(context, node.operands[0], variables, context.parameters[1])

    def finish(self) -> None:
        """Store the element."""
        context, builder, node = self._context, self._context.builder, self._node
        quick, is_known = self._round()
        before = builder.block
        with builder.if_then(builder.not_(is_known)):
            start = builder.fpext(self._start, DOUBLE)
            slow = add_up(context, start, node.fold_length, self._get_term)
            inside = builder.block
        found = builder.phi(quick.type)
        found.add_incoming(quick, before)
        found.add_incoming(slow, inside)
        linear = ravel(context, (it.value for it in self._variables), node.shape)
        value = vectors.splat(builder, found, 1)
        write(context, node.dtype, value, context.parameters[0], linear)

    def _get_term(self, step: ir.Value) -> ir.Value:
        context, builder, node = self._context, self._context.builder, self._node
        variables = [*self._variables, *unravel(context, step, node.fold_shape)]
        a, b = (
            builder.fpext(_read(context, operand, variables, address), DOUBLE)
            for operand, address in zip(node.operands[1:], context.parameters[2:4], strict=True)
        )
        return builder.fmul(a, b)

    def _round(self) -> tuple[ir.Value, ir.Value]:
        """Return the element as its band has it, and whether that is known."""
        context, builder = self._context, self._context.builder
        (field, lost), (other, also) = (
            load_info(context, address, line)
            for address, line in zip(context.parameters[5:7], self._lines, strict=True)
        )
        exponent = builder.sub(builder.add(field, other), word(2 * EXPONENT))
        total, band, exponent, fits = self._start_from(
            self._add_residues(), builder.add(lost, also), exponent
        )
        low, high = (
            round_signed(builder, end, exponent)
            for end in (builder.sub(total, band), builder.add(total, band))
        )
        bits, others = builder.bitcast(low, INDEX), builder.bitcast(high, INDEX)
        is_zero = builder.icmp_unsigned("==", builder.shl(bits, INDEX(1)), INDEX(0))
        starts_below = builder.icmp_signed("<", builder.bitcast(self._start, INDEX), INDEX(0))
        known = [
            fits,
            builder.icmp_unsigned("==", bits, others),
            builder.not_(builder.and_(is_zero, starts_below)),
            builder.icmp_unsigned("!=", field, word(NO_NUMBER)),
            builder.icmp_unsigned("!=", other, word(NO_NUMBER)),
        ]
        return low, reduce(builder.and_, known)

    def _add_residues(self) -> ir.Value:
        """Return the sum of products that has the residues which are stored."""
        context, builder = self._context, self._context.builder
        moduli = self._layout.cuts[0].moduli
        whole = prod(moduli)
        place, total = builder.add(context.parameters[4], self._number), wide(0)
        for modulus in moduli:
            rest = builder.zext(context.load(BYTE, place), INDEX)
            others = whole // modulus
            factor = INDEX(pow(others, -1, modulus))
            rest = builder.urem(builder.mul(rest, factor), INDEX(modulus))
            total = builder.add(total, builder.mul(builder.zext(rest, WIDE), wide(others)))
            place = builder.add(place, context.parameters[-1])
        for power in (8, 4, 2, 1):
            is_beyond = builder.icmp_unsigned(">=", total, wide(power * whole))
            total = builder.select(is_beyond, builder.sub(total, wide(power * whole)), total)
        is_negative = builder.icmp_unsigned(">", total, wide(whole // 2))
        return builder.select(is_negative, builder.sub(total, wide(whole)), total)

    def _start_from(
        self, total: ir.Value, lost: ir.Value, exponent: ir.Value
    ) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
        """Return the sum with the initial term, its band, their unit's exponent; if they fit."""
        builder = self._context.builder
        bits = builder.bitcast(self._start, INDEX)
        start, field = get_significand(builder, bits)
        is_finite = builder.icmp_unsigned("!=", field, INDEX(NO_NUMBER))
        own = builder.sub(builder.zext(field, WORD), word(_LEAST_EXPONENT))
        is_nothing = builder.icmp_unsigned("==", start, word(0))
        above = builder.select(is_nothing, word(0), builder.sub(own, exponent))
        is_above = builder.icmp_signed(">=", above, word(0))
        up = builder.select(is_above, above, word(0))
        down = builder.select(is_above, word(0), builder.neg(above))
        most_up = _ROOM - _SIGNIFICAND_BITS - 1
        most_down = _ROOM - 1 - prod(self._layout.cuts[0].moduli).bit_length()
        fits = builder.and_(
            builder.icmp_signed("<=", up, word(most_up)),
            builder.icmp_signed("<=", down, word(most_down)),
        )
        up, down = (builder.zext(builder.select(fits, x, word(0)), WIDE) for x in (up, down))
        total = builder.add(builder.shl(total, down), builder.shl(builder.sext(start, WIDE), up))
        band = builder.shl(builder.zext(lost, WIDE), builder.add(down, wide(BITS)))
        exponent = builder.sub(exponent, builder.trunc(down, WORD))
        return total, band, exponent, builder.and_(fits, is_finite)
