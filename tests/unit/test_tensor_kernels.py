"""Products as tensor cores add them up: the kernels beside the definition, bit for bit."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.tensor.blocks import BFLOAT16, BLOCKS, Block, add_chain
from moot.offchain.backends.cpu import contractions, tensor
from moot.offchain.backends.cpu.kernels.contraction.tensor_blocks import fold_elements
from moot.offchain.backends.cpu.kernels.contraction.tensor_tile import COLUMNS, ROWS
from moot.offchain.backends.cpu.tensor import multiply, plan_product
from moot.offchain.native.machine import WIDTH_VARIABLE, WIDTHS_BITS
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.quick import every, share

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Patterns = npt.NDArray[np.uint16]
Bits = npt.NDArray[np.uint32]
Shape = tuple[int, int, int, int]
"""Matrices of a batch, rows, steps and columns."""

EVERY = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
SPECIAL = np.array([0x7F80, 0xFF80, 0x7FC1, 0x8000, 0x0000, 0x0001, 0x807F], np.uint16)
SPECIAL_STARTS = np.array(
    [0, 1 << 31, 1, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0xFFC12345], np.uint32
).view(np.float32)
SHAPES: tuple[Shape, ...] = (
    (1, 3, 16, 5),
    (2, 2, 21, 7),
    (1, 5, 1, 3),
    (1, 1, 40, 1),
    (1, 9, 33, 2),
)
LARGE: tuple[Shape, ...] = (
    (1, 2 * ROWS, 96, 2 * COLUMNS),
    (2, ROWS + 1, 75, COLUMNS + 3),
    (3, 17, 50, 33),
    (1, 40, 8, 3),
    (1, 3, 2100, 40),
)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def to_patterns(numbers: Numbers) -> Patterns:
    """Return the patterns of numbers that are cut to bfloat16."""
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def cancel(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let most products have another one that takes them away."""
    steps = a.shape[2] // 2 * 2
    a[:, :, 1::2], b[:, 1::2] = a[:, :, :steps:2], -b[:, :steps:2]
    a[rng.random(a.shape) < 0.1] *= 1 + 2.0**-7
    init *= np.exp2(rng.integers(-30, 2, init.shape))


def spread(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let terms of a block be so far apart that some are cut in part."""
    for x in (a, b):
        x[...] *= np.exp2(rng.integers(-9, 9, x.shape))
    init *= np.exp2(rng.integers(-50, 30, init.shape))


def widen(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let terms be of almost any size."""
    for x in (a, b):
        x[...] *= np.exp2(rng.integers(-80, 40, x.shape))
    init *= np.exp2(rng.integers(-120, 100, init.shape))


def shrink(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let sums be subnormal numbers, or next to them."""
    for x in (a, b):
        x[...] *= np.exp2(rng.integers(-63, -50, x.shape))
    init *= np.exp2(rng.integers(-149, -90, init.shape))


def shrink_columns(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let columns be so small that vectors just have them, or just have not."""
    b *= np.exp2(rng.integers(-108, -94, (len(b), 1, b.shape[2])))
    init *= np.exp2(rng.integers(-130, -90, init.shape)) * (rng.random(init.shape) < 0.5)
    a[:, :, a.shape[2] // 3 : a.shape[2] // 2] = 0


def vanish(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let products be smaller than all numbers, and only some sums of them be larger."""
    a *= np.exp2(rng.integers(-77, -74, (*a.shape[:2], 1)))
    b *= np.exp2(rng.integers(-77, -74, (len(b), 1, b.shape[2])))
    np.abs(a, out=a)
    np.abs(b, out=b)
    init *= 2.0**-149 * (rng.random(init.shape) < 0.1)


def grow(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let sums be infinite, or nearly."""
    for x in (a, b):
        x[...] *= np.exp2(rng.integers(20, 62, x.shape[1:]))
    init *= np.exp2(rng.integers(60, 128, init.shape))


def fill(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let products of one sign have almost all bits, so that a block's sum needs 32."""
    for x in (a, b):
        x[...] = rng.choice([1.984375, 1.9921875], x.shape)
    a *= rng.choice([1, -1], (*a.shape[:2], 1))
    a[:, ::3] *= rng.choice([1, 1, 1, 1, 1, 1, 1, 0.5], a[:, ::3].shape)
    init[...] = rng.choice([1, -1], init.shape) * np.exp2(rng.integers(-4, 7, init.shape))
    init *= 2 - 2.0**-23


def empty(rng: np.random.Generator, a: Numbers, b: Numbers, init: Numbers) -> None:
    """Let most products be zeros, in some rows beside terms of almost any size."""
    a[rng.random(a.shape) < 0.7] = 0
    b[:, :, ::2] *= rng.random((*b.shape[:2], 1)) < 0.2
    a[:, ::2] *= np.exp2(-rng.integers(0, 100, a[:, ::2].shape))
    init *= rng.random(init.shape) < 0.3


NUMBERS: Mapping[str, Callable[[np.random.Generator, Numbers, Numbers, Numbers], None]] = {
    "ordinary": lambda *_: None,
    "cancelling": cancel,
    "spread": spread,
    "wide": widen,
    "subnormal": shrink,
    "least": shrink_columns,
    "vanishing": vanish,
    "huge": grow,
    "full": fill,
    "sparse": empty,
}
KINDS = (*NUMBERS, "special", "pairs", "bits")


@np.errstate(over="ignore")
def draw(kind: str, shape: Shape, seed: int) -> tuple[Patterns, Patterns, Floats]:
    """Return factors of a kind, and what their sums start from."""
    rng = np.random.default_rng([KINDS.index(kind), *shape, seed])
    batch, m, steps, n = shape
    sizes = (batch, m, steps), (batch, steps, n), (batch, m, n)
    numbers = [rng.standard_normal(size) for size in sizes]
    NUMBERS.get(kind, NUMBERS["ordinary"])(rng, *numbers)
    a, b = map(to_patterns, numbers[:2])
    init = numbers[2].astype(np.float32)
    if kind == "bits":
        a, b = (rng.integers(0, 1 << 16, x.shape).astype(np.uint16) for x in (a, b))
        init = rng.integers(0, 1 << 32, init.shape).astype(np.uint32).view(np.float32)
    if kind == "special":
        for x, choice in ((a, SPECIAL), (b, SPECIAL), (init, SPECIAL_STARTS)):
            is_special = rng.random(x.shape) < 0.02
            x[is_special] = rng.choice(choice, int(is_special.sum()))
    if kind == "pairs":  # of infinities and NaNs, beside factors whose exponents make up for them
        b &= 0x8FFF
        has_pair = rng.random(a.shape[:2]) < 0.5
        a[has_pair, :2] = rng.choice(SPECIAL[:3], (int(has_pair.sum()), min(2, steps)))
    return a, b, init


def define(block: Block, a: Patterns, b: Patterns, init: Floats) -> Bits:
    """Return what the definition makes of factors, element by element."""
    out = np.empty(init.shape, np.uint32)
    starts = np.ascontiguousarray(init).view(np.uint32)
    for z, m, n in np.ndindex(*out.shape):
        pairs = list(zip(a[z, m].tolist(), b[z, :, n].tolist(), strict=True))
        out[z, m, n] = add_chain(block, BFLOAT16, starts.item(z, m, n), pairs)
    return out


def fold(block: Block, a: Patterns, b: Patterns, init: Floats) -> Bits:
    """Return what is folded in integers, element by element."""
    out = init.copy()
    arguments = block.pairs, block.kept_bits, block.zero_exponent
    fold_elements(a, b, out, *arguments, 0, out.size)
    return out.view(np.uint32)


def compute(block: Block, a: Patterns, b: Patterns, init: Floats) -> Bits:
    """Return what the kernels make of factors."""
    out = np.full(init.shape, 7, np.float32)
    multiply(block)(a, b, init, out)
    return out.view(np.uint32)


@EVERY
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_the_definition(block: Block, kind: str) -> None:
    """Vectors, and the integers that they leave the rest to, are the definition, on small ones."""
    for shape, seed in product(SHAPES, range(share(24))):
        given = draw(kind, shape, seed)
        expected = define(block, *given)
        assert np.array_equal(compute(block, *given), expected)
        assert np.array_equal(fold(block, *given), expected)


@EVERY
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_the_integers(block: Block, kind: str) -> None:
    """On matrices of many tiles, or none that is whole, vectors are what integers are."""
    for shape, seed in product(LARGE, range(share(60))):
        given = draw(kind, shape, seed)
        assert np.array_equal(compute(block, *given), fold(block, *given))


@EVERY
def test_ordinary_numbers_are_left_to_vectors(block: Block) -> None:
    """Integers are not asked for sums of usual numbers, even where zeros are all of a block."""
    a, b, init = draw("ordinary", (2, 33, 120, 70), 0)
    a[0, 3:5], a[:, :, 16:32], a[0, :, :50], b[:, :, 7:40] = 0, 0, 0x8000, 0x8000
    init[...] = 0
    others = replace(block, zero_exponent=120)  # with which integers are wrong from the start
    assert np.array_equal(compute(others, a, b, init), compute(block, a, b, init))
    assert not np.array_equal(fold(others, a, b, init), fold(block, a, b, init))


def scatter(array: npt.NDArray[Any], step: int, *, is_turned: bool) -> npt.NDArray[Any]:
    """Return a view of other memory that has the elements of an array, not side by side."""
    batch, m, n = array.shape
    sides = (n, m) if is_turned else (m, n)
    room = np.full((batch, 2 * sides[0], abs(step) * sides[1]), 5, array.dtype)
    part = room[::-1, ::2, ::step]
    part = part.swapaxes(1, 2) if is_turned else part
    part[...] = array
    return part


@EVERY
@pytest.mark.parametrize("turned", every(6, ["", "a", "b", "ab", "out", "a b out"]))
@pytest.mark.parametrize("step", [1, 2, -1])
def test_layouts_change_nothing(block: Block, turned: str, step: int) -> None:
    """Factors, starts and results may have any strides, and nothing beside results is written."""
    for seed, shape in enumerate([(2, 19, 64, 70), (2, 50, 33, 9), (1, 4, 80, COLUMNS)]):
        a, b, init = draw("special", shape, seed)
        arrays: dict[str, npt.NDArray[Any]] = {"a": a, "b": b, "init": init}
        arrays["out"] = np.zeros_like(init)
        views = [scatter(x, step, is_turned=name in turned) for name, x in arrays.items()]
        for start in (init, np.broadcast_to(init[:, :1], init.shape)):
            expected = fold(block, a, b, np.array(start))
            views[2] = views[2] if start is init else start
            multiply(block)(*views)
            out = views[3]
            assert np.array_equal(np.ascontiguousarray(out).view(np.uint32), expected)
        out[...] = 5
        assert out.base is not None
        assert (np.asarray(out.base) == 5).all()


@EVERY
def test_results_may_take_the_place_of_their_starts(block: Block) -> None:
    """`out` may be `init`, in both ways to nest its dimensions."""
    for shape in ((2, 19, 64, 70), (2, 70, 33, 3)):
        a, b, init = draw("special", shape, 0)
        expected = fold(block, a, b, init)
        multiply(block)(a, b, init, init)
        assert np.array_equal(init.view(np.uint32), expected)


@EVERY
@pytest.mark.parametrize(
    "shape", [(1, 530, 40, 33), (9, 20, 33, 20), (1, 70, 33, 300), (40, 1, 9, 1)]
)
def test_threads_and_parts_change_nothing(
    block: Block, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many threads share however many parts, the result is the same."""
    given = draw("special", shape, 0)
    expected = fold(block, *given)
    monkeypatch.setattr(tensor, "_GRAIN", 1)
    monkeypatch.setattr(tensor, "_ELEMENTS_GRAIN", 1)
    monkeypatch.setattr(tensor, "_divide", tensor._divide.__wrapped__)
    for count in (1, 2, 3):
        set_threads(count)
        assert np.array_equal(compute(block, *given), expected)


@EVERY
def test_no_steps_leave_what_sums_start_from(block: Block) -> None:
    """A product of no steps is its start, of NaN the canonical one."""
    init = np.tile(SPECIAL_STARTS, (1, 2, 1))
    a, b = np.zeros((1, 2, 0), np.uint16), np.zeros((1, 0, len(SPECIAL_STARTS)), np.uint16)
    expected = np.where(np.isnan(init), np.uint32(0x7FC00000), init.view(np.uint32))
    assert np.array_equal(compute(block, a, b, init), expected)
    assert compute(block, a[:, :0], b, init[:, :0]).size == 0


def access(place: int, *rows: Row, fill: int = 0) -> Operand:
    """Return an access to a tensor of bfloat16."""
    return Operand(Origin.NODE, DType.BFLOAT16, place, fill, rows)


def contract(shape: tuple[int, ...], fold_shape: tuple[int, ...], *operands: Operand) -> Node:
    """Return a contraction."""
    return Node(Kind.CONTRACT, Function.FMA, DType.FLOAT32, shape, operands, fold_shape)


def evaluate(block: Block, node: Node, flats: Sequence[npt.NDArray[Any] | None]) -> Bits:
    """Return what the definition makes of a node, element by element."""
    found = []

    def read(operand: Operand, flat: npt.NDArray[Any] | None, variables: Sequence[int]) -> int:
        index = operand.index(variables) if flat is not None else None
        if flat is None or index is None:
            return operand.value
        kind = np.uint32 if flat.dtype == np.float32 else np.uint16
        return int(flat.reshape(-1)[index].view(kind))

    for output in np.ndindex(*node.shape):
        start, *pairs = [
            [read(o, f, (*output, *step)) for o, f in zip(node.operands, flats, strict=True)]
            for step in [(0,) * len(node.fold_shape), *np.ndindex(*node.fold_shape)]
        ]
        found.append(add_chain(block, BFLOAT16, start[0], [(a, b) for _, a, b in pairs]))
    return np.array(found, np.uint32).reshape(node.shape)


def make_nodes() -> Iterator[tuple[str, Node, list[tuple[int, ...]]]]:
    """Yield contractions, and the shapes of their tensors; of constants there is none."""
    zero, one = immediate(DType.FLOAT32, 1 << 31), immediate(DType.BFLOAT16, 0x3FC0)
    start = Operand(Origin.NODE, DType.FLOAT32, 2, 0, (Row(7, 0, ((1, 1),)),))
    by = [Row(size, 0, ((variable, 1),)) for variable, size in enumerate((5, 7, 20))]
    a, b = access(0, by[0], by[2]), access(1, by[2], by[1])
    turned = access(0, by[2], by[0]), access(1, by[1], by[2])
    yield "plain", contract((5, 7), (20,), start, a, b), [(7,), (5, 20), (20, 7)]
    yield "turned", contract((5, 7), (20,), zero, *turned), [(), (20, 5), (7, 20)]
    yield "swapped", contract((5, 7), (20,), start, b, a), [(7,), (20, 7), (5, 20)]
    yield "constant", contract((5, 7), (20,), start, a, one), [(7,), (5, 20), ()]
    yield "constants", contract((5, 7), (20,), zero, one, one), [(), (), ()]
    alone = contract((5, 7), (), start, access(0, by[0]), access(1, by[1]))
    yield "one step", alone, [(7,), (5,), (7,)]
    none = contract((5, 7), (0,), start, a, b)
    yield "no step", none, [(7,), (5, 20), (20, 7)]
    # Two images of three channels, a kernel of 3 by 3 for four, and padding that is no zero.
    image = (Row(2, 0, ((0, 1),)), Row(3, 0, ((4, 1),)))
    sides = [Row(6, -1, ((place, 1), (place + 3, 1))) for place in (2, 3)]
    x = access(0, *image, *sides, fill=0xBFA0)
    w = access(1, *[Row(size, 0, ((v, 1),)) for v, size in ((1, 4), (4, 3), (5, 3), (6, 3))])
    convolved = contract((2, 4, 6, 6), (3, 3, 3), zero, x, w)
    yield "convolution", convolved, [(), (2, 3, 6, 6), (4, 3, 3, 3)]
    both = Row(2, 0, ((0, 1),)), Row(3, 0, ((1, 1),))
    q = access(0, *both, Row(4, 0, ((2, 1),)), Row(9, 0, ((4, 1),)))
    k = access(1, *both, Row(4, 0, ((3, 1),)), Row(9, 0, ((4, 1),)))
    yield "heads", contract((2, 3, 4, 4), (9,), zero, q, k), [(), (2, 3, 4, 9), (2, 3, 4, 9)]


@EVERY
@pytest.mark.parametrize(
    ("node", "shapes"), [pytest.param(*case[1:], id=case[0]) for case in make_nodes()]
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_contractions_are_chains_of_blocks(
    block: Block,
    node: Node,
    shapes: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_cut: bool,
) -> None:
    """Views, copies that are padded, constants and few steps: each element is its own chain."""
    if is_cut:
        monkeypatch.setattr(contractions, "_SLAB_BYTES", 400)
    rng = np.random.default_rng(0)
    flats: list[npt.NDArray[Any] | None] = []
    for operand, shape in zip(node.operands, shapes, strict=True):
        numbers = rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))
        is_short = operand.dtype is DType.BFLOAT16
        flat = to_patterns(numbers) if is_short else numbers.astype(np.float32)
        flats.append(None if operand.origin is Origin.IMMEDIATE else flat)
    found = plan_product(node, block).run(flats, 0)
    assert found.shape == node.shape
    assert np.array_equal(found.view(np.uint32), evaluate(block, node, flats))


def compute_digest() -> str:
    """Return the hash of products of all kinds."""
    digest = hashlib.sha256()
    for block, kind in product(BLOCKS.values(), KINDS):
        digest.update(compute(block, *draw(kind, (2, 9, 70, 50), 0)).tobytes())
    return digest.hexdigest()


PRINT_DIGEST = """
import sys
sys.path.insert(0, {root!r})
from tests.unit.test_tensor_kernels import compute_digest
print(compute_digest())
"""


@pytest.mark.slow
def test_vector_widths_agree() -> None:
    """Code for vectors of any width gives the same bits."""
    script = PRINT_DIGEST.format(root=str(Path(__file__).parents[2]))
    digests = {
        subprocess.run(  # noqa: S603 - the code is above
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            env=os.environ | {WIDTH_VARIABLE: str(bits)},
        ).stdout
        for bits in WIDTHS_BITS
    }
    assert digests == {f"{compute_digest()}\n".encode()}
