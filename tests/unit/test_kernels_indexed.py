"""Indexed copies and folds of many sizes: the kernels against one element after the other."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import indexed, scatters
from moot.offchain.backends.cpu.gathers import Gather, LocatedGather, plan_gather
from moot.offchain.backends.cpu.scatters import DenseScatter, IndexedScatter, plan_scatter
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.quick import share
from tests.unit.test_kernels_scatter import draw_bits

FLOAT32, INT64, INT32, BOOL, *_ = DType
SIZES = st.sampled_from([1, 2, 3, 15, 16, 17, 40, 130])


def read(reference: int, dtype: DType, sizes: Sequence[int], variables: Sequence[int]) -> Operand:
    """Read a tensor of these sizes by these variables, -1 or 0 beyond it."""
    rows = tuple(Row(n, 0, ((v, 1),)) for n, v in zip(sizes, variables, strict=True))
    return Operand(Origin.BATCH, dtype, reference, 0, rows)


def sample(rng: np.random.Generator, dtype: DType, shape: Sequence[int]) -> Array:
    """Return elements of any bits."""
    if dtype is FLOAT32:
        return draw_bits(rng, tuple(shape)).view(np.float32)
    return rng.integers(0, 2 if dtype is BOOL else 1 << 30, shape).astype(NUMPY_TYPES[dtype])


@settings(deadline=None, max_examples=share(60))
@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.sets(st.integers(0, 2)),
    st.sampled_from(list(DType)),
    st.sampled_from([INT64, INT32]),
    st.booleans(),
    st.integers(0, 1 << 32),
)
def test_a_gather_takes_what_indices_name(
    shape: tuple[int, int, int],
    used: set[int],
    dtype: DType,
    kind: DType,
    is_turned: bool,  # noqa: FBT001 - hypothesis passes it
    seed: int,
) -> None:
    """An index along any dimensions chooses rows, columns or elements; beyond them is the fill."""
    rng = np.random.default_rng(seed)
    axes = sorted(used)
    sizes = [shape[v] for v in axes]
    margin = int(rng.integers(0, 2))
    index = rng.integers(-margin, 5 + margin, sizes).astype(NUMPY_TYPES[kind])
    order = (2, 3) if not is_turned else (3, 2)
    data = sample(rng, dtype, [5 if v == 3 else shape[v] for v in order])
    operand = read(0, dtype, data.shape, order)
    operand = Operand(Origin.BATCH, dtype, 0, 1, operand.rows)
    node = Node(Kind.GATHER, Function.COPY, dtype, shape, (operand, read(1, kind, sizes, axes)))
    plan = plan_gather(node)
    assert isinstance(plan, Gather)
    flats = [np.ascontiguousarray(data), index]
    found = plan.run(flats, 0)
    assert (
        encode_elements(found).tobytes()
        == encode_elements(LocatedGather(node).run(flats, 0)).tobytes()
    )
    named = np.broadcast_to(
        index.reshape([n if v in used else 1 for v, n in enumerate(shape)]), shape
    )
    fill = np.frombuffer((1).to_bytes(dtype.width, "little"), NUMPY_TYPES[dtype])[0]
    for place in product(*(range(0, n, 7) for n in shape)):
        row = int(named[place])
        where = (place[2], row) if not is_turned else (row, place[2])
        wanted = data[where] if 0 <= row < 5 else fill
        assert found[place].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("axes", [((0,), (2,)), ((0,), (1,)), ((2,), (2,)), ((0, 1), (1, 2))])
def test_two_indices_have_to_be_inside(axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """An element is copied where both indices are in range, wherever each of them is read."""
    rng, shape = np.random.default_rng(0), (4, 5, 37)
    sizes = [[shape[v] for v in own] for own in axes]
    indices = [rng.integers(-1, 4, size) for size in sizes]
    data = sample(rng, FLOAT32, (3, 3))
    pairs = zip(axes, sizes, strict=True)
    operands = [read(1 + i, INT64, size, own) for i, (own, size) in enumerate(pairs)]
    far = read(0, FLOAT32, (3, 3), (3, 4))
    node = Node(Kind.GATHER, Function.COPY, FLOAT32, shape, (far, *operands))
    plan = plan_gather(node)
    assert isinstance(plan, Gather)
    wide = [
        np.broadcast_to(x.reshape([n if v in own else 1 for v, n in enumerate(shape)]), shape)
        for x, own in zip(indices, axes, strict=True)
    ]
    is_inside = np.all([(x >= 0) & (x < 3) for x in wide], 0)
    taken = data[tuple(np.clip(x, 0, 2) for x in wide)]
    wanted = np.where(is_inside, taken, np.float32(0))
    found = plan.run([data, *indices], 0)
    assert encode_elements(found).tobytes() == encode_elements(wanted).tobytes()


@settings(deadline=None, max_examples=share(60))
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 4), st.sampled_from([1, 3, 16, 19, 300])),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from([FLOAT32, INT32]),
    st.sampled_from([Function.ADD, Function.COPY, Function.MAX, Function.MUL]),
    st.booleans(),
    st.integers(0, 1 << 32),
)
def test_a_scatter_folds_in_ascending_order(
    shape: tuple[int, int, int],
    target: int,
    is_looped: bool,  # noqa: FBT001 - hypothesis passes it
    dtype: DType,
    function: Function,
    has_init: bool,  # noqa: FBT001 - likewise
    seed: int,
) -> None:
    """Any dimension may be named, by an index for all others or for each; parts change nothing."""
    rng = np.random.default_rng(seed)
    others = [v for v in range(3) if v != target]
    steps = 9
    source = sample(rng, dtype, [*(shape[v] for v in others), steps])
    axes = [*(others if is_looped else []), 3]
    sizes = [steps if v == 3 else shape[v] for v in axes]
    index = rng.integers(-1, shape[target] + 1, sizes)
    init = sample(rng, dtype, shape)
    operands = (
        read(0, dtype, shape, range(3)) if has_init else immediate(dtype, 7),
        read(1, dtype, source.shape, [*others, 3]),
        read(2, INT64, sizes, axes),
    )
    node = Node(Kind.SCATTER, function, dtype, shape, operands, (steps,), targets=(target,))
    flats = [init if has_init else None, source, index]
    wanted = DenseScatter(node).run(flats, 0)
    threads = get_threads()
    with pytest.MonkeyPatch.context() as patch:
        for grain, part in ((1 << 16, 1 << 16), (1, 3)):
            patch.setattr(indexed, "_GRAIN_ELEMENTS", grain)
            patch.setattr(scatters, "_PART_ELEMENTS", part)
            patch.setattr(scatters, "_GRAIN", grain)
            plan = plan_scatter(node)
            assert isinstance(plan, IndexedScatter)
            set_threads(3)
            found = plan.run(flats, 0)
            set_threads(threads)
            assert encode_elements(found).tobytes() == encode_elements(wanted).tobytes()


def test_order_is_ascending() -> None:
    """2^24 + 1 - 2^24 is 0 in ascending order and 1 in another."""
    for terms, total in (([2.0**24, 1, -(2.0**24)], 0), ([2.0**24, -(2.0**24), 1], 1)):
        operands = (immediate(FLOAT32, 0), read(0, FLOAT32, [3], [1]), immediate(INT64, 0))
        node = Node(Kind.SCATTER, Function.ADD, FLOAT32, (1,), operands, (3,), targets=(0,))
        assert plan_scatter(node).run([None, np.array(terms, np.float32), None], 0).item() == total


def test_what_is_there_stays_as_it_is() -> None:
    """An element that nobody names keeps -0, and one that -0 is added to keeps its zero's sign."""
    init = np.array([-0.0, -0.0, 0.0], np.float32)
    source, index = np.array([-0.0, -0.0], np.float32), np.array([1, 2])
    operands = (
        read(0, FLOAT32, [3], [0]),
        read(1, FLOAT32, [2], [1]),
        read(2, INT64, [2], [1]),
    )
    node = Node(Kind.SCATTER, Function.ADD, FLOAT32, (3,), operands, (2,), targets=(0,))
    found = plan_scatter(node).run([init, source, index], 0)
    assert np.signbit(found).tolist() == [True, True, False]
