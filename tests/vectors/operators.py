"""Vectors of the operator kinds: one operator on given tensors, with its output."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.execution.readable import run_step
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, immediate
from tests.vectors.contractions import Cases, convolutions, products
from tests.vectors.files import Document, make_document
from tests.vectors.notation import wrap, write_node, write_tensor
from tests.vectors.tensors import (
    BOOL,
    FLOAT32,
    INFINITY,
    INT32,
    INT64,
    MINUS_INFINITY,
    MINUS_ONE,
    NAN,
    ONE,
    draw,
    reads,
    row,
    whole,
)

_THREE = immediate(FLOAT32, 0x40400000)


def map_node(function: Function, shape: tuple[int, ...], *operands: Operand) -> Node:
    """Return a map of floats."""
    return Node(Kind.MAP, function, FLOAT32, shape, operands)


def maps() -> Cases:
    """Yield maps: broadcast by strides, out of range, of every rank and type."""
    x, y, z = (draw(f"map {name}", FLOAT32, 3, 4, specials=0.3) for name in "xyz")
    fma = map_node(Function.FMA, (3, 4), whole(0, x), whole(1, y), whole(2, z))
    yield "fma of three tensors", fma, [x, y, z]

    vector = draw("map vector", FLOAT32, 4)
    product = map_node(Function.MUL, (3, 4), whole(0, x), reads(1, FLOAT32, row(4, 1)))
    yield "a vector broadcast over rows", product, [x, vector]
    yield "division by a constant", map_node(Function.DIV, (3, 4), whole(0, x), _THREE), [x]

    outside = reads(0, FLOAT32, row(3, 0, -1), row(4, {1: -2}, 5), fill=MINUS_ONE)
    window = map_node(Function.ADD, (3, 4), whole(0, x), outside)
    yield "a window that leaves the tensor", window, [x]

    scalar = map_node(Function.EXP, (), reads(0, FLOAT32))
    yield "a scalar", scalar, [draw("map scalar", FLOAT32)]
    empty = np.zeros((0, 3), np.float32)
    yield "no elements", map_node(Function.NEG, (0, 3), whole(0, empty)), [empty]

    flags = draw("map flags", BOOL, 6)
    a, b = draw("map a", INT64, 6), draw("map b", INT64, 6)
    operands = (whole(0, flags), whole(1, a), whole(2, b))
    choice = Node(Kind.MAP, Function.WHERE, INT64, (6,), operands)
    yield "a choice of integers", choice, [flags, a, b]

    less = Node(Kind.MAP, Function.LT, BOOL, (3, 4), (whole(0, x), whole(1, y)))
    yield "a comparison", less, [x, y]
    yield "a conversion", Node(Kind.MAP, Function.CONVERT, INT32, (3, 4), (whole(0, x),)), [x]


def reduce_node(
    function: Function, start: int | Operand, operand: Operand, shape: Sequence[int], *fold: int
) -> Node:
    """Return a fold from a constant or an operand; a position is an INT64."""
    is_position = function in (Function.ARGMAX, Function.ARGMIN)
    dtype = INT64 if is_position else operand.dtype
    first = immediate(dtype, start) if isinstance(start, int) else start
    return Node(Kind.REDUCE, function, dtype, tuple(shape), (first, operand), fold)


_STARTS = {
    Function.ADD: 1 << 31,
    Function.MUL: ONE,
    Function.MAX: MINUS_INFINITY,
    Function.MIN: INFINITY,
}


def reductions() -> Cases:
    """Yield folds of floats over one axis, over two, over windows, and from a tensor."""
    x = draw("reduce", FLOAT32, 3, 7, specials=0.1)
    last = reads(0, FLOAT32, row(3, 0), row(7, 1))
    first = reads(0, FLOAT32, row(3, 1), row(7, 0))
    for function, start in _STARTS.items():
        name = function.name.lower()
        yield f"{name} over the last axis", reduce_node(function, start, last, [3], 7), [x]
        yield f"{name} over the first axis", reduce_node(function, start, first, [7], 3), [x]

    plain = draw("plain", FLOAT32, 3, 7)
    both = reads(0, FLOAT32, row(3, 0), row(7, 1))
    yield "add over both axes", reduce_node(Function.ADD, 0, both, [], 3, 7), [plain]
    starting = reduce_node(Function.ADD, reads(1, FLOAT32, row(3, 0)), last, [3], 7)
    yield "add from a tensor", starting, [plain, draw("start", FLOAT32, 3)]
    window = reads(0, FLOAT32, row(9, {0: 2, 1: 1}, -1), fill=MINUS_INFINITY)
    pooled = reduce_node(Function.MAX, MINUS_INFINITY, window, [5], 3)
    yield "the maximum of padded windows", pooled, [draw("pooled", FLOAT32, 9)]


def other_reductions() -> Cases:
    """Yield folds of integers and flags, and the positions of extremes."""
    integers = draw("large", INT64, 2, 5, below=1 << 64)
    wrapping = reduce_node(Function.ADD, 0, reads(0, INT64, row(2, 0), row(5, 1)), [2], 5)
    yield "integers that wrap", wrapping, [integers]
    flags = draw("flags", BOOL, 3, 4)
    for function, start in {Function.AND: 1, Function.OR: 0}.items():
        node = reduce_node(function, start, reads(0, BOOL, row(3, 0), row(4, 1)), [3], 4)
        yield f"{function.name.lower()} of flags", node, [flags]
    ties = draw("ties", FLOAT32, 5, 6, specials=0.7)
    operand, no_position = reads(0, FLOAT32, row(5, 0), row(6, 1)), (1 << 64) - 1
    for function in (Function.ARGMAX, Function.ARGMIN):
        node = reduce_node(function, no_position, operand, [5], 6)
        yield f"{function.name.lower()} with ties", node, [ties]


def moves() -> Cases:
    """Yield copies: transposed, sliced backwards, padded, concatenated, spread."""
    x, y = draw("move x", FLOAT32, 3, 4, specials=0.4), draw("move y", FLOAT32, 2, 4)

    def move(shape: tuple[int, ...], *operands: Operand) -> Node:
        return Node(Kind.MOVE, Function.COPY, FLOAT32, shape, operands)

    yield "a transposition", move((4, 3), reads(0, FLOAT32, row(3, 1), row(4, 0))), [x]
    sliced = reads(0, FLOAT32, row(3, 0), row(4, {1: -2}, 3))
    yield "every second column, backwards", move((3, 2), sliced), [x]
    padded = reads(0, FLOAT32, row(3, 0, -1), row(4, 1, -2), fill=NAN)
    yield "padding", move((5, 7), padded), [x]
    below = reads(1, FLOAT32, row(2, 0, -3), row(4, 1))
    yield "a concatenation", move((5, 4), whole(0, x), below), [x, y]
    spread = reads(0, FLOAT32, row(3, 0), row(4, 1, divisor=3))
    yield "zeros between elements", move((3, 10), spread), [x]
    rest = move((4, 4), whole(0, x), immediate(FLOAT32, ONE))
    yield "a constant where nothing is in range", rest, [x]
    yield "a source", Node(Kind.SOURCE, Function.COPY, FLOAT32, (3, 4), (whole(0, x),)), [x]


_TABLE = draw("table", FLOAT32, 6, 3)
_CHOSEN = np.array([5, 0, 0, -1, 6, 2], np.int64)
_ROWS, _COLUMNS = np.array([0, 5, 2, 5], np.int32), np.array([2, 0, 1, 0], np.int32)


def gathers() -> Cases:
    """Yield copies by indices that repeat, are negative or out of range."""
    data = reads(0, FLOAT32, row(6, 2), row(3, 1), fill=NAN)
    rows = (data, reads(1, INT64, row(6, 0)))
    embedding = Node(Kind.GATHER, Function.COPY, FLOAT32, (6, 3), rows)
    yield "rows of a table", embedding, [_TABLE, _CHOSEN]
    data = reads(0, FLOAT32, row(6, 1), row(3, 2))
    places = (data, reads(1, INT32, row(4, 0)), reads(2, INT32, row(4, 0)))
    elements = Node(Kind.GATHER, Function.COPY, FLOAT32, (4,), places)
    yield "elements of a table", elements, [_TABLE, _ROWS, _COLUMNS]


def scatters() -> Cases:
    """Yield folds over the matching positions, by one index tensor and by two."""
    values = draw("added", FLOAT32, 6, 3)
    source, places = reads(0, FLOAT32, row(6, 2), row(3, 1)), reads(1, INT64, row(6, 2))
    for function, start in {Function.ADD: 0, Function.COPY: NAN, Function.MAX: MINUS_ONE}.items():
        by_one = (immediate(FLOAT32, start), source, places)
        node = Node(Kind.SCATTER, function, FLOAT32, (6, 3), by_one, (6,), targets=(0,))
        yield f"a scatter by {function.name.lower()}", node, [values, _CHOSEN]
    indices = (reads(1, INT32, row(4, 2)), reads(2, INT32, row(4, 2)))
    by_two = (whole(3, _TABLE), reads(0, FLOAT32, row(4, 2)), *indices)
    node = Node(Kind.SCATTER, Function.ADD, FLOAT32, (6, 3), by_two, (4,), targets=(0, 1))
    yield "a scatter into a tensor", node, [draw("few", FLOAT32, 4), _ROWS, _COLUMNS, _TABLE]


def randoms() -> Cases:
    """Yield uniform numbers."""
    for shape, seed, stream in (((3, 5), 7, 2), ((9,), (1 << 64) - 3, (1 << 32) - 5)):
        node = Node(Kind.RANDOM, Function.UNIFORM, FLOAT32, shape, seed=seed, stream=stream)
        yield f"random numbers of stream {stream}", node, []


GROUPS = (
    *(maps, products, convolutions, reductions, other_reductions),
    *(moves, gathers, scatters, randoms),
)


def evaluate_node(node: Node, inputs: Sequence[Array], step: int) -> Array:
    """Return an operator's output by the readable definition."""
    program = wrap(node, inputs)
    return run_step(program, [np.zeros(node.shape, NUMPY_TYPES[node.dtype])], inputs, step)[0]


def make_case(name: str, node: Node, inputs: Sequence[Array], step: int) -> dict[str, Any]:
    """Return the vector of one operator."""
    output = evaluate_node(node, inputs, step)
    canonical: Array = encode_elements(output).view(output.dtype).reshape(output.shape)
    tensors = [write_tensor(array) for array in inputs]
    return {
        "name": name,
        "given": {"operator": write_node(node), "inputs": tensors, "step": step},
        "expect": {
            "encoding": encode_node(node).hex(),
            "output": write_tensor(canonical),
            "root": compute_tensor_root(output).hex(),
        },
    }


def make_operators() -> Document:
    """Return the vectors of all operator kinds; random numbers are those of step 3."""
    cases = [case for group in GROUPS for case in group()]
    return make_document([make_case(*case, 3 if not case[2] else 0) for case in cases])
