"""Vector code, written as LLVM IR: the few idioms that kernels need beyond numba's language.

Kernels take the number of lanes of their vectors from here, and give the same bits for each. It is
that of the processor's widest vectors, or what MOOT_VECTOR_BITS says (512, 256 or 128; `machine`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.native.machine import VECTOR_BITS, get_features

BYTE = ir.IntType(8)
INDEX = ir.IntType(32)
WORD = ir.IntType(64)
FLOAT = ir.FloatType()
DOUBLE = ir.DoubleType()

LANES = VECTOR_BITS // 32
"""Floats in a vector."""

VECTOR_BYTES = VECTOR_BITS // 8

NAN = np.uint32(CANONICAL_NAN).view(np.float32)
"""The one NaN that results have."""

CACHE_LINE_BYTES = 64

_PERMUTATIONS = (
    (16, "+avx512f", "llvm.x86.avx512.permvar.si.512"),
    (8, "+avx2", "llvm.x86.avx2.permd"),
)

PERMUTABLE = {
    lanes: name for lanes, feature, name in _PERMUTATIONS if feature in get_features().split(",")
}
"""Lanes of vectors whose elements this processor puts in any order: the instruction for it."""


def fill_lines(size: int) -> int:
    """Return how many bytes of whole lines of the cache, at least one, have room for so many."""
    return -(-max(size, 1) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


def load(builder: ir.IRBuilder, kind: ir.Type, address: ir.Value, offset: int = 0) -> ir.Value:
    """Load a value of type `kind` from `offset` bytes behind an address of any alignment."""
    place = builder.add(address, WORD(offset))
    return builder.load(builder.inttoptr(place, kind.as_pointer()), align=1)


def store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, offset: int = 0) -> None:
    """Store a value `offset` bytes behind an address of any alignment."""
    place = builder.add(address, WORD(offset))
    builder.store(value, builder.inttoptr(place, value.type.as_pointer()), align=1)


def stream(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    """Store vectors of the processor's past its caches, at an address that their size divides.

    Memory that is written so need not be read before. A fence has to follow before others read it.
    """
    place = builder.inttoptr(address, value.type.as_pointer())
    stored = builder.store(value, place, align=VECTOR_BYTES)
    stored.set_metadata("nontemporal", builder.module.add_metadata([INDEX(1)]))


def shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of the given lanes of `a` followed by `b`."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INDEX, len(lanes)), lanes))


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """The vector that holds `scalar` in every lane."""
    empty = ir.VectorType(scalar.type, lanes)(ir.Undefined)
    vector = builder.insert_element(empty, scalar, INDEX(0))
    return shuffle(builder, vector, vector, [0] * lanes)


def transpose(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of n vectors of n lanes, n a power of two, by swapping ever smaller squares."""
    rows = list(rows)
    lanes = range(len(rows))
    width = len(rows) // 2
    while width:
        upper = [lane if not lane & width else lane - width + len(rows) for lane in lanes]
        lower = [lane + width for lane in upper]
        for i in lanes:
            if not i & width:
                a, b = rows[i], rows[i + width]
                rows[i], rows[i + width] = (
                    shuffle(builder, a, b, upper),
                    shuffle(builder, a, b, lower),
                )
        width //= 2
    return rows


def call(builder: ir.IRBuilder, intrinsic: str, arguments: Sequence[ir.Value]) -> ir.Value:
    """Call an intrinsic of LLVM on operands that have the type of its result."""
    kind = arguments[0].type
    name = f"{intrinsic}.{_mangled(kind)}"
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(builder.module.declare_intrinsic(name, fnty=signature), arguments)


def _mangled(kind: ir.Type) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{kind.element.intrinsic_name}"
    return str(kind.intrinsic_name)


def prefetch(builder: ir.IRBuilder, address: ir.Value, size: int, level: int = 1) -> None:
    """Ask the cache of a level for `size` bytes at an address, which may be any number.

    The first level waits for few lines at a time: a dozen. From the second on there are more.
    """
    pointer = BYTE.as_pointer()
    signature = ir.FunctionType(ir.VoidType(), [pointer, INDEX, INDEX, INDEX])
    function = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=signature)
    to_read, locality, data = INDEX(0), INDEX(4 - level), INDEX(1)
    for offset in range(0, size, CACHE_LINE_BYTES):
        place = builder.inttoptr(builder.add(address, WORD(offset)), pointer)
        builder.call(function, [place, to_read, locality, data])


def repeat(
    builder: ir.IRBuilder,
    count: ir.Value,
    values: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """Run `values = body(index, values)` for every index below `count`, which is at least 1."""
    before = builder.block
    loop = builder.append_basic_block("loop")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(WORD)
    carried = [builder.phi(value.type) for value in values]
    results = body(index, carried)
    following = builder.add(index, WORD(1))
    for phi, first, later in zip(
        [index, *carried], [WORD(0), *values], [following, *results], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", following, count), loop, after)
    builder.position_at_end(after)
    return list(results)


def minimum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The smaller one of two integers with a sign."""
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def load_columns(
    builder: ir.IRBuilder, kind: ir.VectorType, address: ir.Value, step: ir.Value, rows: ir.Value
) -> list[ir.Value]:
    """The columns of a square whose rows lie `step` bytes apart; from `rows` on, row 0 again.

    Its elements have 32 bits. Four elements of every fourth row are loaded as one vector, so that
    the rest of the work is to turn squares of four, which stay where they are.
    """
    starts = []
    for row in range(kind.count):
        inside = builder.icmp_signed("<", WORD(row), rows)
        offset = builder.select(inside, builder.mul(step, WORD(row)), WORD(0))
        starts.append(builder.add(address, offset))
    quarter = ir.VectorType(kind.element, 4)

    def load_quarters(first: int, column: int) -> ir.Value:
        places = starts[first::4]
        parts = [load(builder, quarter, place, 4 * column) for place in places]
        while len(parts) > 1:
            lanes = list(range(2 * parts[0].type.count))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [shuffle(builder, a, b, lanes) for a, b in pairs]
        return parts[0]

    def mix(a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
        lanes = [lane if lane < 4 else lane - 4 + kind.count for lane in order]
        return shuffle(builder, a, b, [4 * i + x for i in range(kind.count // 4) for x in lanes])

    columns = []
    for column in range(0, kind.count, 4):
        a, b, c, d = (load_quarters(first, column) for first in range(4))
        for order in ([0, 4, 1, 5], [2, 6, 3, 7]):
            halves = mix(a, b, order), mix(c, d, order)
            columns += [mix(*halves, [0, 1, 4, 5]), mix(*halves, [2, 3, 6, 7])]
    return columns


def load_rows(
    builder: ir.IRBuilder, kind: ir.VectorType, address: ir.Value, step: ir.Value
) -> list[ir.Value]:
    """The rows of a square; they lie `step` bytes apart."""
    starts = [builder.add(address, builder.mul(step, WORD(row))) for row in range(kind.count)]
    return [load(builder, kind, start) for start in starts]


def mask_first(builder: ir.IRBuilder, lanes: int, count: ir.Value) -> ir.Value:
    """Which of so many lanes are below `count`."""
    is_part = builder.icmp_signed("<", count, WORD(lanes))
    few = builder.trunc(builder.select(is_part, count, WORD(lanes)), INDEX)
    numbers = ir.Constant(ir.VectorType(INDEX, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, splat(builder, few, lanes))


def load_first(
    builder: ir.IRBuilder, kind: ir.VectorType, address: ir.Value, count: ir.Value
) -> ir.Value:
    """Load the first `count` lanes of a vector, and zeros; more of memory is not touched."""
    return load_masked(builder, kind, address, mask_first(builder, kind.count, count))


def load_masked(
    builder: ir.IRBuilder, kind: ir.VectorType, address: ir.Value, mask: ir.Value
) -> ir.Value:
    """Load the lanes of a vector that a mask has, and zeros; no other memory is touched."""
    pointer = kind.as_pointer()
    signature = ir.FunctionType(kind, [pointer, INDEX, mask.type, kind])
    name = f"llvm.masked.load.{_mangled(kind)}.p0"
    function = builder.module.declare_intrinsic(name, fnty=signature)
    place = builder.inttoptr(address, pointer)
    return builder.call(function, [place, INDEX(1), mask, ir.Constant(kind, None)])


def store_first(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, count: ir.Value) -> None:
    """Store the first `count` lanes of a vector."""
    store_masked(builder, value, address, mask_first(builder, value.type.count, count))


def store_masked(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, mask: ir.Value) -> None:
    """Store the lanes of a vector that a mask has; no other memory is touched."""
    kind = value.type
    pointer = kind.as_pointer()
    signature = ir.FunctionType(ir.VoidType(), [kind, pointer, INDEX, mask.type])
    name = f"llvm.masked.store.{_mangled(kind)}.p0"
    function = builder.module.declare_intrinsic(name, fnty=signature)
    builder.call(function, [value, builder.inttoptr(address, pointer), INDEX(1), mask])


def gather_first(
    builder: ir.IRBuilder,
    kind: ir.VectorType,
    address: ir.Value,
    step: ir.Value,
    count: ir.Value,
) -> ir.Value:
    """Load `count` lanes that lie `step` bytes apart, and zeros."""
    mask = mask_first(builder, kind.count, count)
    numbers = ir.Constant(ir.VectorType(WORD, kind.count), list(range(kind.count)))
    steps, start = (splat(builder, value, kind.count) for value in (step, address))
    places = builder.add(start, builder.mul(numbers, steps))
    return gather(builder, places, mask, ir.Constant(kind, None))


def permute(builder: ir.IRBuilder, vector: ir.Value, lanes: ir.Value) -> ir.Value:
    """The elements of 32 bits that a vector of lane numbers names, for so many as `PERMUTABLE`."""
    words = ir.VectorType(INDEX, vector.type.count)
    name = PERMUTABLE[vector.type.count]
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(words, [words, words]), name
    )
    found = builder.call(function, [builder.bitcast(vector, words), lanes])
    return builder.bitcast(found, vector.type)


def gather(
    builder: ir.IRBuilder, places: ir.Value, mask: ir.Value | None, otherwise: ir.Value
) -> ir.Value:
    """Load the lanes at a vector of addresses where the mask says so, or everywhere."""
    kind = otherwise.type
    pointers = ir.VectorType(kind.element.as_pointer(), kind.count)
    bits = ir.VectorType(ir.IntType(1), kind.count)
    if mask is None:
        mask = ir.Constant(bits, [1] * kind.count)
    signature = ir.FunctionType(kind, [pointers, INDEX, bits, kind])
    name = f"llvm.masked.gather.{_mangled(kind)}.v{kind.count}p0"
    function = builder.module.declare_intrinsic(name, fnty=signature)
    place = builder.inttoptr(places, pointers)
    return builder.call(function, [place, INDEX(1), mask, otherwise])
