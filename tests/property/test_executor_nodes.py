"""Every operator kind in the fast executor, against the definition of a program's meaning."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import SIGNATURES
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import TENSOR
from moot.offchain.backends.cpu import contractions, folds, gathers, indexing, maps
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.backends.cpu.partials import list_partials
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.planning import accesses
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.programs.legality import check_node
from moot.offchain.programs.semantics import compute_element, compute_partials
from tests.quick import every

FLOAT32, INT64, INT32, BOOL, BFLOAT16, INT8 = DType
INTEGERS = (INT64, INT32)
STEP = 5

ZEROS_ONES_INFINITIES = (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000)
NANS_AND_EXTREMES = (0x7FC00000, 0xFF800001, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF)
POWERS_AND_HALVES = (0x4F000000, 0xCF000000, 0x5F000000, 0xDF000000, 0x3F000000, 0x40200000)
SPECIALS = ZEROS_ONES_INFINITIES + NANS_AND_EXTREMES + POWERS_AND_HALVES


def sample_bits(seed: int, dtype: DType, count: int) -> Array:
    """Return elements of any bits: ordinary and special ones, specials alone, few values, any."""
    rng = np.random.default_rng(seed)
    kind = f"u{dtype.width}"
    anything = rng.integers(0, 1 << 8 * dtype.width, count, kind)
    if dtype is BOOL:
        return (anything % 2).astype(np.bool_)
    if dtype is FLOAT32:
        ordinary = rng.normal(0, 2, count).astype(np.float32).view(kind)
        specials = np.array(SPECIALS, kind)
    elif dtype is BFLOAT16:
        ordinary = (rng.normal(0, 2, count).astype(np.float32).view(np.uint32) >> 16).astype(kind)
        specials = (np.array(SPECIALS, np.uint32) >> 16).astype(kind)
    else:
        ordinary = rng.integers(-3, 9, count).astype(f"i{dtype.width}").view(kind)
        least = 1 << 8 * dtype.width - 1
        specials = np.array([0, 1, 2 * least - 1, least, least - 1], kind)
    few = rng.choice(rng.choice(specials, 4), count)
    styles = [
        np.where(rng.random(count) < 0.7, ordinary, rng.choice(specials, count)),
        rng.choice(specials, count),
        np.where(rng.random(count) < 0.5, ordinary, few),
        few,
        anything,
    ]
    return styles[rng.integers(len(styles))].view(NUMPY_TYPES[dtype])


def canonical(dtype: DType, elements: Sequence[int]) -> bytes:
    """Return the canonical bytes of elements given by their bits."""
    array = np.array(elements, f"u{dtype.width}").view(NUMPY_TYPES[dtype])
    return encode_elements(array).tobytes()


class Case:
    """A node and its operands' tensors, number i being what the references i read."""

    def __init__(
        self, node: Node, tensors: Sequence[Array], arithmetic: Arithmetic = ORDERED
    ) -> None:
        check_node(node, arithmetic)
        self.node = node
        self.tensors = tensors
        self.flats = [
            None if o.origin is Origin.IMMEDIATE else tensors[o.reference] for o in node.operands
        ]

    def __repr__(self) -> str:
        return f"Case({self.node!r}, {self.tensors!r})"

    def fetch(self, place: int, operand: Operand, index: int) -> int:
        """Read one element for the definition."""
        del place
        return int.from_bytes(self.tensors[operand.reference][index].tobytes(), "little")

    def check(self, arithmetic: Arithmetic = ORDERED) -> None:
        """Compare the fast output with the definition, in an arithmetic."""
        node = self.node
        output = get_engine(arithmetic).plan(node).run(self.flats, STEP)
        assert (output.dtype, output.shape) == (NUMPY_TYPES[node.dtype], node.shape)
        assert output.flags.c_contiguous
        defined = [
            compute_element(arithmetic, node, e, STEP, self.fetch) for e in range(node.elements)
        ]
        assert encode_elements(output).tobytes() == canonical(node.dtype, defined)


class Draw:
    """Draws the parts of one case; every operand has a tensor of its own."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.tensors: list[Array] = []

    def shape(self, least: int, most: int) -> tuple[int, ...]:
        """Draw a shape of some rank; a dimension is 0 now and then."""
        size = st.integers(1, 4) | st.integers(0, 6)
        return tuple(self.draw(st.lists(size, min_size=least, max_size=most)))

    def row(self, usable: Sequence[int]) -> Row:
        """Draw any row: a window, a stride, a slice, or nothing that makes sense."""
        names = self.draw(st.sets(st.sampled_from(usable), max_size=3)) if usable else ()
        coefficients = st.integers(1, 2) | st.integers(-3, 3).filter(bool)
        terms = tuple((v, self.draw(coefficients)) for v in sorted(names))
        divisor = self.draw(st.sampled_from([1, 1, 1, 2, 3]))
        return Row(self.draw(st.integers(1, 7)), self.draw(st.integers(-2, 4)), terms, divisor)

    def scale(self, row: Row) -> Row:
        """Draw another row of the same coordinates: divided by what it is multiplied with."""
        by = self.draw(st.sampled_from([1, 1, 1, 2, 3]))
        terms = tuple((variable, by * coefficient) for variable, coefficient in row.terms)
        return Row(row.size, by * row.offset, terms, by * row.divisor)

    def rows(self, sizes: Sequence[int], usable: Sequence[int]) -> tuple[Row, ...]:
        """Draw rows over the usable variables, of which those beyond the sizes have no bounds."""
        if self.draw(st.booleans()):
            return tuple(self.row(usable) for _ in range(self.draw(st.integers(0, 3))))
        rows = []
        for variable in self.draw(st.permutations(usable))[: self.draw(st.integers(0, 4))]:
            size = sizes[variable] if variable < len(sizes) else 4
            slack = self.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
            offset = self.draw(st.sampled_from([0, 0, 0, 1, -1]))
            rows.append(Row(max(size + slack, 1), offset, ((variable, 1),)))
        return tuple(self.scale(row) for row in rows)

    def operand(
        self, dtype: DType, sizes: Sequence[int], extra: int = 0, unused: Sequence[int] = ()
    ) -> Operand:
        """Draw a constant, or an access to a new tensor."""
        seed = self.draw(st.integers(0, 1 << 32))
        fill = int.from_bytes(encode_elements(sample_bits(seed, dtype, 1)).tobytes(), "little")
        if self.draw(st.integers(0, 5)) == 5:
            return immediate(dtype, fill)
        usable = [v for v in range(len(sizes) + extra) if v not in unused]
        rows = self.rows(sizes, usable)
        self.tensors.append(sample_bits(seed, dtype, prod(row.size for row in rows)))
        return Operand(Origin.BATCH, dtype, len(self.tensors) - 1, fill, rows)

    def types(self, signature: str) -> list[DType]:
        """Draw the types of a signature, the result's last."""
        kinds = {"F": (FLOAT32,), "I": INTEGERS, "B": (BOOL,), "X": tuple(DType), "Y": tuple(DType)}
        letters = signature.replace(">", "")
        chosen = {
            letter: self.draw(st.sampled_from(kinds[letter])) for letter in sorted(set(letters))
        }
        return [chosen[letter] for letter in letters]


MAPS = sorted(function for function in SIGNATURES if function is not Function.UNIFORM)
FOLDS = [
    *((function, FLOAT32) for function in (Function.ADD, Function.MUL, Function.MAX, Function.MIN)),
    *((function, INT32) for function in (Function.ADD, Function.MUL, Function.MAX, Function.MIN)),
    *((function, dtype) for function in (Function.AND, Function.OR) for dtype in (INT64, BOOL)),
]


CONTRACTED = [*[(FLOAT32, FLOAT32)] * 3, (INT8, INT32), (INT32, INT32), (INT64, INT64)]
"""The types of factors and of results of contractions."""


@st.composite
def map_cases(draw: st.DrawFn) -> Case:
    """Draw a map of any function, types, shape and accesses."""
    d = Draw(draw)
    function = draw(st.sampled_from(MAPS))
    *types, result = d.types(draw(st.sampled_from(SIGNATURES[function])))
    shape = d.shape(0, 3)
    operands = tuple(d.operand(dtype, shape) for dtype in types)
    return Case(Node(Kind.MAP, function, result, shape, operands), d.tensors)


@st.composite
def contract_cases(draw: st.DrawFn) -> Case:
    """Draw a contraction of any shape and accesses."""
    d = Draw(draw)
    shape, fold_shape = d.shape(0, 3), d.shape(1, 2)
    factor, result = draw(st.sampled_from(CONTRACTED))
    types = (result, factor, factor)
    operands = tuple(d.operand(dtype, shape + fold_shape) for dtype in types)
    return Case(Node(Kind.CONTRACT, Function.FMA, result, shape, operands, fold_shape), d.tensors)


@st.composite
def chain_cases(draw: st.DrawFn, arithmetic: Arithmetic) -> Case:
    """Draw a contraction whose factors are shorter than its numbers."""
    d, short = Draw(draw), arithmetic.short_factors
    assert short is not None
    shape, fold_shape = d.shape(0, 3), d.shape(1, 2)
    operands = tuple(d.operand(dtype, shape + fold_shape) for dtype in (FLOAT32, short, short))
    node = Node(Kind.CONTRACT, Function.FMA, FLOAT32, shape, operands, fold_shape)
    return Case(node, d.tensors, arithmetic)


@st.composite
def reduce_cases(draw: st.DrawFn) -> Case:
    """Draw a reduction by any function."""
    d = Draw(draw)
    shape, fold_shape = d.shape(0, 3), d.shape(1, 2)
    function, dtype = draw(st.sampled_from(FOLDS))
    operands = tuple(d.operand(dtype, shape + fold_shape) for _ in range(2))
    return Case(Node(Kind.REDUCE, function, dtype, shape, operands, fold_shape), d.tensors)


@st.composite
def position_cases(draw: st.DrawFn) -> Case:
    """Draw an argmax or argmin; many elements are equal, and init may be a position."""
    d = Draw(draw)
    shape, fold_shape = d.shape(0, 3), d.shape(1, 2)
    function = draw(st.sampled_from((Function.ARGMAX, Function.ARGMIN)))
    dtype = draw(st.sampled_from([FLOAT32, FLOAT32, INT32, BOOL, BFLOAT16, INT8]))
    operands = (d.operand(INT64, shape + fold_shape), d.operand(dtype, shape + fold_shape))
    return Case(Node(Kind.REDUCE, function, INT64, shape, operands, fold_shape), d.tensors)


@st.composite
def move_cases(draw: st.DrawFn) -> Case:
    """Draw a move of one to three candidates."""
    d = Draw(draw)
    shape, dtype = d.shape(0, 3), draw(st.sampled_from(list(DType)))
    operands = tuple(d.operand(dtype, shape) for _ in range(draw(st.integers(1, 3))))
    return Case(Node(Kind.MOVE, Function.COPY, dtype, shape, operands), d.tensors)


@st.composite
def gather_cases(draw: st.DrawFn) -> Case:
    """Draw a gather by one or two indices."""
    d = Draw(draw)
    shape, dtype = d.shape(0, 3), draw(st.sampled_from(list(DType)))
    types = draw(st.lists(st.sampled_from(INTEGERS), min_size=1, max_size=2))
    operands = (d.operand(dtype, shape, len(types)), *(d.operand(t, shape) for t in types))
    return Case(Node(Kind.GATHER, Function.COPY, dtype, shape, operands), d.tensors)


@st.composite
def scatter_cases(draw: st.DrawFn) -> Case:
    """Draw a scatter; its source and indices don't depend on the named dimensions, mostly."""
    d = Draw(draw)
    shape, fold_shape = d.shape(1, 3), d.shape(1, 2)
    copies = [(Function.COPY, dtype) for dtype in DType]
    adds = [(Function.ADD, FLOAT32)]
    function, dtype = draw(st.sampled_from(adds) | st.sampled_from(copies) | st.sampled_from(FOLDS))
    named = st.integers(0, len(shape) - 1)
    targets = tuple(draw(st.lists(named, min_size=1, max_size=2)))
    sizes = shape + fold_shape
    unused = targets if draw(st.integers(0, 3)) else ()
    types = [dtype, *(draw(st.sampled_from(INTEGERS)) for _ in targets)]
    others = (d.operand(t, sizes, unused=unused) for t in types)
    operands = (d.operand(dtype, sizes), *others)
    node = Node(Kind.SCATTER, function, dtype, shape, operands, fold_shape, targets=targets)
    return Case(node, d.tensors)


KINDS = {
    "map": map_cases(),
    "contract": contract_cases(),
    "reduce": reduce_cases(),
    "position": position_cases(),
    "move": move_cases(),
    "gather": gather_cases(),
    "scatter": scatter_cases(),
}
FOLDING = ("contract", "reduce", "position", "scatter")


@pytest.fixture(scope="module", params=["usual", "least"])
def limits(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run once with the usual limits, and once with blocks, slabs and parts as small as can be."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "least":
            patch.setattr(contractions, "_SLAB_BYTES", 32)
            patch.setattr(folds, "_SLAB_ELEMENTS", 4)
            patch.setattr(gathers, "_SLAB_ELEMENTS", 3)
            patch.setattr(indexing, "_SLAB_ELEMENTS", 5)
            patch.setattr(maps, "_BLOCK_ELEMENTS", 3)
            patch.setattr(maps, "_GRAIN_ELEMENTS", 1)
            patch.setattr(accesses, "_FEW_BOXES", 0)
            patch.setattr(accesses, "_LEAST_BOX", 4)
        yield request.param


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("kind", every(6, KINDS))
@given(data=st.data())
def test_node_equals_definition(kind: str, data: st.DataObject) -> None:
    """Any node's fast output is its definition's bit for bit, whatever the sizes of the parts."""
    data.draw(KINDS[kind]).check()


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("kind", every(6, ["contract", "reduce", "scatter"]))
@given(data=st.data())
def test_exact_sum_equals_definition(kind: str, data: st.DataObject) -> None:
    """Any fold's output in `exact` is its definition's, bit for bit, likewise."""
    data.draw(KINDS[kind]).check(EXACT)


@pytest.mark.parametrize("arithmetic", TENSOR, ids=str)
@given(data=st.data())
def test_chain_of_blocks_equals_definition(arithmetic: Arithmetic, data: st.DataObject) -> None:
    """Any contraction of bfloat16 is its definition's, bit for bit, and so are its accumulators."""
    case = data.draw(chain_cases(arithmetic))
    case.check(arithmetic)
    if case.node.elements:
        element = data.draw(st.integers(0, case.node.elements - 1))
        fast = get_engine(arithmetic).list_partials(case.node, element, case.flats)
        defined = compute_partials(arithmetic, case.node, element, STEP, case.fetch)
        assert [int.from_bytes(each.tobytes(), "little") for each in fast] == defined


@pytest.mark.parametrize("kind", FOLDING)
@given(data=st.data())
def test_partials_equal_definition(kind: str, data: st.DataObject) -> None:
    """All accumulators of any element of any fold are the definition's, bit for bit."""
    case = data.draw(KINDS[kind])
    node = case.node
    if node.elements:
        element = data.draw(st.integers(0, node.elements - 1))
        fast = list_partials(node, element, case.flats)
        defined = compute_partials(ORDERED, node, element, STEP, case.fetch)
        assert encode_elements(fast).tobytes() == canonical(node.dtype, defined)


def as_operand(reference: int, dtype: DType, shape: Sequence[int], first: int = 0) -> Operand:
    """Read a tensor of this shape by the variables from `first` on."""
    rows = tuple(Row(size, 0, ((first + axis, 1),)) for axis, size in enumerate(shape))
    return Operand(Origin.BATCH, dtype, reference, 0, rows)


@pytest.mark.parametrize("function", [f for f in MAPS if not f.is_transcendental])
def test_map_of_specials_equals_definition(function: Function) -> None:
    """Every combination of special floats gives what the definition says, in vector code too."""
    specials = np.array(SPECIALS, np.uint32).view(np.float32)
    for signature in SIGNATURES[function]:
        types = [BOOL if letter == "B" else FLOAT32 for letter in signature]
        if "I" in signature or signature.count("B") == len(signature) - 1:
            continue
        *letters, result = [t for t, letter in zip(types, signature, strict=True) if letter != ">"]
        pools = [specials if t is FLOAT32 else np.array([False, True]) for t in letters]
        tensors = [grid.reshape(-1).copy() for grid in np.meshgrid(*pools)]
        shape = tensors[0].shape
        operands = tuple(as_operand(i, t, shape) for i, t in enumerate(letters))
        Case(Node(Kind.MAP, function, result, shape, operands), tensors).check()


def test_fma_rounds_once() -> None:
    """A product halfway between two floats goes the way of an addend far below its last place."""
    x = np.float32(1 + 2**-12)
    factors = np.array([x, -x, x, -x], np.float32)
    tiny = np.array([2**-100, 2**-100, -(2**-100), -(2**-100)], np.float32)
    tensors = [factors, np.full(4, x, np.float32), tiny]
    operands = tuple(as_operand(i, FLOAT32, (4,)) for i in range(3))
    Case(Node(Kind.MAP, Function.FMA, FLOAT32, (4,), operands), tensors).check()


@pytest.mark.parametrize("function", [Function.ADD, Function.MUL, Function.MIN, Function.COPY])
@pytest.mark.parametrize("seed", range(3))
def test_long_scatter_equals_definition(function: Function, seed: int) -> None:
    """Hundreds of rows that land on a few rows are folded in ascending order."""
    rng = np.random.default_rng(seed)
    source = rng.normal(0, 1, (300, 2)).astype(np.float32).reshape(-1)
    indices = rng.integers(-1, 4, 300)
    operands = (
        immediate(FLOAT32, 0x3F800000 * (seed % 2)),
        Operand(Origin.BATCH, FLOAT32, 0, 0, (Row(600, 0, ((1, 1), (2, 2))),)),
        as_operand(1, INT64, (300,), 2),
    )
    node = Node(Kind.SCATTER, function, FLOAT32, (3, 2), operands, (300,), targets=(0,))
    Case(node, [source, indices]).check()


@pytest.mark.parametrize("function", [Function.ADD, Function.MAX, Function.MIN])
@pytest.mark.parametrize("length", [15, 16, 33, 100])
def test_long_fold_equals_definition(function: Function, length: int) -> None:
    """Folds as long as vectors, and longer, are those of the definition, bounds or not."""
    source = np.random.default_rng(length).normal(0, 1, 20 * length).astype(np.float32)
    for operand in (
        as_operand(0, FLOAT32, (20, length)),
        Operand(Origin.BATCH, FLOAT32, 0, 0, (Row(20 * length, 0, ((0, 1), (1, 20))),)),
        Operand(Origin.BATCH, FLOAT32, 0, 0, (Row(20 * length, -9, ((0, length), (1, 1))),)),
    ):
        operands = (immediate(FLOAT32, 0), operand)
        Case(Node(Kind.REDUCE, function, FLOAT32, (20,), operands, (length,)), [source]).check()


@pytest.mark.parametrize("row", [Row(4, 0, ((0, 2),), 2), Row(10, 6, ((0, 6),), 3), Row(4)])
def test_gather_of_divided_rows_equals_definition(row: Row) -> None:
    """A row beside the gathered one is read where it is, whatever its coordinate is divided by."""
    data = np.arange(row.size * 5, dtype=np.float32)
    rows = (row, Row(5, 0, ((2, 1),)))
    operands = (Operand(Origin.BATCH, FLOAT32, 0, 0, rows), as_operand(1, INT64, (3,), 1))
    for indices in ([4, 0, 2], [-1, 5, 1]):
        node = Node(Kind.GATHER, Function.COPY, FLOAT32, (4, 3), operands)
        Case(node, [data, np.array(indices)]).check()


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_random_equals_definition(seed: int, stream: int, count: int) -> None:
    """A random operator's numbers are those of its seed, stream, step and elements."""
    node = Node(Kind.RANDOM, Function.UNIFORM, FLOAT32, (count,), seed=seed, stream=stream)
    Case(node, ()).check()
