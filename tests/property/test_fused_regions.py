"""Fused kernels for programs on the rows and columns of a matrix, against the definition."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from math import prod
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.evaluate import (
    SIGNATURES,
    UndefinedTypesError,
    check_types,
    evaluate,
)
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import regions, vertical
from moot.offchain.backends.cpu.kernels.fused import columns as kernels_columns
from moot.offchain.backends.cpu.kernels.fused import frame, generate
from moot.offchain.backends.cpu.kernels.fused import vertical as kernels_vertical
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.native import buffers, division, emit
from moot.offchain.native.transcendental import registers
from moot.offchain.native.vectors import LANES
from moot.offchain.planning import assembly, grouping, roles
from moot.offchain.planning.region import Apply, Constant, Fold, Lanes, Load, Region
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.programs.legality import is_canonical
from tests.program_helpers import capture_function
from tests.quick import every, only, share

FLOAT32, INT64, INT32, BOOL, BFLOAT16, INT8 = DType

SPECIALS = {
    FLOAT32: [
        0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001,
        0x7F800001, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000,
        0x40200000, 0xBFC00000, 0x4F000000, 0xCF000000, 0x5F000000, 0xDF000000, 0x4EFFFFFF,
        0x3EAAAAAB, 0x4B000001, 0x42280000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F8000,
        0x7FFFFFFF, 0xFFFFFFFF,
    ],
    INT64: [0, 1, 2, 3, 7, 2**64 - 1, 2**64 - 2, 2**64 - 7, 2**63, 2**63 - 1, 2**53 + 1, 1 << 40],
    INT32: [0, 1, 2, 3, 7, 2**32 - 1, 2**32 - 2, 2**32 - 7, 2**31, 2**31 - 1, 2**24 + 1],
    BOOL: [0, 1],
    BFLOAT16: [
        0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81, 1, 0x7F, 0x80, 0x7F7F,
        0xFF7F, 0x3F00, 0x4F00, 0xCF00, 0x5F00, 0x3F81, 0x3F82,
    ],
    INT8: [0, 1, 2, 3, 7, 2**8 - 1, 2**8 - 2, 2**8 - 7, 2**7, 2**7 - 1],
}  # fmt: skip
"""Bits at which functions change their course."""


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the kernels of drawn programs out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def list_types(function: Function) -> list[tuple[DType, ...]]:
    """Return the types for which a function is defined: those of its operands, and its result's."""
    found = []
    for count in {len(signature.split(">")[0]) for signature in SIGNATURES[function]}:
        for types in product(DType, repeat=count + 1):
            try:
                check_types(function, types[:-1], types[-1])
            except UndefinedTypesError:
                continue
            found.append(types)
    return found


CASES = [(f, types) for f in sorted(emit.EXPRESSIBLE) for types in list_types(f)]


@pytest.mark.parametrize("lanes", only({16}, [16, 1]))
@pytest.mark.parametrize(("function", "types"), every(6, CASES), ids=str)
def test_function_of_specials_equals_definition(
    function: Function, types: tuple[DType, ...], lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every combination of special operands of every function gives what the definition says."""
    monkeypatch.setattr(frame, "LANES", lanes)
    *operand_types, result = types
    combinations = list(product(*(SPECIALS[dtype] for dtype in operand_types)))[:4096]
    columns = len(combinations)
    buffers = [
        np.array(bits, f"u{dtype.width}")
        for dtype, bits in zip(operand_types, zip(*combinations, strict=True), strict=True)
    ]
    loads = [Load(dtype, i, 0, (0,), 1) for i, dtype in enumerate(operand_types)]
    apply = Apply(result, function, tuple(range(len(loads))), is_row=False)
    region = Region((1,), columns, columns, 1, (*loads, apply), ((len(loads), len(loads)),))
    out = np.empty(columns, NUMPY_TYPES[result])
    pointers = np.array([a.ctypes.data for a in (*buffers, out)], np.int64)
    generate.Kernel(region).run(pointers.ctypes.data, 0, 1, 0, 0)
    defined = [evaluate(function, operand_types, result, bits) for bits in combinations]
    assert out.view(f"u{result.width}").tolist() == defined


@pytest.mark.parametrize("divisor", ["element", "row value", "constant"])
@pytest.mark.parametrize("columns", [64, 101])
def test_quotients_by_what_is_the_same_for_a_row_equal_definition(
    divisor: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Special and ordinary dividends, by special divisors, an element or a value of each row."""
    divided: list[object] = []
    divide = division.divide
    monkeypatch.setattr(
        division, "divide", lambda *operands: divided.append(operands) or divide(*operands)
    )
    rng = np.random.default_rng(columns)
    y = np.array([*SPECIALS[FLOAT32], 0x40400000, 0x41100001], np.uint32)
    y = np.full_like(y, 0x40400000) if divisor == "constant" else y
    drawn = rng.normal(size=(len(y), columns)).astype(np.float32).view(np.uint32)
    x = np.where(rng.random(drawn.shape) < 1 / 8, rng.choice(SPECIALS[FLOAT32], drawn.shape), drawn)
    x = x.astype(np.uint32)
    x[1] = np.resize([0, 0x80000000], columns)
    second = {
        "element": Load(FLOAT32, 1, 0, (1,), 0),
        "row value": Load(FLOAT32, 1, 0, (1,), None),
        "constant": Constant(FLOAT32, 0x40400000),
    }[divisor]
    values = Load(FLOAT32, 0, 0, (columns,), 1), second, Apply(FLOAT32, Function.DIV, (0, 1), False)
    region = Region((len(y),), columns, columns, 4, values, ((2, 2),))
    out = np.empty((len(y), columns), np.uint32)
    pointers = np.array([a.ctypes.data for a in (x, y, out)], np.int64)
    kernel = generate.Kernel(region)
    scratch = np.empty(kernel.scratch_bytes, np.uint8)
    kernel.run(pointers.ctypes.data, 0, len(y), scratch.ctypes.data, columns)
    types = [FLOAT32, FLOAT32]
    defined = [
        [evaluate(Function.DIV, types, FLOAT32, (a, b)) for a in row]
        for row, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    assert out.tolist() == defined
    assert bool(divided) == registers.ARE_USED


class Matrix:
    """A program while it is drawn: values on the rows and columns of a matrix.

    Args:
        rows: the extents of the rows' axes.
        columns: the number of columns.
        lanes: the lanes of sums in two steps.
    """

    def __init__(self, rows: tuple[int, ...], columns: int, lanes: int) -> None:
        self.rows, self.columns, self.lanes = rows, columns, lanes
        self.nodes: list[Node] = []
        shapes = {"x": self.whole, "y": self.whole, "w": (columns,), "r": rows, "i": rows}
        shapes |= {"j": (columns,), "k": self.whole}
        types = {"i": INT64, "j": INT64, "k": INT32}
        self.slots = tuple(
            Slot(name, types.get(name, FLOAT32), shape) for name, shape in shapes.items()
        )
        for place, slot in enumerate(self.slots):
            operand = read(place, slot.shape, range(len(slot.shape)), slot.dtype, Origin.STATE)
            self.emit(Kind.SOURCE, Function.COPY, slot.shape, (operand,), dtype=slot.dtype)
        self.full, self.row = [0, 1], [3]
        self.vertical: list[int] = []

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return (*self.rows, self.columns)

    def emit(
        self,
        kind: Kind,
        function: Function,
        shape: tuple[int, ...],
        operands: tuple[Operand, ...],
        fold_shape: tuple[int, ...] = (),
        targets: tuple[int, ...] = (),
        dtype: DType = FLOAT32,
    ) -> int:
        """Add an operator and return its index."""
        self.nodes.append(Node(kind, function, dtype, shape, operands, fold_shape, 0, 0, targets))
        return len(self.nodes) - 1

    def fold(
        self,
        function: Function,
        init: int,
        operand: int,
        *,
        in_lanes: bool,
        fill: int | None = None,
    ) -> int:
        """Fold the rows of a full value; a lane without a column left folds `fill`, or `init`."""
        shape, rank = self.whole, len(self.rows)
        start = immediate(FLOAT32, init)
        if not in_lanes:
            x = read(operand, shape, range(rank + 1))
            return self.emit(Kind.REDUCE, function, self.rows, (start, x), (self.columns,))
        lanes, steps = self.lanes, -(-self.columns // self.lanes)
        x = read(operand, shape, range(rank + 1))
        last = Row(self.columns, 0, ((rank, 1), (rank + 1, lanes)))
        fill = init if fill is None else fill
        x = Operand(x.origin, x.dtype, x.reference, fill, (*x.rows[:-1], last))
        partial = (*self.rows, lanes)
        inner = self.emit(Kind.REDUCE, function, partial, (start, x), (steps,))
        x = read(inner, partial, range(rank + 1))
        return self.emit(Kind.REDUCE, function, self.rows, (start, x), (lanes,))

    def fold_columns(self, function: Function, init: int, operand: int, *, in_lanes: bool) -> int:
        """Fold the columns of a full value."""
        rows, columns = prod(self.rows), self.columns
        start = immediate(FLOAT32, init)
        if not in_lanes:
            x = flat(operand, rows * columns, (1, columns))
            return self.emit(Kind.REDUCE, function, (columns,), (start, x), (rows,))
        lanes, steps = self.lanes, -(-rows // self.lanes)
        size = Row(rows, 0, ((1, 1), (2, lanes)))
        x = Operand(Origin.NODE, FLOAT32, operand, init, (size, Row(columns, 0, ((0, 1),))))
        inner = self.emit(Kind.REDUCE, function, (columns, lanes), (start, x), (steps,))
        x = flat(inner, columns * lanes, (lanes, 1))
        return self.emit(Kind.REDUCE, function, (columns,), (start, x), (lanes,))

    def one_hot(self, source: Operand) -> int:
        """Scatter one element into every row, at the column that slot `i` names."""
        rank = len(self.rows)
        operands = (immediate(FLOAT32, 0x3F800000), source, read(4, self.rows, range(rank), INT64))
        return self.emit(Kind.SCATTER, Function.COPY, self.whole, operands, (1,), (rank,))

    def pick(self, operand: int) -> int:
        """Gather one element of every row of a full value, from the column that `i` names."""
        rank = len(self.rows)
        data = read(operand, self.whole, range(rank + 1), value=0x40E00000)
        operands = (data, read(4, self.rows, range(rank), INT64))
        return self.emit(Kind.GATHER, Function.COPY, self.rows, operands)

    def gather(self, operand: int, named: str) -> int:
        """Gather a full value from the rows that `i` names, or the columns that `j` or `k` does."""
        rank, shape = len(self.rows), self.whole
        axes = {"i": (0, 4, INT64), "j": (rank, 5, INT64), "k": (rank, 6, INT32)}
        data, indices = read(operand, shape, range(rank + 1), value=0x40E00000), []
        rows = list(data.rows)
        for name in named:
            axis, place, dtype = axes[name]
            variables = {"i": range(rank), "j": [rank], "k": range(rank + 1)}[name]
            rows[axis] = Row(shape[axis], 0, ((rank + 1 + len(indices), 1),))
            indices.append(read(place, [shape[v] for v in variables], variables, dtype))
        data = Operand(data.origin, data.dtype, operand, data.value, tuple(rows))
        return self.emit(Kind.GATHER, Function.COPY, shape, (data, *indices))

    def finish(self, wanted: Sequence[int]) -> Program:
        """Return the program that keeps some values."""
        known = [slot.shape for slot in self.slots]
        slots = list(self.slots)
        results = [*range(len(known)), *wanted]
        for number, index in enumerate(wanted):
            slots.append(Slot(f"result.{number}", FLOAT32, self.nodes[index].shape))
        for slot, index in zip(slots, results, strict=True):
            operand = read(index, slot.shape, range(len(slot.shape)), slot.dtype)
            self.emit(Kind.SINK, Function.COPY, slot.shape, (operand,), dtype=slot.dtype)
        names = tuple(map(str, range(len(self.nodes))))
        return Program(tuple(slots), (), tuple(self.nodes), names, names)


def read(
    reference: int,
    shape: Sequence[int],
    variables: Sequence[int],
    dtype: DType = FLOAT32,
    origin: Origin = Origin.NODE,
    value: int = 0,
) -> Operand:
    """Read a tensor whose axes are these variables."""
    axes = zip(shape, variables, strict=True)
    rows = tuple(Row(n, 0, ((v, 1),) if n > 1 else ()) for n, v in axes)
    return Operand(origin, dtype, reference, value, rows)


def flat(reference: int, size: int, strides: Sequence[int]) -> Operand:
    """Read a tensor as a linear function of the variables."""
    terms = tuple((v, stride) for v, stride in enumerate(strides))
    return Operand(Origin.NODE, FLOAT32, reference, 0, (Row(size, 0, terms),))


UNARY = (Function.NEG, Function.SQRT, Function.FLOOR, Function.COPY, Function.RSQRT, Function.EXP)
BINARY = (Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MAX, Function.MIN)
FOLDS = ((Function.ADD, 0), (Function.MAX, 0xFF800000), (Function.MIN, 0x7F800000))
ODD_FOLDS = ((Function.MUL, 0x3F800000), (Function.ADD, 0x80000000), (Function.MAX, 0x3F800000))


COLUMNS = [17, 2, 3, 4, 7, 8, 16, 31, 33, 40]
"""Columns of drawn matrices."""


@st.composite
def matrices(draw: st.DrawFn, of: Sequence[int] = COLUMNS) -> Program:
    """Draw a program of maps, folds of rows and columns, scatters and gathers on one matrix."""
    rows = draw(st.sampled_from([(3,), (1,), (2,), (5,), (2, 3), (1, 4), (18,)]))
    columns = draw(st.sampled_from(of))
    matrix = Matrix(rows, columns, draw(st.sampled_from([8, 4, 2])))
    for _ in range(draw(st.integers(3, 9))):
        _draw_step(draw, matrix)
    values = {*matrix.full, *matrix.row, *matrix.vertical}
    used = {operand.reference for node in matrix.nodes for operand in node.operands}
    others = draw(st.sets(st.sampled_from(sorted(values)), max_size=2))
    return matrix.finish(sorted((values - used) | others))


def _draw_step(draw: st.DrawFn, matrix: Matrix) -> None:
    kinds = ["fold", "full", "row"] * 3 + ["columns", "hot", "pick", "gather", "gather"]
    kind = draw(st.sampled_from(kinds))
    full = draw(st.sampled_from(matrix.full[-3:]))
    if kind in {"fold", "columns"}:
        function, init = draw(st.sampled_from(FOLDS * 2 + ODD_FOLDS))
        in_lanes = draw(st.integers(0, 3)) > 0
        if kind == "fold":
            matrix.row.append(matrix.fold(function, init, full, in_lanes=in_lanes))
        else:
            matrix.vertical.append(matrix.fold_columns(function, init, full, in_lanes=in_lanes))
        return
    rank = len(matrix.rows)
    row = read(draw(st.sampled_from(matrix.row[-3:])), matrix.rows, range(rank))
    if kind == "hot":
        matrix.full.append(matrix.one_hot(row))
    elif kind == "gather":
        named = draw(st.sampled_from(["j", "k", "i", "ij", "ik"]))
        matrix.full.append(matrix.gather(draw(st.sampled_from([0, 1, full])), named))
    elif kind == "pick":
        matrix.row.append(matrix.pick(full))
    else:
        shape = matrix.rows if kind == "row" else matrix.whole
        function = draw(st.sampled_from(UNARY) | st.sampled_from(BINARY))
        count = 1 if function in UNARY else 2
        operands = tuple(
            _draw_operand(draw, matrix, row, is_row=kind == "row") for _ in range(count)
        )
        index = matrix.emit(Kind.MAP, function, shape, operands)
        (matrix.row if kind == "row" else matrix.full).append(index)


def _draw_operand(draw: st.DrawFn, matrix: Matrix, row: Operand, *, is_row: bool) -> Operand:
    """Draw what a map reads: a full value, one of the row's, the columns', or a constant."""
    kind = draw(st.sampled_from(["full"] * 4 + ["row"] * 2 + ["columns", "constant"]))
    if kind == "constant":
        constants = [bits for bits in SPECIALS[FLOAT32] if is_canonical(FLOAT32, bits)]
        return immediate(FLOAT32, draw(st.sampled_from(constants)))
    if is_row or kind == "row":
        return row
    rank = len(matrix.rows)
    if kind == "columns":
        return read(2, (matrix.columns,), (rank,))
    return read(draw(st.sampled_from(matrix.full[-3:])), matrix.whole, range(rank + 1))


def encode(arrays: Sequence[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


def draw_state(program: Program, seed: int) -> list[Array]:
    """Return tensors of ordinary numbers with a few special ones, and columns in range or not."""
    rng = np.random.default_rng(seed)
    specials = np.array(SPECIALS[FLOAT32], np.uint32).view(np.float32)
    state: list[Array] = []
    for slot in program.state:
        if slot.dtype is not FLOAT32:
            index = rng.integers(-1, program.state[0].shape[-1] + 1, slot.shape)
            index = np.sort(index) if rng.integers(2) else index
            state.append(index.astype(NUMPY_TYPES[slot.dtype]))
            continue
        x = rng.normal(0, 3, slot.shape).astype(np.float32)
        chosen = rng.random(slot.shape) < rng.choice([0, 0.02, 0.3])
        state.append(np.where(chosen, rng.choice(specials, slot.shape), x).astype(np.float32))
    return state


@contextmanager
def changed(settings: Mapping[tuple[ModuleType, str], object]) -> Iterator[None]:
    """Let planning and kernels have other numbers; no kernel made with them stays."""
    caches = generate.compile_region, kernels_vertical.compile_fold
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for (module, name), value in settings.items():
            patch.setattr(module, name, value)
        for kernels in caches:
            kernels.cache_clear()
            stack.callback(kernels.cache_clear)
        yield


def check(
    program: Program,
    state: Sequence[Array],
    settings: Mapping[tuple[ModuleType, str], object],
    threads: int = 1,
) -> None:
    """Check that a program has the definition's outputs, whatever the settings are."""
    with np.errstate(all="ignore"):
        defined = encode(run_step(program, state, (), 0))
    with changed({(grouping, "_LEAST_ELEMENTS"): 0, **settings}):
        assert encode(Executor(program, threads).run(state, (), 0)) == defined


@settings(max_examples=share(100, 24), deadline=None)
@given(
    program=matrices(),
    seed=st.integers(0, 99),
    lanes=st.sampled_from([16, 16, 8, 4, 1]),
    block=st.sampled_from([1, 300, 1 << 18]),
    threads=st.integers(1, 2),
    is_wide=st.booleans(),
)
def test_regions_equal_definition(
    program: Program, seed: int, lanes: int, block: int, threads: int, *, is_wide: bool
) -> None:
    """Fused or not, for any vectors, blocks, threads and parts: outputs are the definition's."""
    wide = {(roles, "SMALL_ELEMENTS"): 0, (roles, "FEW_ROWS"): 99}
    settings = {
        (frame, "LANES"): lanes,
        (kernels_vertical, "LANES"): lanes,
        (assembly, "_PART_COLUMNS"): 24,
        (kernels_columns, "_FAR_COLUMNS"): block,
        (regions, "_BLOCK_BYTES"): block,
        (regions, "_MAX_BLOCK_BYTES"): block,
        (regions, "_GRAIN_BYTES"): 1,
        (regions, "_GRAIN_PARTS"): 1,
    }
    check(program, draw_state(program, seed), settings | (wide if is_wide else {}), threads)


@settings(max_examples=share(60), deadline=None)
@given(
    program=matrices([LANES, 2 * LANES, 5 * LANES]), seed=st.integers(0, 99), is_cut=st.booleans()
)
def test_streamed_regions_equal_definition(program: Program, seed: int, *, is_cut: bool) -> None:
    """What is stored past the caches is the definition's, also what the kernel reads again."""
    settings = {
        (assembly, "_PART_COLUMNS"): 3 * LANES if is_cut else 1 << 20,
        (regions, "_STREAMED_BYTES"): 0,
        (buffers, "_LEAST_BYTES"): 0,  # all begin where lines do
    }
    check(program, draw_state(program, seed), settings)


STREAMED = "!nontemporal"


@pytest.mark.parametrize(
    ("columns", "is_streamed"), [(4 * LANES, True), (4 * LANES, False), (4 * LANES + 4, True)]
)
def test_only_whole_lines_are_streamed(columns: int, *, is_streamed: bool) -> None:
    """Stores go past the caches if the region says so and each row begins with a line."""
    load = Load(FLOAT32, 0, 0, (columns,), 1)
    negate = Apply(FLOAT32, Function.NEG, (0,), is_row=False)
    region = Region((8,), columns, columns, 8, (load, negate), ((1, 1),), is_streamed=is_streamed)
    found = STREAMED in str(generate.write(region)[0])
    assert found == (is_streamed and columns % LANES == 0)


def test_what_is_read_again_is_not_streamed() -> None:
    """A full value that a later pass reads stays in the caches."""
    columns = 4 * LANES
    load = Load(FLOAT32, 0, 0, (columns,), 1)
    power = Apply(FLOAT32, Function.EXP, (0,), is_row=False)
    lanes = Lanes(FLOAT32, Function.ADD, 1, LANES, 0, 0)
    total = Fold(FLOAT32, Function.ADD, 2, 0)
    share = Apply(FLOAT32, Function.DIV, (1, 3), is_row=False)

    def count(*stores: tuple[int, int]) -> int:
        values = load, power, lanes, total, share
        region = Region((8,), columns, columns, 8, values, stores, is_streamed=True)
        return str(generate.write(region)[0]).count(f", {STREAMED}")

    powers, shares = (1, 1), (4, 2)
    assert count(powers) >= 1
    assert count(shares) == count(powers, shares) == 1


@pytest.mark.parametrize("megabytes", [4, 8])
def test_regions_stream_what_caches_do_not_hold(
    megabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only large outputs go past the caches."""
    matrix = Matrix((megabytes << 8,), 1 << 10, 4)
    operand = read(0, matrix.whole, range(2))
    program = matrix.finish([matrix.emit(Kind.MAP, Function.NEG, matrix.whole, (operand,))])
    state = [np.ones(slot.shape, NUMPY_TYPES[slot.dtype]) for slot in program.state]
    compiled: list[Region] = []

    def compile_region(region: Region) -> generate.Kernel | generate.WideKernel:
        compiled.append(region)
        return generate.compile_region(region)

    monkeypatch.setattr(regions, "compile_region", compile_region)
    *_, result = Executor(program).run(state, (), 0)
    assert [region.is_streamed for region in compiled] == [megabytes == 8]
    assert (np.asarray(result) == -1).all()


LINES = {
    "ascending": np.arange(64),
    "descending": np.arange(64)[::-1],
    "doubled": np.arange(64) // 2,
    "the last ones": np.full(64, 63) - np.arange(64) % 3,
    "with ends outside": np.arange(64) * 2 - 64,
    "far apart": np.arange(64) * 29 % 64,
}


@pytest.mark.parametrize("lanes", [16, 8, 4])
@pytest.mark.parametrize("name", LINES)
def test_elements_of_lines_equal_definition(name: str, lanes: int) -> None:
    """Columns that indices name are the definition's, close together in a line or far apart."""
    matrix = Matrix((3,), 64, 4)
    gathered = matrix.gather(0, "j")
    operand = read(gathered, matrix.whole, range(2))
    program = matrix.finish([matrix.emit(Kind.MAP, Function.NEG, matrix.whole, (operand,))])
    state = draw_state(program, 0)
    state[5] = LINES[name].astype(np.int64)
    check(program, state, {(frame, "LANES"): lanes})


@settings(max_examples=share(60), deadline=None)
@given(
    st.sampled_from([32, 33, 39, 47, 64, 70]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([(Function.ADD, 0), (Function.MUL, 0x3F800000), (Function.MAX, 0xFF800000)]),
    st.sampled_from([16, 8, 2]),
    st.integers(0, 99),
    st.sampled_from([1 << 16, 0]),
)
def test_folds_of_transcendental_values_equal_definition(
    columns: int, in_lanes: int, fold: tuple[Function, int], lanes: int, seed: int, small: int
) -> None:
    """A vector with the columns of several steps is folded step by step, and fills the last one."""
    matrix = Matrix((5,), columns, in_lanes)
    operands = (read(0, matrix.whole, range(2)),)
    power = matrix.emit(Kind.MAP, Function.EXP, matrix.whole, operands)
    program = matrix.finish([power, matrix.fold(*fold, power, in_lanes=True, fill=0x40E00000)])
    settings = {(frame, "LANES"): lanes, (roles, "SMALL_ELEMENTS"): small}
    check(program, draw_state(program, seed), settings)


@st.composite
def vertical_folds(draw: st.DrawFn) -> Program:
    """Draw the fold of the columns of some matrices side by side, in lanes or not."""
    matrices, rows = draw(st.integers(1, 3)), draw(st.sampled_from([5, 2, 8, 9, 18]))
    columns, lanes = draw(st.sampled_from([8, 9, 19, 40, 150])), draw(st.sampled_from([4, 1, 2]))
    function, init = draw(st.sampled_from(FOLDS + ODD_FOLDS))
    fill = draw(st.sampled_from([0x40E00000, init]))
    shape, whole = (matrices, columns), (matrices, rows, columns)
    source = read(0, whole, range(3), origin=Origin.STATE)
    start = immediate(FLOAT32, init)
    nodes = [Node(Kind.SOURCE, Function.COPY, FLOAT32, whole, (source,))]
    if draw(st.integers(0, 3)):
        terms = ((0, 1),), ((2, 1), (3, lanes)), ((1, 1),)
        axes = tuple(Row(n, 0, t) for n, t in zip(whole, terms, strict=True))
        x, inner = Operand(Origin.NODE, FLOAT32, 0, fill, axes), (*shape, lanes)
        fold_shape = (-(-rows // lanes),)
        nodes.append(Node(Kind.REDUCE, function, FLOAT32, inner, (start, x), fold_shape))
        x, fold_shape = flat(1, matrices * columns * lanes, (columns * lanes, lanes, 1)), (lanes,)
        function = draw(st.sampled_from([function, Function.ADD]))
    else:
        x, fold_shape = flat(0, matrices * rows * columns, (rows * columns, 1, columns)), (rows,)
    nodes.append(Node(Kind.REDUCE, function, FLOAT32, shape, (start, x), fold_shape))
    last = read(len(nodes) - 1, shape, range(2))
    nodes.append(Node(Kind.SINK, Function.COPY, FLOAT32, whole, (read(0, whole, range(3)),)))
    nodes.append(Node(Kind.SINK, Function.COPY, FLOAT32, shape, (last,)))
    names = tuple(map(str, range(len(nodes))))
    slots = (Slot("x", FLOAT32, whole), Slot("sum", FLOAT32, shape))
    return Program(slots, (), tuple(nodes), names, names)


@settings(max_examples=share(100, 40), deadline=None)
@given(vertical_folds(), st.integers(0, 99), st.sampled_from([16, 8, 4, 1]), st.integers(1, 2))
def test_vertical_folds_equal_definition(
    program: Program, seed: int, lanes: int, threads: int
) -> None:
    """Columns are folded in the order of the rows, in parts of any width and on any threads."""
    settings = {(kernels_vertical, "LANES"): lanes, (vertical, "_GRAIN_BYTES"): 1}
    check(program, draw_state(program, seed), settings, threads)


@pytest.mark.parametrize("shape", [(3, 5, 40, 100), (30, 2, 65, 48)])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_matrix_of_a_vertical_fold_is_folded(
    shape: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read where it begins, and its parts shared out, alone and in a sequence."""
    monkeypatch.setattr(vertical, "_GRAIN_BYTES", 1)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    captured = capture_function(lambda x: x.amax(2), x)
    executor = Executor(captured.program, threads)
    plans = [job.plan for job in executor._prepared.fused.jobs]
    assert any(isinstance(plan, vertical.VerticalReduction) for plan in plans)
    for _ in range(5):
        (found,) = executor.run(captured.initial_state, [x.numpy()], 0)
        assert found.tobytes() == x.amax(2).numpy().tobytes()


class Batch:
    """A program while it is drawn: values on the channels of a batch of images.

    Args:
        images: the number of images.
        channels: the number of channels.
        columns: the elements of a channel in an image.
        lanes: the lanes of folds.
    """

    def __init__(self, images: int, channels: int, columns: int, lanes: int) -> None:
        self.shape = images, channels, columns
        self.lanes = lanes
        shapes = [self.shape, (channels, images, columns), (channels,)]
        self.slots = [Slot(name, FLOAT32, shape) for name, shape in zip("xyr", shapes, strict=True)]
        self.nodes = [
            Node(
                Kind.SOURCE,
                Function.COPY,
                FLOAT32,
                slot.shape,
                (read(i, slot.shape, range(len(slot.shape)), origin=Origin.STATE),),
            )
            for i, slot in enumerate(self.slots)
        ]
        self.full, self.row = [0], [2]

    def add(self, node: Node) -> int:
        """Add an operator and return its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def read_full(self, index: int) -> Operand:
        """Read a tensor of all elements, or that of the images of each channel."""
        images, channels, columns = self.shape
        if index == 1:
            return read(1, (channels, images, columns), (1, 0, 2))
        return read(index, self.shape, range(3))

    def fold(self, function: Function, init: int, fill: int, outer: Function, index: int) -> None:
        """Fold every channel, in lanes along each image, and then the lanes."""
        images, channels, columns = self.shape
        terms = ((2, 1),), ((0, 1),), ((1, 1), (3, self.lanes))
        rows = tuple(Row(n, 0, t) for n, t in zip(self.shape, terms, strict=True))
        x = Operand(Origin.NODE, FLOAT32, index, fill, rows)
        start, inner = immediate(FLOAT32, init), (channels, self.lanes)
        steps = images, -(-columns // self.lanes)
        lanes = self.add(Node(Kind.REDUCE, function, FLOAT32, inner, (start, x), steps))
        total = flat(lanes, channels * self.lanes, (self.lanes, 1))
        last = Node(Kind.REDUCE, outer, FLOAT32, (channels,), (start, total), (self.lanes,))
        self.row.append(self.add(last))

    def finish(self, wanted: Sequence[int]) -> Program:
        """Return the program that keeps some values."""
        slots = [*self.slots, *(Slot(f"result.{i}", FLOAT32, self.nodes[i].shape) for i in wanted)]
        for slot, index in zip(slots, [*range(len(self.slots)), *wanted], strict=True):
            operand = read(index, slot.shape, range(len(slot.shape)))
            self.add(Node(Kind.SINK, Function.COPY, FLOAT32, slot.shape, (operand,)))
        names = tuple(map(str, range(len(self.nodes))))
        return Program(tuple(slots), (), tuple(self.nodes), names, names)


@st.composite
def batches(draw: st.DrawFn) -> Program:
    """Draw a program of maps and folds of channels, each of which lies in several images."""
    batch = Batch(
        draw(st.sampled_from([3, 2, 1])),
        draw(st.sampled_from([4, 1, 5, 18])),
        draw(st.sampled_from([4, 7, 8, 9, 16, 19, 33, 70])),
        draw(st.sampled_from([4, 1, 2, 8, 16])),
    )
    for kind in draw(st.lists(st.sampled_from(["fold", "full", "row", "full"]), min_size=3)):
        if kind == "fold":
            function, init = draw(st.sampled_from(FOLDS * 2 + ODD_FOLDS))
            fill = draw(st.sampled_from([init, 0x40E00000]))
            outer = draw(st.sampled_from([function, Function.ADD]))
            batch.fold(function, init, fill, outer, draw(st.sampled_from(batch.full[-3:])))
            continue
        row = draw(st.sampled_from(batch.row[-3:]))
        function = draw(st.sampled_from(UNARY) | st.sampled_from(BINARY))
        operands = []
        for _ in range(1 if function in UNARY else 2):
            if kind == "row":
                operands.append(read(row, (batch.shape[1],), [0]))
            elif draw(st.integers(0, 2)):
                operands.append(batch.read_full(draw(st.sampled_from([1, *batch.full[-3:]]))))
            else:
                operands.append(read(row, (batch.shape[1],), [1]))
        shape = batch.shape[1:2] if kind == "row" else batch.shape
        index = batch.add(Node(Kind.MAP, function, FLOAT32, shape, tuple(operands)))
        (batch.row if kind == "row" else batch.full).append(index)
    values = {*batch.full, *batch.row} - {0, 2}
    used = {operand.reference for node in batch.nodes for operand in node.operands}
    others = draw(st.sets(st.sampled_from(sorted(values)), max_size=2))
    return batch.finish(sorted((values - used) | others))


@settings(max_examples=share(60, 24), deadline=None)
@given(
    program=batches(),
    seed=st.integers(0, 99),
    lanes=st.sampled_from([16, 16, 8, 4, 1]),
    block=st.sampled_from([1, 300, 1 << 18]),
    threads=st.integers(1, 2),
    is_near=st.booleans(),
    is_streamed=st.booleans(),
)
def test_rows_in_segments_equal_definition(
    program: Program,
    seed: int,
    lanes: int,
    block: int,
    threads: int,
    *,
    is_near: bool,
    is_streamed: bool,
) -> None:
    """Channels are folded one image after another, with maps before and after, in any blocks."""
    settings = {
        (frame, "LANES"): lanes,
        (grouping, "_MOST_IN_SEGMENTS"): 1 << 18 if is_near else 0,
        (roles, "_LEAST_ROWS"): 1,
        (regions, "_BLOCK_BYTES"): block,
        (regions, "_MAX_BLOCK_BYTES"): block,
        (regions, "_GRAIN_BYTES"): 1,
        (regions, "_STREAMED_BYTES"): 0 if is_streamed else 8 << 20,
        (buffers, "_LEAST_BYTES"): 0,
    }
    check(program, draw_state(program, seed), settings, threads)


def make_normalization(images: int, columns: int) -> Program:
    """Return a program that takes sums off each channel's elements, and adds up their squares."""
    batch = Batch(images, 8, columns, 4)
    batch.fold(Function.ADD, 0, 0, Function.ADD, 0)
    operands = batch.read_full(0), read(batch.row[-1], (8,), [1])
    centred = batch.add(Node(Kind.MAP, Function.SUB, FLOAT32, batch.shape, operands))
    operands = batch.read_full(centred), batch.read_full(centred)
    square = batch.add(Node(Kind.MAP, Function.MUL, FLOAT32, batch.shape, operands))
    batch.fold(Function.ADD, 0, 0, Function.ADD, square)
    return batch.finish([centred, batch.row[-1]])


@pytest.mark.parametrize(("images", "together"), [(4, [6]), (1 << 13, [2, 4])])
def test_channels_that_caches_hold_are_read_once(images: int, together: list[int]) -> None:
    """Sums of channels and what is computed of them are one region, if a channel stays near."""
    program = make_normalization(images, 64)
    sources = [i for i, node in enumerate(program.nodes) if node.kind is Kind.SOURCE]
    sinks = [i for i, node in enumerate(program.nodes) if node.kind is Kind.SINK]
    needed = range(len(program.nodes))
    units = grouping.group(program, needed, sinks, {*sources, *sinks})
    groups = [unit for unit in units if isinstance(unit, roles.Group)]
    assert [len(found.members) for found in groups] == together
    assert [found.segments for found in groups] == [images] * len(groups)


@pytest.mark.parametrize("block", [1, 1 << 18])
@pytest.mark.parametrize("columns", [9, 33, 70])
def test_values_of_all_segments_are_kept_between_passes(columns: int, block: int) -> None:
    """What is not cheap is there for the next pass, in each image of a channel."""
    batch = Batch(3, 5, columns, 4)
    power = batch.add(Node(Kind.MAP, Function.EXP, FLOAT32, batch.shape, (batch.read_full(0),)))
    batch.fold(Function.ADD, 0, 0, Function.ADD, power)
    operands = batch.read_full(power), read(batch.row[-1], (5,), [1])
    share = batch.add(Node(Kind.MAP, Function.DIV, FLOAT32, batch.shape, operands))
    program = batch.finish([share])
    check(program, draw_state(program, 1), {(regions, "_MAX_BLOCK_BYTES"): block})


def test_segments_along_several_axes_are_read_in_order() -> None:
    """What lies in another order than the segments is copied first."""
    whole, turned, channels = (2, 3, 5, 9), (3, 2, 5, 9), (5,)
    start, inner = immediate(FLOAT32, 0), (5, 4)
    terms = ((2, 1),), ((3, 1),), ((0, 1),), ((1, 1), (4, 4))
    rows = tuple(Row(n, 0, t) for n, t in zip(whole, terms, strict=True))
    x = read(0, turned, range(4), origin=Origin.STATE)
    operands = read(0, turned, (1, 0, 2, 3)), read(0, turned, (1, 0, 2, 3))
    square = Operand(Origin.NODE, FLOAT32, 1, 0, rows)
    nodes = (
        Node(Kind.SOURCE, Function.COPY, FLOAT32, turned, (x,)),
        Node(Kind.MAP, Function.MUL, FLOAT32, whole, operands),
        Node(Kind.REDUCE, Function.ADD, FLOAT32, inner, (start, square), (2, 3, 3)),
        Node(Kind.REDUCE, Function.ADD, FLOAT32, channels, (start, flat(2, 20, (4, 1))), (4,)),
        Node(Kind.SINK, Function.COPY, FLOAT32, turned, (read(0, turned, range(4)),)),
        Node(Kind.SINK, Function.COPY, FLOAT32, channels, (read(3, channels, [0]),)),
    )
    names = tuple(map(str, range(len(nodes))))
    slots = (Slot("x", FLOAT32, turned), Slot("sum", FLOAT32, channels))
    program = Program(slots, (), nodes, names, names)
    with changed({(grouping, "_LEAST_ELEMENTS"): 0}):
        (found,) = grouping.group(program, [1, 2, 3], [3], (), known=[0])
    assert isinstance(found, roles.Group)
    assert found.segments == 6
    check(program, draw_state(program, 3), {})


def write_segments(segments: int) -> str:
    """Return the code of a region that takes sums off elements, of which it keeps two values."""
    load = Load(FLOAT32, 0, 0, (4 * LANES,), 1, 32 * LANES)
    negate = Apply(FLOAT32, Function.NEG, (0,), is_row=False)
    lanes = Lanes(FLOAT32, Function.ADD, 1, LANES, 0, 0)
    total = Fold(FLOAT32, Function.ADD, 2, 0)
    last = Apply(FLOAT32, Function.SUB, (1, 3), is_row=False)
    region = Region(
        (8,),
        4 * LANES,
        4 * LANES,
        8,
        (load, negate, lanes, total, last),
        ((1, 1), (4, 2)),
        is_streamed=True,
        segments=segments,
    )
    return str(generate.write(region)[0])


def test_what_is_cheap_is_computed_again_and_streamed() -> None:
    """Rows in segments do not stay near, so that a kept value is streamed if it is cheap."""
    assert write_segments(2).count(f", {STREAMED}") == 2
    assert "llvm.prefetch" in write_segments(2)
    assert "llvm.prefetch" not in write_segments(1)


def test_row_values_along_columns_are_not_confused() -> None:
    """In a square matrix, a map that reads the rows' folds by column is not a part of the rows."""
    matrix = Matrix((8,), 8, 4)
    sums = matrix.fold(Function.ADD, 0, 0, in_lanes=False)
    for variable in range(2):
        operands = (read(0, matrix.whole, range(2)), read(sums, (8,), [variable]))
        matrix.full.append(matrix.emit(Kind.MAP, Function.MUL, matrix.whole, operands))
    program = matrix.finish(matrix.full[-2:])
    check(program, draw_state(program, 1), {})
