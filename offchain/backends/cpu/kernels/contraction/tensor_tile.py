"""The register micro-kernel of tensor cores' products: a tile of one, from packed factors.

It computes what `arithmetic/tensor/blocks.py` defines. For each block of products it finds the
largest exponent of the terms of each sum, in integers of 16 bits. Then it multiplies factors, which
is exact in binary32, scales each product by a power of two so that cutting it is the conversion to
an integer, adds these up, and cuts their sum to binary32.

This holds for numbers of usual size, which these are the preconditions of:

- no factor is infinite or NaN, and no product of two has an exponent above `MOST_EXPONENT`;
- terms are cut 25 bits below the largest exponent, or fewer, and a block has 16 products, or fewer;
- there are `MOST_STEPS` steps at most.

Sums that may be wrong all the same are marked, and not written; in their lanes there is anything:

- those that start from NaN, an infinity, or a number of 2^`_MOST_START` or more;
- those with a block whose largest exponent is below -101. From there on the last of 25 bits is that
  of 2^-126, so that no sum is a subnormal number; and whatever is too small for binary32 is cut to
  zero, as is what became of it;
- those with a block that adds up to almost 2^31. A term is below 2^27, and 16 of them and an
  accumulator go beyond 2^31 by less than a thirtieth: such a sum comes out near the other end.

To have most of what is small in its range, the tile works on numbers of 2^`_LIFT` times the size.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import linked
from moot.offchain.native.machine import VECTOR_REGISTERS, get_features
from moot.offchain.native.vectors import FLOAT, INDEX, LANES, VECTOR_BYTES, WORD

ROWS = VECTOR_REGISTERS // 8
"""Rows of a tile, which is two vectors wide: each vector of sums has one of scales beside it."""

_WIDTH = 2
COLUMNS = _WIDTH * LANES

TURN = 4
"""Steps between two jumps, which divide those of every block."""

A_STEP_BYTES = 4
"""Bytes between steps of a packed row, both of its numbers and of its exponents."""

B_STEP_BYTES = 3 * VECTOR_BYTES
"""Bytes between steps of packed columns: two vectors of numbers and one of exponents."""

MARK_BYTES = 4

MOST_STEPS = 1024

MOST_EXPONENT = 76
"""The largest exponent of products: `MOST_STEPS` of them, and what they start from, are finite."""

_MOST_START = 80

_LIFT = 24
_BIAS, _FRACTION_BITS = 127, 23
_EXPONENT_BITS, _SIGN_BIT, _ALL = 0x7F800000, 1 << 31, (1 << 32) - 1

_AWAY = 256
"""What a packed exponent has above the biased one of its factor. That of a zero is 0, so that the
sum of two tells whether one of them is a zero's."""

INFINITE = 255 + _AWAY
"""The packed exponent of infinities and NaNs."""

PAIR_BIAS = 2 * (_BIAS + _AWAY)
"""What the sum of two packed exponents has above the exponent of the product."""

_LOWEST_PAIR = PAIR_BIAS - _BIAS - _LIFT
"""The same above the exponent of the lifted product, as binary32 has it."""

LEAST_EXPONENT = 1 - _BIAS - _LIFT
"""The least exponent of a product that a lifted number has; below, products look like zero."""

LEAST_MARK = (-101 + _BIAS + _LIFT) << _FRACTION_BITS
"""The least mark of a sum that is right. A mark is the least of two numbers for each block: the
largest exponent of its terms, as binary32 has it, and how far its sum is above `_LAST`."""

_LAST = _SIGN_BIT - LEAST_MARK // 2
"""The sum from which on, up to its negative, there are `LEAST_MARK` of them, around 2^31."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_BITS = ir.VectorType(INDEX, LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)
_PAIRS = ir.VectorType(ir.IntType(16), 2 * LANES)

_CONVERSION = "llvm.x86.avx512.sitofp.round.v16f32.v16i32"
_TOWARD_ZERO = 3 | 8


class _Spot(NamedTuple):
    """A vector of the result.

    Attributes:
        address: of its first element.
        is_inside: the lanes that are elements.
    """

    address: ir.Value
    is_inside: ir.Value


class _Block(NamedTuple):
    """The factors of a block of products.

    Attributes:
        numbers: addresses of the numbers of rows of a, at the first step.
        exponents: likewise of their exponents.
        columns: the address of packed columns of b.
        turns: how often to go `TURN` steps on.
    """

    numbers: Sequence[ir.Value]
    exponents: Sequence[ir.Value]
    columns: ir.Value
    turns: ir.Value

    def walk(
        self,
        builder: ir.IRBuilder,
        values: Sequence[ir.Value],
        take_step: Callable[[ir.Value, ir.Value, list[ir.Value]], None],
    ) -> list[ir.Value]:
        """Take all steps: each gets its distance in rows, the address of its columns, the values.

        It replaces values by those after it.
        """

        def turn(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            step = builder.mul(index, WORD(TURN))
            distance = builder.mul(step, WORD(A_STEP_BYTES))
            columns = builder.add(self.columns, builder.mul(step, WORD(B_STEP_BYTES)))
            after = list(carried)
            for k in range(TURN):
                at = builder.add(distance, WORD(k * A_STEP_BYTES))
                take_step(at, builder.add(columns, WORD(k * B_STEP_BYTES)), after)
            return after

        return vectors.repeat(builder, self.turns, values, turn)


@linked(*[types.intp] * 12, result=types.intp)
def multiply_tile(
    builder: ir.IRBuilder,
    rows: ir.Value,
    columns: ir.Value,
    a: ir.Value,
    a_row_step: ir.Value,
    b: ir.Value,
    blocks: ir.Value,
    turns: ir.Value,
    kept_bits: ir.Value,
    spares_zeros: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
    marks: ir.Value,
) -> None:
    """Add the products of packed factors to sums in place, and return whether any is marked.

    Sums that are marked stay as they are. Arguments:
        rows: of the tile, from 1 to `ROWS`; for those beyond, the first one is taken again.
        columns: of the tile, from 1 to `COLUMNS`; all of these are packed, whatever is in them.
        a, a_row_step: address of the first row of a, and bytes between rows: each has numbers in
            its first half, and exponents in the second, as `pack_row` leaves them.
        b: address of columns of b, as `pack_columns` leaves them.
        blocks, turns: blocks of products, at least 1, and how many times `TURN` each of them has.
        kept_bits: how many bits below the largest exponent a term is cut.
        spares_zeros: 1 if no product but zeros has an exponent below `LEAST_EXPONENT`; else 0, and
            a sum is marked for a block of zeros, too, before it has other terms.
        target, target_step: address of the sums, and bytes between rows, which are contiguous.
        marks: address of `ROWS` rows of `COLUMNS` marks of 32 bits: see `LEAST_MARK`.
    """
    spots = _find_spots(builder, rows, columns, target, target_step)
    begun = [_begin(builder, spot) for spot in spots]
    bits_kept, spared = (
        vectors.splat(builder, builder.trunc(value, INDEX), LANES)
        for value in (kept_bits, spares_zeros)
    )
    highest, spared = (
        builder.shl(value, _splat(_FRACTION_BITS))
        for value in (builder.add(bits_kept, _splat(2 * _BIAS)), spared)
    )
    row_steps = builder.mul(turns, WORD(TURN * A_STEP_BYTES))
    column_steps = builder.mul(turns, WORD(TURN * B_STEP_BYTES))
    half, distances = builder.lshr(a_row_step, WORD(1)), []
    for row in range(ROWS):
        is_row = builder.icmp_signed("<", WORD(row), rows)
        distance = builder.mul(a_row_step, WORD(row))
        distances.append(builder.select(is_row, distance, WORD(0)))

    def add_block(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        sums, found = carried[: len(spots)], carried[len(spots) :]
        first = builder.add(a, builder.mul(index, row_steps))
        numbers = [builder.add(first, distance) for distance in distances]
        exponents = [builder.add(row, half) for row in numbers]
        at_b = builder.add(b, builder.mul(index, column_steps))
        block = _Block(numbers, exponents, at_b, turns)
        scales, totals = [], []
        for i, exponent in enumerate(_find_largest(builder, block)):
            own = builder.and_(builder.bitcast(sums[i], _BITS), _splat(_EXPONENT_BITS))
            largest = vectors.call(builder, "llvm.umax", [own, exponent])
            found[i] = _least(builder, found[i], builder.sub(largest, spared))
            scales.append(builder.bitcast(builder.sub(highest, largest), _VECTOR))
            totals.append(builder.fptosi(builder.fmul(sums[i], scales[i]), _BITS))
        for i, total in enumerate(_add_products(builder, block, scales, totals)):
            found[i] = _least(builder, found[i], builder.sub(total, _splat(_LAST)))
            scale = builder.bitcast(scales[i], _BITS)
            back = builder.sub(_splat(2 * _BIAS << _FRACTION_BITS), scale)
            cut = _convert_toward_zero(builder, total)
            sums[i] = builder.fmul(cut, builder.bitcast(back, _VECTOR))
        return [*sums, *found]

    values = [value for pair in zip(*begun, strict=True) for value in pair]
    values = vectors.repeat(builder, blocks, values, add_block)
    least = _splat(_ALL)
    for i, spot in enumerate(spots):
        mark = _finish(builder, spot, values[i], values[len(spots) + i])
        vectors.store(builder, mark, marks, i * VECTOR_BYTES)
        least = _least(builder, least, mark)
    lowest = _reduce(builder, "umin", least)
    builder.ret(builder.zext(builder.icmp_unsigned("<", lowest, INDEX(LEAST_MARK)), WORD))


def _find_spots(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, target: ir.Value, step: ir.Value
) -> list[_Spot]:
    """The vectors of a tile, row by row."""
    spots = []
    for row in range(ROWS):
        start = builder.add(target, builder.mul(step, WORD(row)))
        is_row = builder.icmp_signed("<", WORD(row), rows)
        for v in range(_WIDTH):
            left = builder.select(is_row, builder.sub(columns, WORD(v * LANES)), WORD(0))
            is_inside = vectors.mask_first(builder, LANES, left)
            spots.append(_Spot(builder.add(start, WORD(v * VECTOR_BYTES)), is_inside))
    return spots


def _begin(builder: ir.IRBuilder, spot: _Spot) -> tuple[ir.Value, ir.Value]:
    """The lifted sums at a spot, and the first of what is said of each."""
    start = vectors.load_masked(builder, _VECTOR, spot.address, spot.is_inside)
    size = builder.and_(builder.bitcast(start, _BITS), _splat(_SIGN_BIT - 1))
    is_usual = builder.icmp_unsigned("<", size, _splat(_MOST_START + _BIAS << _FRACTION_BITS))
    usual = builder.select(is_usual, start, ir.Constant(_VECTOR, None))
    return builder.fmul(usual, _power(_LIFT)), builder.sext(is_usual, _BITS)


def _finish(builder: ir.IRBuilder, spot: _Spot, lifted: ir.Value, mark: ir.Value) -> ir.Value:
    """Write the sums of a spot that are right, and return the marks of all."""
    total = builder.fmul(lifted, _power(-_LIFT))
    # A sum of zeros may be -0 in here.
    positive = builder.fadd(total, ir.Constant(_VECTOR, [0.0] * LANES))
    is_right = builder.icmp_unsigned(">=", mark, _splat(LEAST_MARK))
    is_written = builder.and_(spot.is_inside, is_right)
    vectors.store_masked(builder, positive, spot.address, is_written)
    return builder.select(spot.is_inside, mark, _splat(_ALL))


def _find_largest(builder: ir.IRBuilder, block: _Block) -> list[ir.Value]:
    """The largest exponents of a block's lifted products, as binary32 has them; 0 if all are zeros.

    Packed exponents of a have the same in both halves, those of b have the exponents of two columns
    in them.
    """

    def compare(at_a: ir.Value, at_b: ir.Value, tops: list[ir.Value]) -> None:
        columns = vectors.load(builder, _BITS, at_b, _WIDTH * VECTOR_BYTES)
        for row, start in enumerate(block.exponents):
            element = vectors.load(builder, INDEX, builder.add(start, at_a))
            pair = builder.add(columns, vectors.splat(builder, element, LANES))
            tops[row] = vectors.call(
                builder, "llvm.umax", [tops[row], builder.bitcast(pair, _PAIRS)]
            )

    lowest = ir.Constant(_PAIRS, [_LOWEST_PAIR] * 2 * LANES)
    found = []
    for top in block.walk(builder, [ir.Constant(_PAIRS, None)] * ROWS, compare):
        pair = builder.bitcast(vectors.call(builder, "llvm.usub.sat", [top, lowest]), _BITS)
        found.append(builder.shl(pair, _splat(_FRACTION_BITS)))
        upper = builder.shl(pair, _splat(_FRACTION_BITS - 16))
        found.append(builder.and_(upper, _splat(_EXPONENT_BITS)))
    return found


def _add_products(
    builder: ir.IRBuilder, block: _Block, scales: Sequence[ir.Value], totals: Sequence[ir.Value]
) -> list[ir.Value]:
    """The totals and the products of a block, each of which is scaled and cut to an integer."""

    def add(at_a: ir.Value, at_b: ir.Value, sums: list[ir.Value]) -> None:
        factors = [vectors.load(builder, _VECTOR, at_b, v * VECTOR_BYTES) for v in range(_WIDTH)]
        for row, start in enumerate(block.numbers):
            element = vectors.load(builder, FLOAT, builder.add(start, at_a))
            own = vectors.splat(builder, element, LANES)
            for i, factor in enumerate(factors, row * _WIDTH):
                term = builder.fmul(builder.fmul(own, factor), scales[i])
                sums[i] = builder.add(sums[i], builder.fptosi(term, _BITS))

    return block.walk(builder, totals, add)


def _convert_toward_zero(builder: ir.IRBuilder, total: ir.Value) -> ir.Value:
    """The numbers next to integers in the direction of zero."""
    if LANES == 16 and "+avx512f" in get_features().split(","):
        signature = ir.FunctionType(_VECTOR, [_BITS, INDEX])
        function = builder.module.globals.get(_CONVERSION) or ir.Function(
            builder.module, signature, _CONVERSION
        )
        return builder.call(function, [total, INDEX(_TOWARD_ZERO)])
    is_minus = builder.ashr(total, _splat(31))
    size = builder.sub(builder.xor(total, is_minus), is_minus)
    near = builder.sitofp(size, _VECTOR)
    is_above = builder.icmp_signed(">", builder.fptosi(near, _BITS), size)
    below = builder.add(builder.bitcast(near, _BITS), builder.sext(is_above, _BITS))
    sign = builder.and_(total, _splat(_SIGN_BIT))
    return builder.bitcast(builder.or_(below, sign), _VECTOR)


@linked(*[types.intp] * 4, result=types.intp)
def pack_row(
    builder: ir.IRBuilder,
    source: ir.Value,
    groups: ir.Value,
    numbers: ir.Value,
    exponents: ir.Value,
) -> None:
    """Pack a row of a, and return the range of its exponents.

    It is the largest of the packed ones in the upper half of a word, and in the lower half what is
    one less than the least that is no zero's. Arguments:
        source: address of its patterns, which lie side by side.
        groups: so many vectors of them.
        numbers, exponents: addresses of where they go.
    """

    def pack(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        first = builder.mul(index, WORD(LANES))
        place = builder.mul(first, WORD(A_STEP_BYTES))
        start = builder.add(source, builder.shl(first, WORD(1)))
        number, exponent = _unpack(builder, vectors.load(builder, _HALVES, start))
        lifted = builder.fmul(number, _power(_LIFT))
        vectors.store(builder, lifted, builder.add(numbers, place))
        both = builder.or_(exponent, builder.shl(exponent, _splat(16)))
        vectors.store(builder, both, builder.add(exponents, place))
        return _extend(builder, carried, exponent)

    found = vectors.repeat(builder, groups, [_splat(0), _splat(_ALL)], pack)
    builder.ret(_join(builder, found))


@linked(*[types.intp] * 4, result=types.intp)
def pack_columns(
    builder: ir.IRBuilder,
    source: ir.Value,
    source_step: ir.Value,
    steps: ir.Value,
    target: ir.Value,
) -> None:
    """Pack `COLUMNS` columns of b, and return the range of their exponents, as `pack_row` does.

    In a packed exponent, the lower half is that of a column of the first vector, the upper half
    that of one in the same lane of the second. Arguments:
        source, source_step: address of their patterns, of which those of a step lie side by side,
            and bytes between steps.
        steps: how many there are, at least 1.
        target: address of where they go.
    """

    def pack(k: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        start = builder.add(source, builder.mul(k, source_step))
        place = builder.add(target, builder.mul(k, WORD(B_STEP_BYTES)))
        exponents = []
        for v in range(_WIDTH):
            halves = vectors.load(builder, _HALVES, start, v * VECTOR_BYTES // 2)
            number, exponent = _unpack(builder, halves)
            vectors.store(builder, number, place, v * VECTOR_BYTES)
            carried = _extend(builder, carried, exponent)
            exponents.append(exponent)
        lower, upper = exponents
        both = builder.or_(lower, builder.shl(upper, _splat(16)))
        vectors.store(builder, both, place, _WIDTH * VECTOR_BYTES)
        return carried

    found = vectors.repeat(builder, steps, [_splat(0), _splat(_ALL)], pack)
    builder.ret(_join(builder, found))


def _unpack(builder: ir.IRBuilder, patterns: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The numbers of patterns, and the exponents as they are packed."""
    wide = builder.zext(patterns, _BITS)
    number = builder.bitcast(builder.shl(wide, _splat(16)), _VECTOR)
    size = builder.and_(wide, _splat(0x7FFF))
    biased = vectors.call(builder, "llvm.umax", [builder.lshr(size, _splat(7)), _splat(1)])
    is_zero = builder.icmp_unsigned("==", size, _splat(0))
    return number, builder.select(is_zero, _splat(0), builder.add(biased, _splat(_AWAY)))


def _extend(
    builder: ir.IRBuilder, carried: Sequence[ir.Value], exponent: ir.Value
) -> list[ir.Value]:
    """The largest of packed exponents, and the least of those that are no zero's, less one."""
    most, least = carried
    below = builder.sub(exponent, _splat(1))
    return [vectors.call(builder, "llvm.umax", [most, exponent]), _least(builder, least, below)]


def _join(builder: ir.IRBuilder, found: Sequence[ir.Value]) -> ir.Value:
    """The range of the exponents of all lanes, in a word."""
    most, least = found
    upper = builder.zext(_reduce(builder, "umax", most), WORD)
    lower = builder.zext(_reduce(builder, "umin", least), WORD)
    return builder.or_(builder.shl(upper, WORD(32)), lower)


def _reduce(builder: ir.IRBuilder, name: str, vector: ir.Value) -> ir.Value:
    signature = ir.FunctionType(INDEX, [vector.type])
    intrinsic = f"llvm.vector.reduce.{name}.v{vector.type.count}i32"
    return builder.call(builder.module.declare_intrinsic(intrinsic, fnty=signature), [vector])


def _least(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return vectors.call(builder, "llvm.umin", [a, b])


def _splat(value: int) -> ir.Constant:
    return ir.Constant(_BITS, [value] * LANES)


def _power(exponent: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [2.0**exponent] * LANES)
