"""The residues of products: where those of a block's tile go, and how sums become such."""

from collections.abc import Iterable, Sequence

from llvmlite import ir

from moot.offchain.backends.cuda.exact import tiles
from moot.offchain.backends.cuda.exact.residues import Cut
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.tensor.outputs import Element, Tiles
from moot.offchain.native.vectors import BYTE, INDEX, WORD

_BITS = 32
_LARGEST = tiles.STEPS_AT_ONCE << 14
"""No sum has a larger magnitude, but for a residue that it began with."""


def list_divisors(moduli: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return for each modulus itself, a multiple that makes sums positive, and a reciprocal.

    A sum and that multiple are a number x below 2^31 + 2^10. With e below m, the reciprocal is
    (2^32 + e) / m, so that x times it is x / m in units of 2^-32, and at most x e / (2^32 m) more,
    which is less than 1: its whole part is the quotient, or one more than that.
    """
    return [(m, -(-_LARGEST // m) * m, -(-(1 << _BITS) // m)) for m in moduli]


class Residues(Tiles):
    """The residues of products in tiles, (moduli, batches, rows, columns) bytes.

    A kernel's last parameter is how many batches there are.

    Args:
        cuts: both factors.
        sides: the rows and columns of a tile.
    """

    parameters = 1

    def __init__(self, cuts: tuple[Cut, Cut], sides: tuple[int, int]) -> None:
        super().__init__((cuts[0].rows, cuts[1].rows), sides)
        self._moduli = cuts[0].moduli
        self._is_long = cuts[0].steps > tiles.STEPS_AT_ONCE

    def start(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Set sums to zeros, or to the residues at an address, if there are sums of more steps."""
        builder, every = context.builder, list(elements)
        for element in every:
            context.set_cell(element.cell, INDEX(0))
        if not self._is_long:
            return
        with builder.if_then(builder.icmp_unsigned("!=", address, word(0))):
            matrix, firsts = self._place(context)
            for element in every:
                at, _ = self.find(context, firsts, element)
                offset = self._locate(context, matrix, at)
                found = context.load(BYTE, builder.add(address, offset))
                context.set_cell(element.cell, builder.zext(found, INDEX))

    def store(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Store what is left of sums by the block's modulus."""
        builder = context.builder
        matrix, firsts = self._place(context)
        divisor = self._find_divisor(context, builder.udiv(matrix, context.parameters[-1]))
        for element in elements:
            at, is_inside = self.find(context, firsts, element)
            with builder.if_then(is_inside):
                rest = _divide(builder, context.get_cell(element.cell, INDEX), divisor)
                place = builder.add(address, self._locate(context, matrix, at))
                context.store(builder.trunc(rest, BYTE), place)

    def _place(self, context: Context) -> tuple[ir.Value, list[ir.Value]]:
        """Return the block's matrix, and the first row and column of its tile."""
        matrix, tile = self.place(context)
        return matrix, self.find_firsts(context, tile)

    def _locate(self, context: Context, matrix: ir.Value, at: Sequence[ir.Value]) -> ir.Value:
        """Return how many bytes a residue is behind the first."""
        builder, (rows, columns) = context.builder, self._sizes
        row = builder.add(builder.mul(matrix, word(rows)), at[0])
        return builder.add(builder.mul(row, word(columns)), at[1])

    def _find_divisor(self, context: Context, number: ir.Value) -> list[ir.Value]:
        """Return a modulus of a number, its multiple and its reciprocal."""
        builder = context.builder
        found: list[ir.Value] = [INDEX(0)] * 3
        for index, numbers in enumerate(list_divisors(self._moduli)):
            is_this = builder.icmp_unsigned("==", number, word(index))
            pairs = zip(numbers, found, strict=True)
            found = [builder.select(is_this, INDEX(new), old) for new, old in pairs]
        return found


def _divide(builder: ir.IRBuilder, total: ir.Value, divisor: Sequence[ir.Value]) -> ir.Value:
    """Return what is left of a sum, from 0 to below the modulus."""
    modulus, multiple, reciprocal = divisor
    positive = builder.add(total, multiple)
    wide = builder.mul(*(builder.zext(x, WORD) for x in (positive, reciprocal)))
    quotient = builder.trunc(builder.lshr(wide, word(_BITS)), INDEX)
    rest = builder.sub(positive, builder.mul(quotient, modulus))
    is_negative = builder.icmp_signed("<", rest, INDEX(0))
    return builder.select(is_negative, builder.add(rest, modulus), rest)
