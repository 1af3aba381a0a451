"""The factors of an exact product as whole numbers, cut into bytes that tensor cores multiply.

A row of a factor is in units of its own: 2^40 of them are more than its largest element, so that an
element becomes a whole number of 40 bits, cut off where it has bits below the unit. Such a number
is kept as its residues by a few moduli, each a signed byte. Sums of products of residues are
residues of the sum of products, which the moduli tell apart from every other that there may be. So
12 products of bytes make a sum of 93 bits exactly, where 36 products of slices of 7 bits would.

What is cut off is at most one unit an element. A row knows how many of its elements lost something.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from math import gcd, prod
from operator import mul

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import COPIED_BYTES, Context, Kernel, word
from moot.offchain.backends.cuda.matrices import Read
from moot.offchain.backends.cuda.tensor.laying import Parts
from moot.offchain.native import vectors
from moot.offchain.native.vectors import BYTE, INDEX, WORD

BITS = 40
"""The bits of an element's magnitude."""

PIECE = 64
"""Bytes of a row are a multiple of this: zeros follow its elements."""

NO_NUMBER = 255
"""The exponent field of a row that has infinities or no numbers."""

EXPONENT = 126 + BITS
"""What is to be taken off a row's largest exponent field, for the exponent of its unit."""

_THREADS = 64
_INFO_BYTES = 8
_FRACTION_BITS, _BIT = 23, 1 << 23
_MOST_MODULI = 15


def _list_moduli() -> list[int]:
    """Return the largest numbers up to 256 that have no factors in common."""
    found: list[int] = []
    for number in range(256, 1, -1):
        if len(found) < _MOST_MODULI and all(gcd(number, other) == 1 for other in found):
            found.append(number)
    return found


_MODULI = _list_moduli()


def choose_moduli(steps: int) -> list[int]:
    """Return as few moduli as tell sums of so many products apart."""
    needed = 2 * steps << 2 * BITS
    products = accumulate(_MODULI, mul)
    return _MODULI[: next(number for number, p in zip(count(1), products) if p > needed)]


MOST_STEPS = prod(_MODULI[:13]) >> 2 * BITS + 1
"""The most terms whose sum and initial value fit into 128 bits."""

SOURCE = 2
"""The place of the parameter that is the address of a factor's tensor."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A factor's layout: for each modulus, batch and row, its residues, and zeros.

    Rows follow each other, or for warp groups they are in parts (`tensor/laying.py`), of which the
    last one may have rows that nobody stores and nobody wants the products of.

    Attributes:
        rows: of each batch.
        steps: the elements of a row.
        side: the rows of a part; None where rows follow each other.
    """

    rows: int
    steps: int
    side: int | None = None

    @property
    def parts(self) -> Parts | None:
        """The parts of a matrix, a modulus' residues of a batch; None where rows follow."""
        return None if self.side is None else Parts(1, self.rows, self.steps, self.side, width=1)

    @property
    def padded(self) -> int:
        """The bytes of a row."""
        piece = PIECE if self.parts is None else self.parts.depth
        return -(-self.steps // piece) * piece

    @property
    def piece_bytes(self) -> int:
        """The bytes from a piece, or a part, of some rows to their next one."""
        return PIECE if self.parts is None else self.parts.part_bytes

    @property
    def matrix_bytes(self) -> int:
        """The bytes of a matrix."""
        return self.rows * self.padded if self.parts is None else self.parts.size

    @property
    def moduli(self) -> list[int]:
        """What residues are of."""
        return choose_moduli(self.steps)

    def count_bytes(self, batches: int) -> int:
        """Return the size of all residues."""
        return len(self.moduli) * batches * self.matrix_bytes

    def locate(self, context: Context, line: ir.Value, step: ir.Value) -> ir.Value:
        """Return where a residue is among those of all batches, given its row's number there."""
        builder = context.builder
        if self.parts is None:
            return builder.add(builder.mul(line, word(self.padded)), step)
        batch, row = (f(line, word(self.rows)) for f in (builder.udiv, builder.urem))
        vector = self.parts.find_vector(context, batch, row, step)
        return builder.add(vector, builder.urem(step, word(COPIED_BYTES)))

    def count_info_bytes(self, batches: int) -> int:
        """Return the size of what is known of the rows."""
        return batches * self.rows * _INFO_BYTES


def load_info(context: Context, address: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return a row's largest exponent field, and how many elements lost something, of 64 bits."""
    builder = context.builder
    place = builder.add(address, builder.mul(row, word(_INFO_BYTES)))
    values = (context.load(INDEX, p) for p in (place, builder.add(place, word(4))))
    field, lost = (builder.zext(value, WORD) for value in values)
    return field, lost


def make_kernel(cut: Cut, read: Read) -> Kernel:
    """Return the kernel that cuts a factor, a block for each row.

    Parameters are the addresses of the residues, of what is known of the rows, and of the factor's
    tensor, the number of the first batch, and that of the batches.
    """
    writer = _Writer(cut, read)
    shared = 2 * _THREADS * 4
    return Kernel("cut_rows", 5, (writer.measure, writer.cut, writer.finish), _THREADS, shared)


class _Writer:
    """Writes the phases of the kernel."""

    def __init__(self, cut: Cut, read: Read) -> None:
        self._cut, self._read = cut, read

    def _read_bits(self, context: Context, step: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return the bits of an element, those of zero behind the last one, and whether it is."""
        builder = context.builder
        is_there = builder.icmp_unsigned("<", step, word(self._cut.steps))
        clamped = builder.select(is_there, step, word(self._cut.steps - 1))
        batch = builder.udiv(context.block, word(self._cut.rows))
        batch = builder.add(batch, context.parameters[3])
        row = builder.urem(context.block, word(self._cut.rows))
        value = builder.bitcast(self._read(context, batch, row, clamped), INDEX)
        return builder.select(is_there, value, INDEX(0)), is_there

    def _each(self, context: Context, body: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """Run through the thread's elements: body(step, state) returns the state, from 0."""
        builder = context.builder

        def turn(number: ir.Value, before: list[ir.Value]) -> Sequence[ir.Value]:
            first = builder.mul(number, word(_THREADS))
            return [body(builder.add(first, context.thread), before[0])]

        turns = word(self._cut.padded // _THREADS)
        return vectors.repeat(builder, turns, [INDEX(0)], turn)[0]

    def measure(self, context: Context) -> None:
        """Find the largest exponent field of the thread's elements."""
        builder = context.builder

        def step(number: ir.Value, before: ir.Value) -> ir.Value:
            bits, _ = self._read_bits(context, number)
            return _largest(builder, before, _get_field(builder, bits))

        context.store_shared(self._each(context, step), _place(builder, context.thread, 0))

    def cut(self, context: Context) -> None:
        """Store the residues of the thread's elements."""
        builder = context.builder
        field = self._fold(context, 0, _largest)

        def step(number: ir.Value, before: ir.Value) -> ir.Value:
            bits, _ = self._read_bits(context, number)
            whole, is_cut = _cut_off(builder, bits, field)
            self._store(context, number, whole)
            return builder.add(before, builder.zext(is_cut, INDEX))

        context.store_shared(self._each(context, step), _place(builder, context.thread, _THREADS))

    def _fold(
        self,
        context: Context,
        first: int,
        combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value],
    ) -> ir.Value:
        """Return what all threads of the block have shared, combined."""
        builder = context.builder

        def turn(number: ir.Value, before: list[ir.Value]) -> Sequence[ir.Value]:
            found = context.load_shared(INDEX, _place(builder, number, first))
            return [combine(builder, before[0], found)]

        return vectors.repeat(builder, word(_THREADS), [INDEX(0)], turn)[0]

    def _store(self, context: Context, step: ir.Value, whole: ir.Value) -> None:
        builder, cut = context.builder, self._cut
        each = builder.mul(context.parameters[4], word(cut.matrix_bytes))
        place = builder.add(context.parameters[0], cut.locate(context, context.block, step))
        for modulus in cut.moduli:
            rest = builder.srem(whole, word(modulus))
            for limit, is_beyond in ((127, ">"), (-128, "<")):
                change = -modulus if limit > 0 else modulus
                moved = builder.add(rest, word(change))
                beyond = builder.icmp_signed(is_beyond, rest, word(limit))
                rest = builder.select(beyond, moved, rest)
            context.store(builder.trunc(rest, BYTE), place)
            place = builder.add(place, each)

    def finish(self, context: Context) -> None:
        """Store what is known of the row."""
        builder = context.builder
        with builder.if_then(builder.icmp_unsigned("==", context.thread, word(0))):
            field = self._fold(context, 0, _largest)
            lost = self._fold(context, _THREADS, lambda b, x, y: b.add(x, y))
            offset = builder.mul(context.block, word(_INFO_BYTES))
            place = builder.add(context.parameters[1], offset)
            context.store(field, place)
            context.store(lost, builder.add(place, word(4)))


def _place(builder: ir.IRBuilder, number: ir.Value, first: int) -> ir.Value:
    return builder.mul(builder.add(number, word(first)), word(4))


def _largest(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_unsigned(">", x, y), x, y)


def _get_field(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """The exponent field of a number; that of subnormal numbers is 1."""
    field = builder.and_(builder.lshr(bits, INDEX(_FRACTION_BITS)), INDEX(NO_NUMBER))
    return _largest(builder, field, INDEX(1))


def get_significand(builder: ir.IRBuilder, bits: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return a number as a signed significand of 64 bits and its exponent field."""
    field = builder.and_(builder.lshr(bits, INDEX(_FRACTION_BITS)), INDEX(NO_NUMBER))
    fraction = builder.and_(bits, INDEX(_BIT - 1))
    is_normal = builder.icmp_unsigned("!=", field, INDEX(0))
    whole = builder.select(is_normal, builder.or_(fraction, INDEX(_BIT)), fraction)
    is_negative = builder.icmp_signed("<", bits, INDEX(0))
    whole = builder.select(is_negative, builder.neg(whole), whole)
    return builder.sext(whole, WORD), _largest(builder, field, INDEX(1))


def _cut_off(builder: ir.IRBuilder, bits: ir.Value, largest: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return a number in whole units of its row, and whether anything was cut off."""
    whole, field = get_significand(builder, bits)
    below = builder.zext(builder.sub(largest, field), WORD)
    spare = BITS - _FRACTION_BITS - 1
    is_above = builder.icmp_unsigned("<=", below, word(spare))
    up = builder.select(is_above, builder.sub(word(spare), below), word(0))
    down = builder.select(is_above, word(0), builder.sub(below, word(spare)))
    is_far = builder.icmp_unsigned(">", down, word(63))
    down = builder.select(is_far, word(63), down)
    is_negative = builder.icmp_signed("<", whole, word(0))
    magnitude = builder.select(is_negative, builder.neg(whole), whole)
    kept = builder.lshr(magnitude, down)
    is_cut = builder.icmp_unsigned("!=", builder.shl(kept, down), magnitude)
    kept = builder.shl(kept, up)
    return builder.select(is_negative, builder.neg(kept), kept), is_cut
