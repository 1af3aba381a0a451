"""The register kernel of products in blocks: a tile of such a product, on factors that were packed.

It computes what `arithmetic/tensor/blocks.py` defines, on vectors. For each block of steps it finds
the largest exponent of the terms of each sum, in integers of 16 bits; then it scales each product,
which is exact in binary32, by a power of two so that cutting it is the conversion to an integer,
adds these up, and cuts their sum.

That is right within a range of exponents. Packed factors, and the sums while they are here, are
2^`_LIFT` times the numbers that they stand for, so that more of the small ones are in it. Of the
factors, whoever calls sees to it that no product of theirs is above the range (`MOST_EXPONENT`).
The tile marks each sum that left it on the way, which are:

- those that started from NaN, an infinity or a number of `_MOST_START` or more,
- those with a block whose largest exponent is so small that a result might be a subnormal number,
- those with a block that adds up to nearly 2^31, which is where integers end.

Terms that are too small do no harm where the largest one is not: they are cut to zero.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Sequence

from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import linked
from moot.offchain.native.machine import VECTOR_REGISTERS, get_features
from moot.offchain.native.vectors import FLOAT, INDEX, LANES, VECTOR_BYTES, WORD

ROWS = 4 if VECTOR_REGISTERS == 32 else 2
"""Rows of a tile: each takes four registers, for two vectors of sums and of scales."""

_WIDTH = 2
COLUMNS = _WIDTH * LANES

TURN = 8
"""Steps between two jumps; a divisor of the steps of every block."""

A_STEP_BYTES = 4
"""Bytes between two steps of a packed row, in each of its halves: numbers, and then exponents."""

B_STEP_BYTES = 3 * VECTOR_BYTES
"""Bytes of a step of a packed panel: the numbers of its columns, and then their exponents."""

MARK_BYTES = 4
"""Bytes of a mark; a tile writes `ROWS` rows of `COLUMNS` marks."""

_LIFT = 24
_BIAS, _FRACTION_BITS = 127, 23
_EXPONENT = 0x7F800000
_SIGN = 1 << 31

_PACKED = 256
"""What is added to the biased exponent of a factor that is not zero. Zeros are packed as 0: the sum
of two exponents tells by its size whether one of them was a zero's."""

_LEAST_PAIR = 2 * _PACKED + _BIAS - _LIFT
"""The sum of two packed exponents from which the biased exponent of a lifted product counts."""

LEAST_EXPONENT = -126 - _LIFT
"""The least exponent of a product, zeros apart, that is not taken for a zero's."""

MOST_EXPONENT = 76
"""The largest exponent of a product; 2^`MOST_STEPS` of them, lifted, are finite numbers."""

MOST_STEPS = 10
"""The binary logarithm of the steps that a tile may take at once."""

PACKED_BIAS = 2 * (_PACKED + _BIAS)
"""What the sum of two packed exponents has above the exponent of their product."""

_MOST_START = 2.0**80

LEAST_MARKED = (-101 + _BIAS + _LIFT) << _FRACTION_BITS
"""The exponent, as binary32 has it, from which a lifted result is one of a normal number."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_BITS = ir.VectorType(INDEX, LANES)
_HALF = ir.IntType(16)
_HALVES = ir.VectorType(_HALF, LANES)
_PAIRS = ir.VectorType(_HALF, 2 * LANES)

_TRUNCATING = "llvm.x86.avx512.sitofp.round.v16f32.v16i32"
_TOWARD_ZERO = 3 | 8


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
    exempt: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
    marks: ir.Value,
) -> None:
    """Add blocks of products to sums in place, and return whether any was marked, and not written.

    Args:
        builder: where to.
        rows: of the tile, from 1 to `ROWS`; there are as many packed ones as can be.
        columns: of the tile, from 1 to `COLUMNS`.
        a: the address of the first row of a, as `pack_row` leaves it.
        a_row_step: bytes between its rows, a half of which is numbers.
        b: the address of a panel of b, as `pack_panel` leaves it.
        blocks: how many there are, at least 1.
        turns: of a block.
        kept_bits: how many bits below the largest exponent a term is cut.
        exempt: 1 if no product of theirs that is not zero has an exponent below `LEAST_EXPONENT`;
            0 if one may have, and then all sums of zeros are marked.
        target: the address of the first sum.
        target_step: bytes between rows of sums, which are contiguous.
        marks: where the marks go: those below `LEAST_MARKED` say that a sum was not written.
    """
    spots = [(row, v) for row in range(ROWS) for v in range(_WIDTH)]
    places, counts = {}, {}
    for row, v in spots:
        distance = builder.add(builder.mul(target_step, WORD(row)), WORD(v * VECTOR_BYTES))
        places[row, v] = builder.add(target, distance)
        is_inside = builder.icmp_signed("<", WORD(row), rows)
        count = builder.sub(columns, WORD(v * LANES))
        counts[row, v] = builder.select(is_inside, count, WORD(0))
    starts, found = [], []
    for spot in spots:
        start = vectors.load_first(builder, _VECTOR, places[spot], counts[spot])
        size = builder.and_(builder.bitcast(start, _BITS), _splat(~_SIGN & 0xFFFFFFFF))
        is_far = builder.icmp_unsigned(">=", size, _splat(_get_bits(_MOST_START)))
        found.append(builder.select(is_far, _splat(0), _splat(0xFFFFFFFF)))
        starts.append(builder.fmul(start, _power(_LIFT)))
    kept = vectors.splat(builder, builder.trunc(kept_bits, INDEX), LANES)
    shift = _splat(_FRACTION_BITS)
    highest = builder.shl(builder.add(kept, _splat(2 * _BIAS)), shift)
    one = vectors.splat(builder, builder.trunc(exempt, INDEX), LANES)
    exempted = builder.shl(one, shift)
    half_row = builder.lshr(a_row_step, WORD(1))
    a_rows = [builder.add(a, builder.mul(a_row_step, WORD(row))) for row in range(ROWS)]

    def add_block(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        passed, at_b, *rest = carried
        sums, least = rest[: len(spots)], rest[len(spots) :]
        largest = _find_largest(builder, [builder.add(x, half_row) for x in a_rows], at_b, passed, turns)
        scales, before = [], []
        for total, exponent in zip(sums, largest, strict=True):
            own = builder.and_(builder.bitcast(total, _BITS), _splat(_EXPONENT))
            top = vectors.call(builder, "llvm.umax", [own, exponent])
            least = _note(builder, least, len(scales), builder.sub(top, exempted))
            scale = builder.bitcast(builder.sub(highest, top), _VECTOR)
            scales.append(scale)
            before.append(builder.fptosi(builder.fmul(total, scale), _BITS))
        passed, at_b, totals = _add_products(builder, a_rows, at_b, passed, turns, scales, before)
        after = []
        for i, (total, scale) in enumerate(zip(totals, scales, strict=True)):
            least = _note(builder, least, i, builder.add(total, _splat(-(_SIGN - LEAST_MARKED // 2) & 0xFFFFFFFF)))
            back = builder.sub(_splat((2 * _BIAS) << _FRACTION_BITS), builder.bitcast(scale, _BITS))
            short = _convert_toward_zero(builder, total)
            after.append(builder.fmul(short, builder.bitcast(back, _VECTOR)))
        return [passed, at_b, *after, *least]

    carried = vectors.repeat(builder, blocks, [WORD(0), b, *starts, *found], add_block)
    sums, least = carried[2 : 2 + len(spots)], carried[2 + len(spots) :]
    for i, (spot, total) in enumerate(zip(spots, sums, strict=True)):
        # The sum of zeros may be -0 here.
        lowered = builder.fadd(builder.fmul(total, _power(-_LIFT)), ir.Constant(_VECTOR, [0.0] * LANES))
        is_right = builder.icmp_unsigned(">=", least[i], _splat(LEAST_MARKED))
        is_inside = vectors.mask_first(builder, LANES, counts[spot])
        vectors.store_masked(builder, lowered, places[spot], builder.and_(is_right, is_inside))
        outside = builder.select(is_inside, least[i], _splat(0xFFFFFFFF))
        vectors.store(builder, outside, marks, i * VECTOR_BYTES)
        least[i] = outside
    while len(least) > 1:
        least = [vectors.call(builder, "llvm.umin", [x, y]) for x, y in zip(least[::2], least[1::2], strict=True)]
    lowest = _reduce(builder, "umin", least[0])
    is_marked = builder.icmp_unsigned("<", lowest, INDEX(LEAST_MARKED))
    builder.ret(builder.zext(is_marked, WORD))


def _note(builder, least, place, value):
    found = list(least)
    found[place] = vectors.call(builder, "llvm.umin", [found[place], value])
    return found


def _find_largest(builder, rows, at_b, passed, turns):
    """The largest exponents of the products of a block, each 0 if all are zeros."""

    def turn(index, carried):
        offset, at, *tops = carried
        for step in range(TURN):
            own = vectors.load(builder, _BITS, at, step * B_STEP_BYTES + _WIDTH * VECTOR_BYTES)
            for row in range(ROWS):
                element = vectors.load(builder, INDEX, builder.add(rows[row], offset), step * A_STEP_BYTES)
                pair = builder.add(own, vectors.splat(builder, element, LANES))
                both = builder.bitcast(pair, _PAIRS)
                tops[row] = vectors.call(builder, "llvm.umax", [tops[row], both])
        return [
            builder.add(offset, WORD(TURN * A_STEP_BYTES)),
            builder.add(at, WORD(TURN * B_STEP_BYTES)),
            *tops,
        ]

    zero = ir.Constant(_PAIRS, None)
    _, _, *tops = vectors.repeat(builder, turns, [passed, at_b, *[zero] * ROWS], turn)
    lowest = ir.Constant(_PAIRS, [_LEAST_PAIR] * (2 * LANES))
    found = []
    for top in tops:
        both = builder.bitcast(vectors.call(builder, "llvm.usub.sat", [top, lowest]), _BITS)
        found.append(builder.shl(both, _splat(_FRACTION_BITS)))
        high = builder.shl(both, _splat(_FRACTION_BITS - 16))
        found.append(builder.and_(high, _splat(_EXPONENT)))
    return found


def _add_products(builder, rows, at_b, passed, turns, scales, sums):
    def turn(_, carried):
        offset, at, *totals = carried
        for step in range(TURN):
            factors = [
                vectors.load(builder, _VECTOR, at, step * B_STEP_BYTES + v * VECTOR_BYTES)
                for v in range(_WIDTH)
            ]
            for row in range(ROWS):
                element = vectors.load(builder, FLOAT, builder.add(rows[row], offset), step * A_STEP_BYTES)
                factor = vectors.splat(builder, element, LANES)
                for v in range(_WIDTH):
                    i = row * _WIDTH + v
                    scaled = builder.fmul(builder.fmul(factor, factors[v]), scales[i])
                    totals[i] = builder.add(totals[i], builder.fptosi(scaled, _BITS))
        return [
            builder.add(offset, WORD(TURN * A_STEP_BYTES)),
            builder.add(at, WORD(TURN * B_STEP_BYTES)),
            *totals,
        ]

    passed, at_b, *totals = vectors.repeat(builder, turns, [passed, at_b, *sums], turn)
    return passed, at_b, totals


def _convert_toward_zero(builder, total):
    """The numbers next to integers in the direction of zero."""
    if LANES == 16 and "+avx512f" in get_features().split(","):
        signature = ir.FunctionType(_VECTOR, [_BITS, INDEX])
        function = builder.module.globals.get(_TRUNCATING) or ir.Function(builder.module, signature, _TRUNCATING)
        return builder.call(function, [total, INDEX(_TOWARD_ZERO)])
    sign = builder.and_(total, _splat(_SIGN))
    minus = builder.ashr(total, _splat(31))
    size = builder.sub(builder.xor(total, minus), minus)
    near = builder.sitofp(size, _VECTOR)
    is_above = builder.icmp_signed(">", builder.fptosi(near, _BITS), size)
    below = builder.add(builder.bitcast(near, _BITS), builder.sext(is_above, _BITS))
    return builder.bitcast(builder.or_(below, sign), _VECTOR)


@linked(*[types.intp] * 4, result=types.intp)
def pack_row(builder, source, turns, numbers, exponents):
    """Pack steps of a row of a, which lie side by side; return its exponents' `find_range`."""
    group = range(0, max(TURN, LANES), LANES)
    del group

    def pack(i, carried):
        at = builder.mul(i, WORD(LANES))
        halves = vectors.load(builder, _HALVES, builder.add(source, builder.shl(at, WORD(1))))
        number, exponent = _widen(builder, halves, _LIFT)
        place = builder.shl(at, WORD(2))
        vectors.store(builder, number, builder.add(numbers, place))
        both = builder.or_(exponent, builder.shl(exponent, _splat(16)))
        vectors.store(builder, both, builder.add(exponents, place))
        return _extend(builder, carried, [exponent])

    found = vectors.repeat(builder, turns, [_splat(0), _splat(0xFFFFFFFF)], pack)
    builder.ret(_join(builder, found))


@linked(*[types.intp] * 4, result=types.intp)
def pack_panel(builder, source, source_step, steps, target):
    """Pack columns of b that lie side by side; return their exponents' range."""

    def pack(k, carried):
        start = builder.add(source, builder.mul(k, source_step))
        place = builder.add(target, builder.mul(k, WORD(B_STEP_BYTES)))
        exponents = []
        for v in range(_WIDTH):
            halves = vectors.load(builder, _HALVES, start, v * VECTOR_BYTES // 2)
            number, exponent = _widen(builder, halves, 0)
            vectors.store(builder, number, place, v * VECTOR_BYTES)
            exponents.append(exponent)
        low, high = exponents
        both = builder.or_(low, builder.shl(high, _splat(16)))
        vectors.store(builder, both, place, _WIDTH * VECTOR_BYTES)
        return _extend(builder, carried, exponents)

    found = vectors.repeat(builder, steps, [_splat(0), _splat(0xFFFFFFFF)], pack)
    builder.ret(_join(builder, found))


def _widen(builder, halves, lift):
    wide = builder.zext(halves, _BITS)
    number = builder.bitcast(builder.shl(wide, _splat(16)), _VECTOR)
    if lift:
        number = builder.fmul(number, _power(lift))
    size = builder.and_(wide, _splat(0x7FFF))
    exponent = vectors.call(builder, "llvm.umax", [builder.lshr(size, _splat(7)), _splat(1)])
    is_zero = builder.icmp_unsigned("==", size, _splat(0))
    packed = builder.select(is_zero, _splat(0), builder.add(exponent, _splat(_PACKED)))
    return number, packed


def _extend(builder, carried, exponents):
    most, least = carried
    for exponent in exponents:
        most = vectors.call(builder, "llvm.umax", [most, exponent])
        # Zeros, from which one is subtracted, are the largest.
        least = vectors.call(builder, "llvm.umin", [least, builder.sub(exponent, _splat(1))])
    return [most, least]


def _join(builder, found):
    most, least = found
    high = builder.zext(_reduce(builder, "umax", most), WORD)
    low = builder.zext(_reduce(builder, "umin", least), WORD)
    return builder.or_(builder.shl(high, WORD(32)), low)


def _reduce(builder, name, vector):
    signature = ir.FunctionType(INDEX, [vector.type])
    mangled = f"llvm.vector.reduce.{name}.v{vector.type.count}i32"
    function = builder.module.declare_intrinsic(mangled, fnty=signature)
    return builder.call(function, [vector])


def _splat(value: int) -> ir.Constant:
    return ir.Constant(_BITS, [value & 0xFFFFFFFF] * LANES)


def _power(exponent: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [2.0**exponent] * LANES)


def _get_bits(number: float) -> int:
    import numpy as np
    return int(np.float32(number).view(np.uint32))
