"""Hypothesis strategies for operators of every kind, and for leaves over random operands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from moot.contracts.model.leaf import Context
from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import SIGNATURES
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import NUMPY_TYPES, TensorTree, compute_tensor_root
from moot.offchain.commitments.tree import Tree, get_width, hash_root
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row
from moot.offchain.programs.legality import is_canonical
from moot.offchain.programs.semantics import compute_initial, compute_step, count_links

Draw = Any
"""Hypothesis's own `draw`."""

FOLD_FUNCTIONS = (Function.ADD, Function.MUL, Function.MAX, Function.MIN)
LOGICAL_FUNCTIONS = (Function.AND, Function.OR)
SEARCHES = (Function.ARGMAX, Function.ARGMIN)
gaps = st.one_of(st.just(0), st.integers(0, 9))
"""How many tensors lie between two that are read."""
PLACED = (Origin.NODE, Origin.STATE, Origin.BATCH)
dtypes = st.sampled_from(DType)
index_dtypes = st.sampled_from([DType.INT64, DType.INT32])
patterns = st.one_of(
    st.sampled_from([0, 1, 0x80000000, 0x3F800000, 0xFF800000, 2**63, 2**64 - 1]),
    st.sampled_from([CANONICAL_NAN, 0x7FC00001]),
    st.integers(0, 2**64 - 1),
)


def clip(bits: int, dtype: DType) -> int:
    """Return bits that an element of the type can have; a BOOL is 0 or 1."""
    return bits & 1 if dtype is DType.BOOL else bits & ((1 << 8 * dtype.width) - 1)


def make_canonical(bits: int, dtype: DType) -> int:
    """Return bits that a constant of the type can have."""
    clipped = clip(bits, dtype)
    if is_canonical(dtype, clipped):
        return clipped
    return bfloat16.NAN if dtype is DType.BFLOAT16 else CANONICAL_NAN


@st.composite
def rows(draw: Draw, variables: int) -> Row:
    """A row of an access."""
    chosen = draw(st.sets(st.integers(0, variables - 1), max_size=3)) if variables else set()
    coefficients = st.sampled_from([-3, -2, -1, 1, 2, 3])
    terms = tuple((v, draw(coefficients)) for v in sorted(chosen))
    size, offset = draw(st.integers(1, 5)), draw(st.integers(-3, 4))
    return Row(size, offset, terms, draw(st.sampled_from([1, 1, 2, 3])))


@st.composite
def operands(draw: Draw, dtype: DType, variables: int) -> Operand:
    """A constant, or an access to a tensor; the reference is to be set later."""
    value = make_canonical(draw(patterns), dtype)
    if draw(st.integers(0, 5)) == 0:
        return Operand(Origin.IMMEDIATE, dtype, 0, value)
    access = tuple(draw(st.lists(rows(variables), max_size=3)))
    return Operand(draw(st.sampled_from(PLACED)), dtype, 0, value, access)


def get_fold_functions(dtype: DType) -> tuple[Function, ...]:
    """Return the functions that fold elements of a type."""
    if dtype is DType.BOOL:
        return LOGICAL_FUNCTIONS
    return FOLD_FUNCTIONS if dtype is DType.FLOAT32 else FOLD_FUNCTIONS + LOGICAL_FUNCTIONS


@st.composite
def operators(draw: Draw, short: DType | None = None) -> Node:
    """An operator of any kind; a map may be undefined for its types, the others are valid.

    Of every other contraction both factors are of the short type, if there is one.
    """
    kind, dtype = draw(st.sampled_from(Kind)), draw(dtypes)
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    fold_shape: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    if kind.folds:
        fold_shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)))
    if kind is Kind.SCATTER:
        shape = shape or (3,)
    function, dtype, types = draw(_types(kind, dtype, short))
    if kind is Kind.SCATTER:
        targets = tuple(draw(st.integers(0, len(shape) - 1)) for _ in types[2:])
    variables = len(shape) + len(fold_shape)
    extra = len(types) - 1 if kind is Kind.GATHER else 0
    reads = [draw(operands(t, variables + (0 if i else extra))) for i, t in enumerate(types)]
    seed, stream = (draw(patterns), draw(patterns) >> 32) if kind is Kind.RANDOM else (0, 0)
    return Node(kind, function, dtype, shape, tuple(reads), fold_shape, seed, stream, targets)


CONTRACTED = (
    *[(DType.FLOAT32, DType.FLOAT32)] * 3,
    (DType.INT8, DType.INT32),
    *((dtype, dtype) for dtype in (DType.INT32, DType.INT64)),
)
"""The types of factors and of results of contractions."""


@st.composite
def _types(
    draw: Draw, kind: Kind, dtype: DType, short: DType | None
) -> tuple[Function, DType, list[DType]]:
    """Draw a function, the output's type and the operands' types."""
    if kind is Kind.MAP:
        function = draw(st.sampled_from(sorted(SIGNATURES)))
        types, result = draw(signatures(function))
        if draw(st.integers(0, 7)) == 0:
            types, result = draw(st.lists(dtypes, min_size=1, max_size=3)), dtype
        return function, result, types
    indices = draw(st.lists(index_dtypes, min_size=1, max_size=3))
    fold = draw(st.sampled_from(get_fold_functions(dtype)))
    factor, result = draw(st.sampled_from([*CONTRACTED, (short or DType.FLOAT32, DType.FLOAT32)]))
    choices = {
        Kind.CONTRACT: (Function.FMA, result, [result, factor, factor]),
        Kind.REDUCE: (fold, dtype, [dtype, dtype]),
        Kind.MOVE: (Function.COPY, dtype, [dtype] * draw(st.integers(1, 4))),
        Kind.GATHER: (Function.COPY, dtype, [dtype, *indices]),
        Kind.SCATTER: (draw(st.sampled_from([fold, Function.COPY])), dtype, [dtype] * 2 + indices),
        Kind.RANDOM: (Function.UNIFORM, DType.FLOAT32, []),
    }
    if kind is Kind.REDUCE and draw(st.booleans()):
        return draw(st.sampled_from(SEARCHES)), DType.INT64, [DType.INT64, draw(dtypes)]
    return choices.get(kind, (Function.COPY, dtype, [dtype]))


@st.composite
def signatures(draw: Draw, function: Function) -> tuple[list[DType], DType]:
    """Operand types and a result type for which a function is defined."""
    choices = {"F": [DType.FLOAT32], "I": [DType.INT64, DType.INT32], "B": [DType.BOOL]}
    arguments, result = draw(st.sampled_from(SIGNATURES[function])).split(">")
    types = {c: draw(st.sampled_from(choices.get(c, list(DType)))) for c in arguments + result}
    return [types[c] for c in arguments], types[result]


@dataclass(frozen=True)
class Leaf:
    """A leaf to be computed: what is agreed, the operator, and the proofs of what it reads."""

    context: Context
    node: Node
    proofs: tuple[tuple[bytes, ...], ...]
    arithmetic: Arithmetic = ORDERED

    @property
    def evidence(self) -> bytes:
        """The proofs, as the contract reads them."""
        return b"".join(piece for proof in self.proofs for piece in proof)


@st.composite
def leaves(draw: Draw, arithmetic: Arithmetic = ORDERED) -> Leaf:
    """A leaf of a random operator over random operands under random trees."""
    node = draw(operators(arithmetic.short_factors))
    counts = {origin: draw(st.integers(0, 4)) for origin in PLACED}
    reads, tensors = [], {}
    for operand in node.operands:
        placed = operand
        if operand.origin is not Origin.IMMEDIATE:
            placed = replace(operand, reference=counts[operand.origin] + draw(gaps))
            counts[operand.origin] = placed.reference + 1
            tensors[placed.origin, placed.reference] = draw(tensors_for(placed))
        reads.append(placed)
    node = replace(node, operands=tuple(reads))
    length = count_links(arithmetic, node) if node.kind.folds else 1
    small = node.function in SEARCHES
    known = st.integers(0, length) if small else patterns.map(lambda bits: clip(bits, node.dtype))
    if arithmetic.accumulator_bytes:
        known = st.one_of(known, wide(8 * arithmetic.accumulator_bytes))
    at = Place(
        step=draw(st.integers(0, 1)),
        position=draw(st.integers(0, max(length - 1, 0))),
        element=draw(st.integers(0, node.elements - 1)),
        accumulator=draw(known),
    )
    return make_leaf(node, counts, tensors, at, arithmetic)


@st.composite
def wide(draw: Draw, bits: int) -> int:
    """An accumulator of so many bits: a few of them, in a row or not, or any."""
    shifts = draw(st.lists(st.integers(0, bits - 64), max_size=3))
    few = sum(draw(patterns) << shift for shift in shifts) % (1 << bits)
    carrying = few ^ ((1 << bits - 60) - 1)
    return int(draw(st.sampled_from([few, carrying, draw(st.integers(0, (1 << bits) - 1))])))


@st.composite
def tensors_for(draw: Draw, operand: Operand) -> TensorTree:
    """A tensor that an operand can read, with small and large values."""
    shape = tuple(row.size for row in operand.rows)
    values = st.one_of(st.integers(0, 4), patterns) if operand.dtype.width > 4 else patterns
    bits = [clip(draw(values), operand.dtype) for _ in range(prod(shape))]
    unsigned = np.array(bits, f"u{operand.dtype.width}").reshape(shape)
    return TensorTree(unsigned.view(NUMPY_TYPES[operand.dtype]))


@cache
def get_filler() -> tuple[bytes, ...]:
    """Return the roots of tensors that nothing reads."""
    return tuple(compute_tensor_root(np.array([i], np.int64)) for i in range(256))


@dataclass(frozen=True)
class Place:
    """The place of a leaf: step, element, fold step, and the accumulator before that fold step."""

    step: int = 0
    element: int = 0
    position: int = 0
    accumulator: int = 0


def make_leaf(
    node: Node,
    counts: Mapping[Origin, int],
    tensors: Mapping[tuple[Origin, int], TensorTree],
    at: Place,
    arithmetic: Arithmetic = ORDERED,
) -> Leaf:
    """Return the leaf of an operator whose operands are these tensors, and no others are read.

    Of nodes, slots of the state and slots of the batch there are as many as `counts` says; behind
    the nodes are one more and the state.
    """
    filler, step = get_filler(), at.step

    def roots(origin: Origin, count: int, first: int = 0) -> list[bytes]:
        known = {first + r: t.root for (o, r), t in tensors.items() if o is origin}
        return [known.get(i, filler[i]) for i in range(count)]

    slots, states = counts[Origin.BATCH], max(counts[Origin.STATE], 1)
    trees = {
        Origin.NODE: Tree(Tag.TRACE_NODE, roots(Origin.NODE, counts[Origin.NODE] + 2)),
        Origin.STATE: Tree(Tag.STATE_NODE, roots(Origin.STATE, states)),
        Origin.BATCH: Tree(Tag.DATA_NODE, roots(Origin.BATCH, max(2 * slots, 1), step * slots)),
    }
    context = Context(
        trace_top=trees[Origin.NODE].top,
        operators=counts[Origin.NODE] + 1,
        before=hash_root(Tag.STATE_ROOT, states, trees[Origin.STATE].top),
        state_slots=states,
        data_top=trees[Origin.BATCH].top,
        batch_slots=slots,
        steps=2,
        step=step,
        element=at.element,
        position=at.position,
        accumulator=at.accumulator,
    )
    proofs: list[tuple[bytes, ...]] = []
    known: dict[Origin, int] = {}

    def fetch(place: int, operand: Operand, index: int) -> int:  # noqa: ARG001 - see Fetch
        tensor = tensors[operand.origin, operand.reference]
        first = step * slots if operand.origin is Origin.BATCH else 0
        root_proof = _link(trees[operand.origin], first + operand.reference, known, operand.origin)
        chunk, start = divmod(index * operand.dtype.width, CHUNK_BYTES)
        assert tensor.tree is not None
        data = tensor.chunk(chunk)
        padded = data.ljust(CHUNK_BYTES, b"\0")
        proofs.append((tensor.header, padded, *tensor.tree.proof(chunk), *root_proof))
        return int.from_bytes(data[start : start + operand.dtype.width], "little")

    _visit(arithmetic, node, context, fetch)
    return Leaf(context, node, tuple(proofs), arithmetic)


def _link(tree: Tree, index: int, known: dict[Origin, int], origin: Origin) -> Sequence[bytes]:
    """Return a proof up to the top, or to where it meets the latest that led there.

    `known` says where that one began, in the tree of the trace or of the state.
    """
    proof = tree.proof(index)
    if origin in known:
        levels = range((known[origin] ^ index).bit_length() - 1)
        return proof[: sum(index >> level ^ 1 < get_width(tree.count, level) for level in levels)]
    if origin is not Origin.BATCH:
        known.clear()
        known[origin] = index
    return proof


def _visit(arithmetic: Arithmetic, node: Node, context: Context, fetch: Any) -> None:
    """Read all that the leaf reads; where it is not defined, all that it reads before that."""
    accumulator = context.accumulator
    try:
        if node.kind.folds and context.position == 0:
            accumulator = compute_initial(arithmetic, node, context.element, fetch)
        place = (context.element, context.position)
        compute_step(arithmetic, node, *place, accumulator, context.step, fetch)
    except ValueError:
        return
