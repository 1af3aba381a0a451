"""Convolutions in place and their gradients, with zero terms left out, against the definition."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import (
    contractions,
    convolution_plans,
    convolutions,
    line_convolutions,
)
from moot.offchain.backends.cpu.contractions import Contraction
from moot.offchain.backends.cpu.convolution_items import Work, choose_items
from moot.offchain.backends.cpu.convolution_plans import plan_convolution
from moot.offchain.backends.cpu.convolutions import Convolution
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.line_convolutions import LineConvolution
from moot.offchain.backends.cpu.sequences import CalledSequence
from moot.offchain.backends.cpu.sliding import find_sliding
from moot.offchain.backends.port import Step
from moot.offchain.commitments.tensors import encode_elements
from moot.offchain.execution.readable import to_bits
from moot.offchain.frontend.lowering.builder import Builder, Meta
from moot.offchain.frontend.lowering.convolutions import convolution, convolution_backward
from moot.offchain.native.machine import WIDTH_VARIABLE, WIDTHS_BITS
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.native.vectors import LANES
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Slot
from moot.offchain.programs.semantics import compute_element
from tests.quick import every, share

Floats = npt.NDArray[np.float32]
Integers = tuple[int, ...]

SPECIALS = np.array(
    [0, 1 << 31, 1, 0x80000001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001], np.uint32
).view(np.float32)
FORWARD, TO_INPUT, TO_WEIGHT = "forward", "to_input", "to_weight"


class Geometry(NamedTuple):
    """A convolution: input and weight shapes, and the options, one for all dimensions."""

    x: Integers
    w: Integers
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def y(self) -> Integers:
        """The output's shape."""
        reach = [size + 2 * self.padding - self.dilation * (k - 1) for size, k in self._pairs()]
        return (self.x[0], self.w[0], *(-(-size // self.stride) for size in reach))

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.x[2:], self.w[2:], strict=True))


def make_node(geometry: Geometry, direction: str) -> Node:
    """Return the contraction that a convolution, or a gradient of it, is lowered to."""
    g = geometry
    shapes = {FORWARD: (g.x, g.w), TO_INPUT: (g.y, g.w), TO_WEIGHT: (g.y, g.x)}[direction]
    slots = [Slot(f"operand{i}", DType.FLOAT32, shape) for i, shape in enumerate(shapes)]
    b = Builder(0, 0)
    b.begin(direction, "", [Meta(DType.FLOAT32, g.y)])
    first, second = (b.source(slot, Origin.BATCH, i) for i, slot in enumerate(slots))
    options = (g.stride,), (g.padding,), (g.dilation,), False, (0,), g.groups
    if direction == FORWARD:
        convolution(b, first, second, None, *options)
    elif direction == TO_INPUT:
        x = b.source(Slot("x", DType.FLOAT32, g.x), Origin.BATCH, 2)
        convolution_backward(b, first, x, second, None, *options, (True, False, False))
    else:
        w = b.source(Slot("w", DType.FLOAT32, g.w), Origin.BATCH, 2)
        convolution_backward(b, first, second, w, None, *options, (False, True, False))
    (node,) = (node for node in b.nodes if node.kind is Kind.CONTRACT)
    return node


def draw_factors(node: Node, seed: int, specials: float, scale: float = 1) -> list[Floats]:
    """Return tensors for the factors: numbers of some magnitude, and special ones now and then."""
    rng = np.random.default_rng(seed)
    factors = []
    for operand in node.operands[1:]:
        size = prod(row.size for row in operand.rows)
        numbers = (rng.normal(0, scale, size)).astype(np.float32)
        chosen = rng.choice(SPECIALS, size)
        factors.append(np.where(rng.random(size) < specials, chosen, numbers))
    return factors


def define(node: Node, factors: Sequence[Floats], start: Floats | None = None) -> bytes:
    """Return the canonical bytes of the output, by the definition."""
    tensors = [[] if tensor is None else to_bits(tensor) for tensor in (start, *factors)]

    def fetch(place: int, _: Operand, index: int) -> int:
        return tensors[place][index]

    elements = [
        compute_element(ORDERED, node, element, 0, fetch) for element in range(node.elements)
    ]
    return canonical(np.array(elements, np.uint32).view(np.float32))


def canonical(array: npt.NDArray[np.float32]) -> bytes:
    """Return the canonical bytes of an array."""
    return encode_elements(np.ascontiguousarray(array)).tobytes()


def plan(node: Node) -> tuple[Convolution, list[int]]:
    """Return a node's plan, and a list that grows whenever the plan falls back."""
    general = Contraction(node)
    falls: list[int] = []

    def fall_back(flats: Sequence[Floats | None]) -> Floats:
        falls.append(0)
        return general.run(flats, 0)

    special = plan_convolution(node, fall_back)
    assert special is not None
    return special, falls


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


@pytest.fixture(scope="module", params=["usual", "least"])
def _limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run once with the usual limits, and once with boxes, blocks and items as small as can be."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "least":
            patch.setattr(convolutions, "_DEPTH", 5)
            patch.setattr(convolutions, "_PANEL_BYTES", 1)
            patch.setattr(convolutions, "_WINDOW_FLOATS", 24)
            patch.setattr(convolutions, "_MOST_ROWS", 7)
            patch.setattr(convolutions, "_FAR_BYTES", 0)  # so that all rows are packed
            patch.setattr(convolutions, "_GROUP_BYTES", 640)
            patch.setattr(convolution_plans, "_LEAST_SAVED", 0)
            patch.setattr(convolutions, "_GRAIN", 1)
            patch.setattr(line_convolutions, "_WINDOW_FLOATS", 24)
        yield


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Draw a convolution over one or two dimensions, of several columns."""
    groups, rank = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 2))
    few = st.integers(1, 3)
    sizes = draw(st.lists(st.integers(1, 8), min_size=rank, max_size=rank))
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    channels, outputs = draw(few), draw(few)
    g = Geometry(
        (draw(few), groups * channels, *sizes),
        (groups * outputs, channels, *kernel),
        draw(few),
        draw(st.integers(0, 2)),
        draw(st.integers(1, 2)),
        groups,
    )
    assume(min(g.y) > 0)
    return g


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("direction", [FORWARD, TO_INPUT, TO_WEIGHT])
@settings(max_examples=share(40), deadline=None)
@given(
    geometries(),
    st.sampled_from([0, 0, 0.02, 0.3]),
    st.sampled_from([1, 2]),
    st.integers(0, 2**32 - 1),
)
def test_convolutions_equal_the_definition(
    direction: str, geometry: Geometry, specials: float, threads: int, seed: int
) -> None:
    """Any convolution and its gradients are the definition's, whatever the limits and threads."""
    set_threads(threads)
    node = make_node(geometry, direction)
    factors = draw_factors(node, seed, specials)
    general = Contraction(node)
    special = plan_convolution(node, lambda flats: general.run(flats, 0)) or general
    assert canonical(special.run([None, *factors], 0)) == define(node, factors)


LARGE = [
    Geometry((2, 5, 17, 18), (37, 5, 3, 3), 1, 1),
    Geometry((1, 3, 23, 21), (20, 3, 7, 7), 2, 3),
    Geometry((3, 34, 7, 7), (40, 34, 3, 3), 1, 1),
    Geometry((2, 33, 9, 8), (35, 33, 1, 1), 2, 0),
    Geometry((2, 32, 6, 6), (36, 16, 3, 3), 2, 1, 1, 2),
    Geometry((2, 19, 21, 40), (19, 1, 3, 3), 1, 1, 1, 19),
    Geometry((2, 5, 37, 39), (5, 1, 3, 3), 2, 1, 1, 5),
    Geometry((2, 3, 9, 70), (2, 3, 3, 5), 1, 2, 2),
    Geometry((1, 24, 9, 14), (22, 12, 3, 3), 1, 1, 1, 2),
    Geometry((2, 19, 17, 18), (37, 19, 1, 1)),
    Geometry((1, 36, 5, 6), (54, 4, 3, 3), 1, 1, 1, 9),
    Geometry((2, 9, 24, 25), (70, 9, 1, 1)),  # the rows of these two are packed
    Geometry((2, 40, 47, 33), (37, 40, 1, 1), 2),
]


@pytest.mark.parametrize("direction", every(6, [FORWARD, TO_INPUT, TO_WEIGHT]))
@pytest.mark.parametrize("geometry", LARGE)
def test_large_convolutions_equal_the_general_way(
    geometry: Geometry, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many tiles and panels, with one, two and five threads, give what unfolding gives."""
    node = make_node(geometry, direction)
    factors = draw_factors(node, 1, 0)
    expected = canonical(Contraction(node).run([None, *factors], 0))
    special, _ = plan(node)
    for module in (convolutions, line_convolutions):
        monkeypatch.setattr(module, "_GRAIN", 1)  # so that these are shared out at all
    for threads in (1, 2, 5):
        set_threads(threads)
        assert canonical(special.run([None, *factors], 0)) == expected


def run_in_a_sequence(node: Node, special: Convolution, tensors: Sequence[Floats]) -> Floats:
    """Return the output of a plan that a sequence calls, without the plan."""
    places = range(1, 1 + len(tensors))
    reads = (*(0,) * (len(node.operands) - len(tensors)), *places)
    step = Step(special, reads, (len(reads) + 1,), (node,))
    found = CalledSequence([step], places, step.writes).run(tensors)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("direction", [FORWARD, TO_INPUT, TO_WEIGHT])
@pytest.mark.parametrize("geometry", every(12, LARGE))
def test_sequences_call_convolutions_without_suspects(
    geometry: Geometry, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sequence computes what a plan does by itself, unless a result may be suspect."""
    monkeypatch.setattr(convolution_plans, "_LEAST_SAVED", inf)
    node = make_node(geometry, direction)
    factors = draw_factors(node, 1, 0.01)
    special, _ = plan(node)
    sliding = find_sliding(node, inf)
    assert sliding is not None
    assert special.is_called == (len(sliding.parts) == 1)
    if special.is_called:
        expected = canonical(special.run([None, *factors], 0))
        for module in (convolutions, line_convolutions):
            monkeypatch.setattr(module, "_GRAIN", 1)
        for threads in (1, 2, 5):
            set_threads(threads)
            assert canonical(run_in_a_sequence(node, special, factors)) == expected


@pytest.mark.parametrize("keeps_folds", [False, True])
@pytest.mark.parametrize("direction", [FORWARD, TO_INPUT, TO_WEIGHT])
@pytest.mark.parametrize("geometry", every(18, LARGE))
def test_any_part_may_be_unfolded_at_once(
    geometry: Geometry, direction: str, *, keeps_folds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A convolution that is made in parts is the same, however large the copies for one may be."""
    node = make_node(geometry, direction)
    factors = draw_factors(node, 1, 0)
    whole = canonical(Contraction(node).run([None, *factors], 0))
    for power in range(8, 19):
        monkeypatch.setattr(contractions, "_SLAB_BYTES", 1 << power)
        parts = Contraction(node, keeps_folds=keeps_folds)
        assert canonical(parts.run([None, *factors], 0)) == whole


def test_few_columns_are_lines() -> None:
    """A depthwise convolution is computed by lines, one of many channels is not."""
    few, some, many = (plan(make_node(LARGE[place], FORWARD))[0] for place in (5, 8, 0))
    assert isinstance(few, LineConvolution)
    assert isinstance(some, LineConvolution) == (LANES > 8)
    assert not isinstance(many, LineConvolution)


def test_few_rows_are_packed() -> None:
    """Of two factors without a window, that with few rows is packed, if the fold is long."""
    turned, short, windowed = (
        find_sliding(make_node(LARGE[place], direction), inf)
        for place, direction in ((9, TO_WEIGHT), (9, FORWARD), (0, TO_WEIGHT))
    )
    assert turned is not None
    assert (turned.rows, turned.columns) == ((0,), (1,))
    assert short is not None
    assert short.columns == (1,)
    assert windowed is not None
    assert windowed.columns == (0,)


WORKS = [Work(1, 256, [28] * 5), Work(3, 70, [37, 37, 4]), Work(1, 33, [1]), Work(40, 9, [3] * 7)]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("work", WORKS)
def test_items_cover_all_work_once(work: Work, threads: int) -> None:
    """Every column of a group meets every box in one item, whose panels are as many as may be."""
    items = choose_items(work, threads, 2)
    assert all(item.stop - item.first <= 2 * COLUMNS for item in items)
    assert all(item.first % COLUMNS == 0 for item in items)
    met = [
        (item.group, column, box)
        for item in items
        for column in range(item.first, item.stop)
        for box in item.boxes
    ]
    boxes = range(len(work.row_tiles))
    assert sorted(met) == sorted(product(range(work.groups), range(work.columns), boxes))


def test_items_let_no_thread_wait_long() -> None:
    """Work that two pieces would halve badly is cut into more, and one thread's is not cut."""
    work = Work(1, COLUMNS, [20, 20, 20])
    alone, shared = (choose_items(work, threads, 4) for threads in (1, 2))
    assert len(alone) == 1
    assert len(shared) == len(work.row_tiles)


STRIDED = Geometry((2, 5, 9, 9), (6, 5, 3, 3), 2, 1)
DEPTHWISE = Geometry((2, 5, 9, 9), (5, 1, 3, 3), 2, 1, 1, 5)


@pytest.mark.parametrize("geometry", [STRIDED, DEPTHWISE])
def test_terms_that_are_zero_are_left_out(geometry: Geometry) -> None:
    """The gradient of a strided input falls into parts, which together have few of the terms."""
    node = make_node(geometry, TO_INPUT)
    sliding = find_sliding(node, np.inf)
    assert sliding is not None
    assert len(sliding.parts) == 4
    terms = sum(prod(len(r) for r in part) for part in sliding.parts)
    assert terms < prod(node.shape + node.fold_shape) / 3
    special, falls = plan(node)
    factors = draw_factors(node, 3, 0)
    assert canonical(special.run([None, *factors], 0)) == define(node, factors)
    assert not falls


@pytest.mark.parametrize("direction", [FORWARD, TO_INPUT])
def test_borders_are_left_out(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A border that is worth it is a part of its own, also where it is most of the image."""
    monkeypatch.setattr(convolution_plans, "_LEAST_SAVED", 0)
    node = make_node(Geometry((2, 6, 4, 3), (5, 6, 3, 3), 1, 1), direction)
    sliding = find_sliding(node, 0)
    assert sliding is not None
    assert len(sliding.parts) == 9
    special, falls = plan(node)
    factors = draw_factors(node, 4, 0)
    assert canonical(special.run([None, *factors], 0)) == define(node, factors)
    assert not falls


@pytest.mark.parametrize(
    ("place", "value"),
    every(
        6,
        [
            pytest.param(place, value, marks=[pytest.mark.slow] * ((place + number) % 9 > 0))
            for place in range(9)
            for number, value in enumerate((np.inf, -np.inf, np.nan))
        ],
    ),
)
@pytest.mark.parametrize("geometry", [STRIDED, DEPTHWISE])
def test_terms_of_infinite_weights_are_not_left_out(
    geometry: Geometry, place: int, value: float
) -> None:
    """0 times a weight that is not finite is not 0, at whatever place of the kernel it is."""
    node = make_node(geometry, TO_INPUT)
    y, w = draw_factors(node, 5, 0)
    w[place] = value
    special, falls = plan(node)
    assert canonical(special.run([None, y, w], 0)) == define(node, [y, w])
    assert falls


@pytest.mark.parametrize("seed", every(12, range(5)))
@pytest.mark.parametrize("geometry", [STRIDED, DEPTHWISE])
def test_terms_after_minus_zero_are_not_left_out(geometry: Geometry, seed: int) -> None:
    """Products so small that they round to -0 are followed by +0 where the fold has such a term."""
    node = make_node(geometry, TO_INPUT)
    factors = draw_factors(node, seed, 0, 1e-24)
    special, falls = plan(node)
    assert canonical(special.run([None, *factors], 0)) == define(node, factors)
    assert falls


@pytest.mark.parametrize("direction", [FORWARD, TO_INPUT, TO_WEIGHT])
def test_any_fill_is_folded(direction: str) -> None:
    """A border that holds another number than zero is folded as that number."""
    node = make_node(Geometry((2, 3, 6, 5), (4, 3, 3, 3), 1, 1), direction)
    operands = tuple(replace(operand, value=0x40200000) for operand in node.operands[1:])
    filled = replace(node, operands=(node.operands[0], *operands))
    factors = draw_factors(node, 6, 0)
    special, _ = plan(filled)
    assert canonical(special.run([None, *factors], 0)) == define(filled, factors)
    assert define(filled, factors) != define(node, factors)


def test_a_strided_gradient_of_another_fill_is_general() -> None:
    """Terms are left out only if they are zero."""
    node = make_node(STRIDED, TO_INPUT)
    operands = tuple(replace(operand, value=0x3F800000) for operand in node.operands[1:])
    assert find_sliding(replace(node, operands=(node.operands[0], *operands)), np.inf) is None


def test_sums_start_from_a_bias() -> None:
    """What the sums start from may depend on the channel, and may be -0 or a NaN."""
    node = make_node(Geometry((2, 3, 5, 5), (4, 3, 3, 3), 2, 1), FORWARD)
    channel = node.operands[2].rows[0]
    rows = (replace(channel, size=4, terms=((1, 1),)),)
    start = Operand(Origin.BATCH, DType.FLOAT32, 2, 0, rows)
    biased = replace(node, operands=(start, *node.operands[1:]))
    bias = np.array([1.5, -0.0, np.nan, -3], np.float32)
    factors = draw_factors(node, 7, 0)
    special, _ = plan(biased)
    assert canonical(special.run([bias, *factors], 0)) == define(biased, factors, bias)


@pytest.mark.parametrize("place", [4, 8])
def test_sums_of_every_group_start_from_its_own_bias(place: int) -> None:
    """The columns of one group after the other are packed, and each has its start values."""
    node = make_node(LARGE[place], FORWARD)
    groups, channels = node.shape[1:3]
    channel = replace(node.operands[2].rows[0], size=groups * channels)
    rows = (replace(channel, terms=((1, channels), (2, 1))),)
    start = Operand(Origin.BATCH, DType.FLOAT32, 2, 0, rows)
    biased = replace(node, operands=(start, *node.operands[1:]))
    factors = draw_factors(node, 7, 0)
    bias = np.linspace(-1, 1, groups * channels, dtype=np.float32)
    expected = canonical(Contraction(biased).run([bias, *factors], 0))
    special, _ = plan(biased)
    assert canonical(special.run([bias, *factors], 0)) == expected
    assert canonical(run_in_a_sequence(biased, special, [bias, *factors])) == expected


@pytest.mark.parametrize("start", [0.0, -0.0, 1.5, np.nan])
def test_results_without_terms_are_folded_from_their_start(start: float) -> None:
    """Where a stride leaves gaps, all terms are +0, which turns a start of -0 into +0."""
    node = make_node(Geometry((2, 3, 8, 8), (4, 3, 2, 2), 3), TO_INPUT)
    sliding = find_sliding(node, np.inf)
    assert sliding is not None
    assert not all(all(part) for part in sliding.parts)
    bits = int(np.float32(start).view(np.uint32))
    node = replace(node, operands=(replace(node.operands[0], value=bits), *node.operands[1:]))
    factors = draw_factors(node, 8, 0)
    special, falls = plan(node)
    assert canonical(special.run([None, *factors], 0)) == define(node, factors)
    assert bool(falls) == (str(start) in {"-0.0", "nan"})


PRINT_DIGEST = """
import sys
sys.path.insert(0, {directory!r})
import test_kernels_convolution
print(test_kernels_convolution.compute_digest())
"""


def compute_digest() -> str:
    """Return the hash of the results of all large convolutions."""
    digest = hashlib.sha256()
    for geometry in LARGE:
        for direction in (FORWARD, TO_INPUT, TO_WEIGHT):
            node = make_node(geometry, direction)
            digest.update(canonical(plan(node)[0].run([None, *draw_factors(node, 8, 0)], 0)))
    return digest.hexdigest()


@pytest.mark.slow
def test_vector_widths_agree() -> None:
    """Code for vectors of any width gives the same bits."""
    script = PRINT_DIGEST.format(directory=str(Path(__file__).parent))
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
