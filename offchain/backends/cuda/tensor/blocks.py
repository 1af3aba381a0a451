"""Blocks of products in machine code, as `arithmetic/tensor/blocks.py` defines them, of bfloat16.

This is what the emulator's matrix instruction computes, and what a device's is compared with. A
block is a few vectors of 32-bit integers: every product has 16 bits, and the place at which all are
cut is at most 11 bits below its last one.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import BFLOAT16, BINARY32, Block, Format
from moot.offchain.native import native
from moot.offchain.native.vectors import INDEX, WORD, load, repeat, splat, store

Patterns = npt.NDArray[np.uint16]
Sums = npt.NDArray[np.uint32]

_HALF = ir.IntType(16)
_BIT = ir.IntType(1)
_MOST_SHIFT = 31


def add_chains(block: Block, a: Patterns, b: Patterns, before: Sums) -> Sums:
    """Return accumulators after chains of blocks.

    Args:
        block: how products are added up.
        a: (..., terms): patterns of the first factors; terms are whole blocks.
        b: those of the second ones.
        before: (...): the accumulators before the first block.

    Returns:
        Bits of binary32 numbers, of NaNs the canonical one.
    """
    *_, terms = a.shape
    assert terms % block.pairs == 0
    assert a.shape == b.shape == (*before.shape, terms)
    first, second = (np.ascontiguousarray(x, np.uint16) for x in (a, b))
    sums = np.array(before, np.uint32, order="C")
    if sums.size and terms:
        addresses = (x.ctypes.data for x in (first, second, sums))
        _load(block)(*addresses, sums.size, terms // block.pairs)
    return sums


@cache
def _load(block: Block) -> Callable[..., None]:
    """Return the function of the addresses of three arrays, of the chains and their blocks."""
    return native.load(_write(block), "add_chains", *[ctypes.c_int64] * 5)


def _write(block: Block) -> ir.Module:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * 5), "add_chains")
    builder = ir.IRBuilder(function.append_basic_block())
    *addresses, chains, count = function.args
    row = ir.VectorType(_HALF, block.pairs)
    row_bytes = block.pairs * _HALF.width // 8

    def add_chain(number: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
        place = builder.add(addresses[2], builder.mul(number, WORD(INDEX.width // 8)))
        first = builder.mul(number, count)

        def step(turn: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            offset = builder.mul(builder.add(first, turn), WORD(row_bytes))
            factors = [load(builder, row, builder.add(x, offset)) for x in addresses[:2]]
            return [_Writer(builder, block).add(state[0], *factors)]

        (total,) = repeat(builder, count, [load(builder, INDEX, place)], step)
        store(builder, total, place)
        return []

    repeat(builder, chains, [], add_chain)
    builder.ret_void()
    return module


class _Numbers:
    """Floats taken apart, all in 32-bit integers: one, or a vector of them."""

    def __init__(self, builder: ir.IRBuilder, form: Format, bits: ir.Value) -> None:
        kind, fraction_bits = bits.type, form.fraction_bits
        last = (1 << form.exponent_bits) - 1
        zero, one = _constant(kind, 0), _constant(kind, 1)
        fraction = builder.and_(bits, _constant(kind, (1 << fraction_bits) - 1))
        shifted = builder.lshr(bits, _constant(kind, fraction_bits))
        field = builder.and_(shifted, _constant(kind, last))
        sign_at = _constant(kind, form.exponent_bits + fraction_bits)
        self.is_negative = builder.icmp_unsigned("!=", builder.lshr(bits, sign_at), zero)
        is_normal = builder.icmp_unsigned("!=", field, zero)
        whole = builder.or_(fraction, _constant(kind, 1 << fraction_bits))
        self.size = builder.select(is_normal, whole, fraction)
        field = builder.select(is_normal, field, one)
        self.exponent = builder.sub(field, _constant(kind, last >> 1))
        is_last = builder.icmp_unsigned("==", field, _constant(kind, last))
        has_fraction = builder.icmp_unsigned("!=", fraction, zero)
        self.is_infinite = builder.and_(is_last, builder.not_(has_fraction))
        self.is_nan = builder.and_(is_last, has_fraction)
        self.is_zero = builder.icmp_unsigned("==", self.size, zero)


class _Writer:
    """Writes one block."""

    def __init__(self, builder: ir.IRBuilder, block: Block) -> None:
        self._builder, self._block = builder, block

    def add(self, before: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
        """Return the accumulator after a block, given it and vectors of patterns."""
        builder, pairs = self._builder, self._block.pairs
        wide = ir.VectorType(INDEX, pairs)
        a, b = (_Numbers(builder, BFLOAT16, builder.zext(x, wide)) for x in (first, second))
        c = _Numbers(builder, BINARY32, before)
        is_negative = builder.xor(a.is_negative, b.is_negative)
        sizes = builder.mul(a.size, b.size)
        exponents = self._leave_out(sizes, builder.add(a.exponent, b.exponent))
        own = self._leave_out(c.size, c.exponent)
        largest = self._larger(self._reduce("smax", exponents), own)
        last = builder.sub(largest, INDEX(self._block.kept_bits))
        units = builder.sub(exponents, _constant(wide, 2 * BFLOAT16.fraction_bits))
        terms = self._shift(sizes, builder.sub(units, splat(builder, last, pairs)))
        terms = builder.select(is_negative, builder.neg(terms), terms)
        total = self._reduce("add", builder.sext(terms, ir.VectorType(WORD, pairs)))
        place = builder.sub(builder.sub(own, INDEX(BINARY32.fraction_bits)), last)
        term = self._shift(c.size, place)
        term = builder.select(c.is_negative, builder.neg(term), term)
        found = self._cut(builder.add(total, builder.sext(term, WORD)), last)
        return self._choose(found, a, b, c, is_negative)

    def _choose(
        self, found: ir.Value, a: _Numbers, b: _Numbers, c: _Numbers, is_negative: ir.Value
    ) -> ir.Value:
        """Return what was found, or what infinities and NaNs make of it."""
        builder = self._builder
        nan = builder.or_(a.is_nan, b.is_nan)
        for x, y in ((a, b), (b, a)):
            nan = builder.or_(nan, builder.and_(x.is_infinite, y.is_zero))
        infinite = builder.or_(a.is_infinite, b.is_infinite)
        signs = []
        for terms, own in (
            (builder.not_(is_negative), builder.not_(c.is_negative)),
            (is_negative, c.is_negative),
        ):
            among = self._reduce("or", builder.and_(infinite, terms))
            signs.append(builder.or_(among, builder.and_(c.is_infinite, own)))
        for has_sign, negative in zip(signs, (False, True), strict=True):
            bits = float32.with_sign(int(negative), float32.INFINITY)
            found = builder.select(has_sign, INDEX(bits), found)
        is_nan = builder.or_(self._reduce("or", nan), c.is_nan)
        is_nan = builder.or_(is_nan, builder.and_(*signs))
        return builder.select(is_nan, INDEX(float32.NAN), found)

    def _leave_out(self, sizes: ir.Value, exponents: ir.Value) -> ir.Value:
        """Return exponents, that of zeros in place of a zero's own."""
        kind = sizes.type
        is_zero = self._builder.icmp_unsigned("==", sizes, _constant(kind, 0))
        nothing = _constant(kind, self._block.zero_exponent)
        return self._builder.select(is_zero, nothing, exponents)

    def _reduce(self, function: str, vector: ir.Value) -> ir.Value:
        """Return what a function that has an intrinsic makes of all lanes."""
        kind = vector.type
        name = f"llvm.vector.reduce.{function}.v{kind.count}{kind.element.intrinsic_name}"
        signature = ir.FunctionType(kind.element, [kind])
        reducer = self._builder.module.declare_intrinsic(name, fnty=signature)
        return self._builder.call(reducer, [vector])

    def _larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.select(self._builder.icmp_signed(">", x, y), x, y)

    def _shift(self, sizes: ir.Value, places: ir.Value) -> ir.Value:
        """Return sizes shifted up so many places, or down and cut."""
        builder, kind = self._builder, sizes.type
        zero, most = _constant(kind, 0), _constant(kind, _MOST_SHIFT)
        goes_up = builder.icmp_signed(">=", places, zero)
        down = builder.select(goes_up, zero, builder.neg(places))
        down = builder.select(builder.icmp_signed("<", down, most), down, most)
        up = builder.shl(sizes, builder.select(goes_up, places, zero))
        return builder.select(goes_up, up, builder.lshr(sizes, down))

    def _cut(self, total: ir.Value, unit: ir.Value) -> ir.Value:
        """Return the bits of the number next to total * 2^unit in the direction of zero."""
        builder = self._builder
        fraction_bits, least = BINARY32.fraction_bits, float32.LEAST_EXPONENT
        is_negative = builder.icmp_signed("<", total, WORD(0))
        size = builder.select(is_negative, builder.neg(total), total)
        signature = ir.FunctionType(WORD, [WORD, _BIT])
        count = builder.module.declare_intrinsic("llvm.ctlz.i64", fnty=signature)
        zeros = builder.trunc(builder.call(count, [size, _BIT(0)]), INDEX)
        exponent = builder.add(builder.sub(INDEX(WORD.width - 1), zeros), unit)
        last = self._larger(builder.sub(exponent, INDEX(fraction_bits)), INDEX(least))
        places = builder.sext(builder.sub(unit, last), WORD)
        goes_up = builder.icmp_signed(">=", places, WORD(0))
        up = builder.shl(size, builder.select(goes_up, places, WORD(0)))
        down = builder.lshr(size, builder.select(goes_up, WORD(0), builder.neg(places)))
        bits = builder.trunc(builder.select(goes_up, up, down), INDEX)
        is_zero = builder.icmp_unsigned("==", bits, INDEX(0))
        field = builder.shl(builder.sub(last, INDEX(least)), INDEX(fraction_bits))
        bits = builder.add(bits, field)
        is_large = builder.icmp_signed(">", exponent, INDEX((1 << 7) - 1))
        bits = builder.select(is_large, INDEX(float32.INFINITY), bits)
        sign = builder.select(is_negative, INDEX(float32.with_sign(1, 0)), INDEX(0))
        return builder.select(is_zero, INDEX(float32.ZERO), builder.or_(bits, sign))


def _constant(kind: ir.Type, value: int) -> ir.Constant:
    """Return a number, or a vector that has it in every lane."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)
