"""The words of short integers, and the register micro-kernel that multiplies them.

A word of 32 bits holds some numbers of one row or column, which belong to as many steps of the
fold: four bytes, where the processor multiplies and adds four pairs of them at once (`HAS_BYTES`),
or two halves of 16 bits. Sums wrap around, so neither order nor grouping makes a difference.

The instruction for bytes takes one factor without a sign: those of b are lifted by 128, and 128
times the sum of a row of a is taken from its sums. Tiles (`tiles.py`) take both with their signs.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS, copy_rows, emit_any_size
from moot.offchain.backends.cpu.kernels.contraction.tile import ROWS as TILE_ROWS
from moot.offchain.native import vectors
from moot.offchain.native.compiled import linked
from moot.offchain.native.machine import get_features
from moot.offchain.native.vectors import BYTE, INDEX, LANES, VECTOR_BYTES, WORD

ROWS = TILE_ROWS
"""Rows of the largest tile, which has `COLUMNS` columns: two vectors."""

WORD_BYTES = 4
B_STEP_BYTES = COLUMNS * WORD_BYTES
"""Bytes of a word of each column of a panel of b."""

_VECTOR = ir.VectorType(INDEX, LANES)
_BYTES = ir.VectorType(BYTE, 4 * LANES)
_HALF = ir.IntType(16)
_HALVES = ir.VectorType(_HALF, 2 * LANES)
_SCRATCH = ir.ArrayType(_VECTOR, 2 * ROWS)

_INSTRUCTIONS = {
    16: ("llvm.x86.avx512.vpdpbusd.512", ({"+avx512vnni"},)),
    8: ("llvm.x86.avx512.vpdpbusd.256", ({"+avxvnni"}, {"+avx512vnni", "+avx512vl"})),
}
"""By the lanes of a vector: the instruction for bytes, and sets of features that it comes with."""


_PAIRS = {
    lanes: name
    for lanes, feature, name in (
        (16, "+avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
        (8, "+avx2", "llvm.x86.avx2.pmadd.wd"),
        (4, "+sse2", "llvm.x86.sse2.pmadd.wd"),
    )
    if feature in get_features().split(",")
}
"""By the lanes of a vector: the instruction that multiplies halves, and adds two products."""


class Packed(IntEnum):
    """How many numbers a word holds."""

    HALVES = 2
    BYTES = 4

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return 32 // self


class Form(NamedTuple):
    """Words, and what they are made of.

    Attributes:
        packed: how many numbers a word holds.
        source_bytes: of a number that is packed, 1 or 4; one of 4 may not fit.
        is_lifted: whether the numbers of b, which are bytes, are lifted by `LIFT`.
    """

    packed: Packed
    source_bytes: int
    is_lifted: bool

    @property
    def name(self) -> str:
        """What functions of this form are called by."""
        lifted = "lifted_" if self.is_lifted else ""
        return f"{lifted}{self.packed.name.lower()}_of_{self.source_bytes}"


def has_bytes(lanes: int, features: str) -> bool:
    """Whether a processor multiplies and adds four pairs of bytes at once in such vectors."""
    _, sets = _INSTRUCTIONS.get(lanes, ("", ()))
    return any(needed <= set(features.split(",")) for needed in sets)


HAS_BYTES = has_bytes(LANES, get_features())

LIFT = 128
"""What is added to a byte of b."""


def add_products(
    builder: ir.IRBuilder, packed: Packed, total: ir.Value, a: ir.Value, b: ir.Value
) -> ir.Value:
    """Return a vector of sums with the products of the numbers in two vectors of words added."""
    if packed is Packed.BYTES:
        name, _ = _INSTRUCTIONS[LANES]
        signature = ir.FunctionType(_VECTOR, [_VECTOR, _BYTES, _BYTES])
        function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
        return builder.call(
            function, [total, builder.bitcast(b, _BYTES), builder.bitcast(a, _BYTES)]
        )
    if LANES in _PAIRS:
        name = _PAIRS[LANES]
        signature = ir.FunctionType(_VECTOR, [_HALVES, _HALVES])
        function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
        factors = [builder.bitcast(it, _HALVES) for it in (a, b)]
        return builder.add(total, builder.call(function, factors))
    pairs = []
    for vector in (a, b):
        halves = builder.bitcast(vector, _HALVES)
        for first in range(2):
            lanes = list(range(first, 2 * LANES, 2))
            pairs.append(builder.sext(vectors.shuffle(builder, halves, halves, lanes), _VECTOR))
    even, odd = (builder.mul(pairs[place], pairs[place + 2]) for place in range(2))
    return builder.add(total, builder.add(even, odd))


def _emit_tile(
    builder: ir.IRBuilder, packed: Packed, rows: ir.Value, columns: ir.Value, *words: ir.Value
) -> None:
    """Emit what `Functions.multiply` says."""
    a, a_row_step, b, depth, less, *places = words
    narrow, wide = (builder.icmp_signed("==", columns, WORD(n)) for n in (LANES, COLUMNS))
    is_odd = builder.trunc(rows, ir.IntType(1))
    is_whole = builder.and_(builder.not_(is_odd), builder.or_(narrow, wide))
    scratch = builder.ptrtoint(builder.alloca(_SCRATCH), WORD)
    scratch_place = scratch, WORD(2 * VECTOR_BYTES)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*places[:2], *scratch_place))
    source, source_step, target, target_step = (
        builder.select(is_whole, direct, indirect)
        for direct, indirect in zip(places, scratch_place * 2, strict=True)
    )

    def emit(height: int, width: int) -> None:
        spots = [(row, v) for row in range(height) for v in range(width)]
        starts = [builder.add(a, builder.mul(a_row_step, WORD(row))) for row in range(height)]

        def multiply(step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            at_b = builder.add(b, builder.mul(step, WORD(B_STEP_BYTES)))
            offset = builder.mul(step, WORD(WORD_BYTES))
            factors = [vectors.load(builder, _VECTOR, at_b, v * VECTOR_BYTES) for v in range(width)]
            found = []
            for row in range(height):
                word = vectors.load(builder, INDEX, builder.add(starts[row], offset))
                factor = vectors.splat(builder, word, LANES)
                for v in range(width):
                    total = sums[row * width + v]
                    found.append(add_products(builder, packed, total, factor, factors[v]))
            return found

        begun = []
        for row, v in spots:
            taken = vectors.load(builder, INDEX, less, row * WORD_BYTES)
            start = builder.add(source, builder.mul(source_step, WORD(row)))
            vector = vectors.load(builder, _VECTOR, start, v * VECTOR_BYTES)
            begun.append(builder.sub(vector, vectors.splat(builder, taken, LANES)))
        sums = vectors.repeat(builder, depth, begun, multiply)
        for (row, v), total in zip(spots, sums, strict=True):
            end = builder.add(target, builder.mul(target_step, WORD(row)))
            vectors.store(builder, total, end, v * VECTOR_BYTES)

    emit_any_size(builder, rows, columns, emit)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*scratch_place, *places[2:]))


def _is_outside(builder: ir.IRBuilder, packed: Packed, seen: ir.Value) -> ir.Value:
    """Return 1 if a number that was noted by `_note` does not fit, else 0."""
    high = ir.Constant(_VECTOR, [-1 << packed.bits] * LANES)
    found = builder.icmp_unsigned("!=", builder.and_(seen, high), ir.Constant(_VECTOR, None))
    lanes = builder.bitcast(found, ir.IntType(LANES))
    return builder.zext(builder.icmp_unsigned("!=", lanes, ir.IntType(LANES)(0)), WORD)


def _note(builder: ir.IRBuilder, form: Form, seen: ir.Value, vector: ir.Value) -> ir.Value:
    """Note numbers of 32 bits: one that fits, and is lifted by half the range, has no high bits."""
    packed = form.packed
    if form.source_bytes < WORD_BYTES:
        return seen
    half = ir.Constant(_VECTOR, [1 << packed.bits - 1] * LANES)
    return builder.or_(seen, builder.add(vector, half))


class _Source(NamedTuple):
    """The numbers that are packed, as vectors of 32 bits."""

    builder: ir.IRBuilder
    form: Form

    @property
    def kind(self) -> ir.VectorType:
        """A vector of them in memory."""
        return ir.VectorType(ir.IntType(8 * self.form.source_bytes), LANES)

    def widen(self, vector: ir.Value) -> ir.Value:
        """Return numbers as those of 32 bits."""
        is_wide = self.form.source_bytes == WORD_BYTES
        return vector if is_wide else self.builder.sext(vector, _VECTOR)

    def is_dense(self, step: ir.Value) -> ir.Value:
        """Whether numbers so many bytes apart lie side by side."""
        return self.builder.icmp_signed("==", step, WORD(self.form.source_bytes))

    def load(self, place: ir.Value, count: ir.Value) -> ir.Value:
        """Load so many numbers that lie side by side, and zeros."""
        return self.widen(vectors.load_first(self.builder, self.kind, place, count))

    def gather(self, place: ir.Value, step: ir.Value, count: ir.Value) -> ir.Value:
        """Load so many numbers some bytes apart, and zeros."""
        return self.widen(vectors.gather_first(self.builder, self.kind, place, step, count))


def _emit_row(
    builder: ir.IRBuilder,
    form: Form,
    source: ir.Value,
    step: ir.Value,
    depth: ir.Value,
    target: ir.Value,
    words: ir.Value,
    total: ir.Value,
) -> ir.Value:
    """Emit what `Functions.pack_row` says."""
    packed, reader = form.packed, _Source(builder, form)
    short = ir.VectorType(ir.IntType(packed.bits), LANES)
    count = builder.udiv(builder.mul(words, WORD(packed)), WORD(LANES))
    is_dense, found = reader.is_dense(step), builder.alloca(_VECTOR)

    def pack(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        added, seen = carried
        first = builder.mul(number, WORD(LANES))
        rest = builder.sub(depth, first)
        place = builder.add(source, builder.mul(first, step))
        with builder.if_else(is_dense) as (then, otherwise):
            with then:
                builder.store(reader.load(place, rest), found)
            with otherwise:
                builder.store(reader.gather(place, step, rest), found)
        vector = builder.load(found)
        offset = builder.mul(first, WORD(packed.bits // 8))
        vectors.store(builder, builder.trunc(vector, short), builder.add(target, offset))
        return [builder.add(added, vector), _note(builder, form, seen, vector)]

    nothing = ir.Constant(_VECTOR, None)
    added, seen = vectors.repeat(builder, count, [nothing, nothing], pack)
    name = f"llvm.vector.reduce.add.v{LANES}i32"
    function = builder.module.declare_intrinsic(name, fnty=ir.FunctionType(INDEX, [_VECTOR]))
    vectors.store(builder, builder.call(function, [added]), total)
    return _is_outside(builder, packed, seen)


def _join(builder: ir.IRBuilder, form: Form, steps: Sequence[ir.Value]) -> ir.Value:
    """Return the words of a vector of columns, given its numbers of as many steps as a word has."""
    mask = ir.Constant(_VECTOR, [(1 << form.packed.bits) - 1] * LANES)
    words: ir.Value = ir.Constant(_VECTOR, None)
    for place, step in enumerate(steps):
        shift = ir.Constant(_VECTOR, [place * form.packed.bits] * LANES)
        words = builder.or_(words, builder.shl(builder.and_(step, mask), shift))
    return _lift(builder, form, words)


def _lift(builder: ir.IRBuilder, form: Form, words: ir.Value) -> ir.Value:
    """Return words of b as a form has them: lifted, modulo 2^8, or as they are."""
    if not form.is_lifted:
        return words
    return builder.xor(words, ir.Constant(_VECTOR, [LIFT * 0x01010101] * LANES))


class _Columns(NamedTuple):
    """The packing of a vector of columns of b.

    Attributes:
        reader: reads their numbers.
        source, step, column_step, depth, columns, target: what `Functions.pack_columns` says.
        seen: memory for what `_note` has noted.
    """

    reader: _Source
    source: ir.Value
    step: ir.Value
    column_step: ir.Value
    depth: ir.Value
    columns: ir.Value
    target: ir.Value
    seen: ir.Value

    @property
    def square(self) -> int:
        """The steps of a square of words that lie side by side in each column."""
        return LANES * WORD_BYTES // self.reader.form.source_bytes

    def write(self, number: ir.Value, steps: Sequence[ir.Value]) -> None:
        """Write words of so many steps, from the one of a number on."""
        builder, form = self.reader
        noted = builder.load(self.seen)
        for vector in steps:
            noted = _note(builder, form, noted, vector)
        builder.store(noted, self.seen)
        start = builder.add(self.target, builder.mul(number, WORD(B_STEP_BYTES)))
        for word in range(len(steps) // form.packed):
            some = steps[word * form.packed : (word + 1) * form.packed]
            vectors.store(builder, _join(builder, form, some), start, word * B_STEP_BYTES)

    def pack_word(self, number: ir.Value) -> None:
        """Pack the word of a number, of which not all steps need be there."""
        builder, form = self.reader
        places = []
        for k in range(form.packed):
            at = builder.add(builder.mul(number, WORD(form.packed)), WORD(k))
            is_inside = builder.icmp_signed("<", at, self.depth)
            count = builder.select(is_inside, self.columns, WORD(0))
            places.append((builder.add(self.source, builder.mul(at, self.step)), count))
        in_rows = self.reader.is_dense(self.column_step)
        with builder.if_else(in_rows) as (then, otherwise):
            with then:
                self.write(number, [self.reader.load(*place) for place in places])
            with otherwise:
                step = self.column_step
                steps = [self.reader.gather(at, step, count) for at, count in places]
                self.write(number, steps)

    def pack_square(self, number: ir.Value) -> None:
        """Pack the square of a number, whose steps lie side by side in each column."""
        builder, form = self.reader
        place = builder.add(self.source, builder.mul(number, WORD(LANES * WORD_BYTES)))
        found = vectors.load_columns(builder, _VECTOR, place, self.column_step, self.columns)
        first = builder.mul(number, WORD(self.square // form.packed))
        if (form.packed, form.source_bytes) == (Packed.BYTES, 1):
            start = builder.add(self.target, builder.mul(first, WORD(B_STEP_BYTES)))
            for word, vector in enumerate(found):
                vectors.store(builder, _lift(builder, form, vector), start, word * B_STEP_BYTES)
        elif form.source_bytes == 1:
            self.write(first, [step for vector in found for step in _split(builder, vector)])
        else:
            self.write(first, found)


def _split(builder: ir.IRBuilder, words: ir.Value) -> Iterator[ir.Value]:
    """Yield the first byte of each word, then the second, and so on, as numbers of 32 bits."""
    numbers = builder.bitcast(words, _BYTES)
    for place in range(WORD_BYTES):
        lanes = list(range(place, WORD_BYTES * LANES, WORD_BYTES))
        yield builder.sext(vectors.shuffle(builder, numbers, numbers, lanes), _VECTOR)


def _emit_columns(
    builder: ir.IRBuilder,
    form: Form,
    source: ir.Value,
    step: ir.Value,
    column_step: ir.Value,
    depth: ir.Value,
    count: ir.Value,
    target: ir.Value,
    words: ir.Value,
) -> ir.Value:
    """Emit what `Functions.pack_columns` says."""
    seen = builder.alloca(_VECTOR)
    builder.store(ir.Constant(_VECTOR, None), seen)
    reader = _Source(builder, form)
    columns = _Columns(reader, source, step, column_step, depth, count, target, seen)
    in_columns = columns.reader.is_dense(columns.step)
    whole = builder.udiv(columns.depth, WORD(columns.square))
    squares = builder.select(in_columns, whole, WORD(0))
    begun = builder.mul(squares, WORD(columns.square // form.packed))

    def pack_square(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        columns.pack_square(number)
        return []

    def pack_word(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        columns.pack_word(builder.add(number, begun))
        return []

    for turns, pack in ((squares, pack_square), (builder.sub(words, begun), pack_word)):
        with builder.if_then(builder.icmp_signed(">", turns, WORD(0))):
            vectors.repeat(builder, turns, [], pack)
    return _is_outside(builder, form.packed, builder.load(seen))


class Functions(NamedTuple):
    """What kernels call for words of one form; all arguments are words of 64 bits.

    Attributes:
        multiply: writes the sums at `source` plus the products of rows and columns to `target`. An
            odd number of rows is rounded up, and columns to whole vectors: words, and `less`, have
            to be readable that far, but what lies there may be anything. Its arguments are
            (rows, columns) of the tile, from 1 to `ROWS` and to `COLUMNS`; (a, a_row_step), the
            address of the words of the rows, and bytes from row to row; (b, depth), the address of
            the panel of columns, and the words of a column, at least 1; (less), the address of what
            is taken from the sums of each row; (source, source_step), the address of what the sums
            start from, and bytes between its rows, which are contiguous; (target, target_step),
            likewise for the results, at the same address or elsewhere.
        pack_row: writes the words of a row of a, and returns 1 if a number does not fit, else 0.
            Its arguments are (source, step, depth), the address of its numbers, bytes
            between them, and how many there are; (target, words), the address of the words, and how
            many there are, a multiple of `LANES`, zeros behind the numbers; (total), the address of
            the sum of the numbers.
        pack_columns: writes the words of a vector of columns of b, and returns likewise. Its
            arguments are (source, step, column_step, depth, columns), the address of the numbers,
            bytes between the steps of a column and between columns, how many steps and how many
            columns there are, of which `LANES` at most are packed; (target, words), the address of
            the words, of which a step has `B_STEP_BYTES`, and how many a column has, a multiple of
            `LANES`.
    """

    multiply: Any
    pack_row: Any
    pack_columns: Any


def link(
    name: str, count: int, emit: Callable[..., ir.Value | None], result: Any = types.intp
) -> Any:
    """Return what kernels call for code of a name that takes so many words of 64 bits."""

    def define(builder: ir.IRBuilder, *arguments: ir.Value) -> None:
        found = emit(builder, *arguments)
        if found is not None:
            builder.ret(found)

    define.__name__ = name
    return linked(*[types.intp] * count, result=result)(define)


@cache
def _link_multiply(packed: Packed) -> Any:
    name = f"multiply_{packed.name.lower()}"
    return link(name, 11, lambda builder, *words: _emit_tile(builder, packed, *words), types.void)


@cache
def get_functions(form: Form) -> Functions:
    """Return the functions of a form, whose code is made when they are first asked for.

    Whoever multiplies no integers does not wait for it.
    """
    return Functions(
        _link_multiply(form.packed),
        link(f"pack_row_{form.name}", 6, lambda b, *words: _emit_row(b, form, *words)),
        link(f"pack_columns_{form.name}", 7, lambda b, *words: _emit_columns(b, form, *words)),
    )


_PACKED = (Packed.BYTES, Packed.HALVES) if HAS_BYTES else (Packed.HALVES,)

FORMS = {
    source: tuple(Form(packed, source, packed is Packed.BYTES) for packed in _PACKED[:source])
    for source in (1, WORD_BYTES)
}
"""By the bytes of a number: the forms in which this processor multiplies it, the fastest first."""
