"""Matrix products: the blocked kernel against one fold an element, and this fold against fma."""

import ctypes
import mmap
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.float32 import fma
from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.backends.cpu import called_products
from moot.offchain.backends.cpu.called_products import gemm
from moot.offchain.backends.cpu.kernels.contraction import gemm as gemm_module
from moot.offchain.backends.cpu.kernels.contraction import strips, thin, wide
from moot.offchain.backends.cpu.kernels.contraction.gemm import fold_partials
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.native.vectors import LANES
from tests.quick import every

Floats = npt.NDArray[np.float32]

SPECIALS = np.array(
    [
        0x00000000,
        0x80000000,
        0x00000001,
        0x807FFFFF,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0xFFC12345,
    ],
    np.uint32,
).view(np.float32)

PATTERNS = st.integers(0, 2**32 - 1) | st.sampled_from(SPECIALS.view(np.uint32).tolist())


@pytest.fixture(autouse=True)
def _divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide each product by the sizes that a test sets, also one of shapes that were seen."""
    for module, name in ((called_products, "_find_sequence"), (called_products, "divide")):
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def bits(x: Floats) -> npt.NDArray[np.uint32]:
    """The patterns of floats, which tell zeros and NaNs apart."""
    return np.ascontiguousarray(x).view(np.uint32)


def draw_numbers(rng: np.random.Generator, shape: tuple[int, ...], specials: float) -> Floats:
    """Numbers of many magnitudes, and with probability `specials` special ones."""
    numbers = rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)
    drawn = rng.choice(SPECIALS, shape)
    return np.where(rng.random(shape) < specials, drawn, numbers.astype(np.float32))


def draw_view(rng: np.random.Generator, shape: tuple[int, ...], specials: float) -> Floats:
    """An array with an arbitrary order of axes, and on each a stride of any sign, or 0."""
    order = rng.permutation(len(shape))
    steps = rng.choice([1, 1, 1, 2, -1, -3, 0], len(shape))
    sizes = [max(1, size * abs(step)) for size, step in zip(shape, steps, strict=True)]
    memory = draw_numbers(rng, tuple(sizes[axis] for axis in order), specials)
    whole = memory.transpose(np.argsort(order))
    view = whole[tuple(slice(None, None, step or 1) for step in steps)]
    view = view[tuple(slice(size) for size in shape)]
    return np.broadcast_to(view, shape)


def put_before_guard(size: int) -> Floats:
    """Memory for `size` floats, up to the beginning of a page that is protected."""
    pages = -(-size * 4 // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, pages + mmap.PAGESIZE), np.float32)
    guard = ctypes.c_void_p(memory.ctypes.data + pages)
    assert ctypes.CDLL(None).mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return memory[pages // 4 - size : pages // 4]


def fold_each(a: Floats, b: Floats, init: Floats) -> Floats:
    """The same product, one element after the other."""
    out = np.empty(init.shape, np.float32)
    for z, m, n in np.ndindex(*init.shape):
        out[z, m, n] = fold_partials(a[z, m], b[z, :, n], init.item(z, m, n))[-1]
    return out


@settings(deadline=None)
@given(st.lists(st.tuples(PATTERNS, PATTERNS), max_size=20), PATTERNS)
def test_partials_follow_the_definition(terms: list[tuple[int, int]], init: int) -> None:
    """Each accumulator is the defined fma of the one before, and every NaN the canonical one."""
    a, b = np.array(terms, np.uint32).reshape(-1, 2).T.view(np.float32)
    start = np.uint32(init).view(np.float32)
    partials = bits(fold_partials(a, b, start))
    assert partials[0] == (CANONICAL_NAN if np.isnan(start) else init)
    for (x, y), before, after in zip(terms, partials.tolist(), partials[1:].tolist(), strict=False):
        assert after == fma(x, y, before)


@settings(deadline=None, max_examples=200)
@given(
    batch=st.integers(0, 3),
    m=st.integers(0, 40) | st.integers(1, 4),
    n=st.integers(0, 80) | st.integers(1, 4),
    k=st.integers(0, 40) | st.sampled_from([511, 512, 513, 1030]),
    specials=st.sampled_from([0, 0.001, 0.1]),
    threads=st.sampled_from([1, 2]),
    is_near=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example(batch=1, m=9, n=9, k=0, specials=0.5, threads=1, is_near=True, seed=0)
def test_every_element_is_its_own_ascending_fold(
    *,
    batch: int,
    m: int,
    n: int,
    k: int,
    specials: float,
    threads: int,
    is_near: bool,
    seed: int,
) -> None:
    """Whatever the shape, strides, special values and threads, no element differs from its fold."""
    rng = np.random.default_rng(seed)
    if k > 40:
        m, n = m % 20, n % 40
    set_threads(threads)
    a = draw_view(rng, (batch, m, k), specials)
    b = draw_view(rng, (batch, k, n), specials)
    init = draw_view(rng, (batch, m, n), specials)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strips, "_MOST_BYTES", strips._MOST_BYTES if is_near else 0)
        assert np.array_equal(bits(gemm(a, b, init)), bits(fold_each(a, b, init)))


@pytest.mark.parametrize("m", every(6, range(1, strips.MOST_ROWS + 1)))
@pytest.mark.parametrize("n", [3, 16, 90, 256, 345])
@pytest.mark.parametrize("is_one", [False, True])
def test_strips_of_all_widths_are_the_same_folds(
    m: int, n: int, monkeypatch: pytest.MonkeyPatch, *, is_one: bool
) -> None:
    """Strips start from rows or from one number in each, are shared out, and end where rows do."""
    monkeypatch.setattr(strips, "_GRAIN", 1)
    monkeypatch.setattr(called_products, "is_better_turned", lambda *_: False)
    monkeypatch.setattr(thin, "MOST_ELEMENTS", 0)
    rng = np.random.default_rng(n)
    a, b = draw_view(rng, (2, m, 21), 0.01), draw_numbers(rng, (2, 21, n), 0.01)
    init = draw_numbers(rng, (2, m, 1 if is_one else n), 0.1)
    start = np.broadcast_to(init, (2, m, n))
    for count in (1, 2, 3, 5):
        set_threads(count)
        memory = draw_numbers(rng, (2, m, n + 7), 0)
        out, beyond = memory[:, :, :n], memory[:, :, n:].copy()
        gemm(a, b, start, out)
        assert np.array_equal(bits(out), bits(fold_each(a, b, start)))
        assert np.array_equal(memory[:, :, n:], beyond)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux for guard pages")
@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 3),
    st.integers(1, 50),
    st.integers(1, 120),
    st.integers(1, 90),
    st.sampled_from([0, 0.001, 0.1]),
    st.integers(1, 3),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
@example(batch=1, m=17, n=49, k=33, specials=0.1, near=1, deep=1, high=1, long=1, seed=0)
def test_rows_that_stream_past_columns_are_the_same_folds(
    batch: int,
    m: int,
    n: int,
    k: int,
    specials: float,
    near: int,
    deep: int,
    high: int,
    long: int,
    seed: int,
) -> None:
    """Whatever the blocks, each element is its fold, and scratch memory suffices to the byte."""
    rng = np.random.default_rng(seed)
    a, b = draw_view(rng, (batch, m, k), specials), draw_view(rng, (batch, k, n), specials)
    init = draw_view(rng, (batch, m, n), specials)
    out = draw_numbers(rng, init.shape, 0)
    depth, block_m, block_n = deep * LANES, high * wide.ROWS, long * wide.COLUMNS
    scratch = put_before_guard(wide.count_scratch_bytes(block_m, depth, near) // 4)
    blocks = batch * -(-m // block_m) * -(-n // block_n)
    wide.multiply_wide_blocks(a, b, init, out, scratch, near, depth, block_m, block_n, 0, blocks)
    assert np.array_equal(bits(out), bits(fold_each(a, b, init)))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    every(
        6,
        [
            (1100, 1090, 20),
            (2100, 3, 70),
            (3, 2100, 70),
            (300, 260, 1100),
            (100, 300, 1100),
            (2100, 520, 70),
            (300, 600, 1100),
            (70, 1700, 70),
        ],
    ),
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_blocks_and_threads_change_nothing(m: int, n: int, k: int, *, is_turned: bool) -> None:
    """Products of several blocks agree for any number of threads, and with folds across seams."""
    rng = np.random.default_rng(0)
    a, b = draw_numbers(rng, (1, m, k), 0), draw_numbers(rng, (1, k, n), 0)
    b = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2) if is_turned else b
    init = np.broadcast_to(draw_numbers(rng, (n,), 0), (1, m, n))
    set_threads(1)
    product = gemm(a, b, init)
    for count in (2, 3):
        set_threads(count)
        assert np.array_equal(bits(gemm(a, b, init)), bits(product))
    some_rows, some_columns = [0, m // 2, m - 1], [0, n // 3, n // 2, 2 * n // 3, n - 1]
    by_row = fold_each(a[:, some_rows], b, init[:, some_rows])
    by_column = fold_each(a, b[:, :, some_columns], init[:, :, some_columns])
    assert np.array_equal(bits(product[:, some_rows]), bits(by_row))
    assert np.array_equal(bits(product[:, :, some_columns]), bits(by_column))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (1, 8), (4, 2)])
def test_elements_are_shared_out_to_threads(
    m: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of a few elements are the same folds, however many and whoever computes them."""
    monkeypatch.setattr(thin, "_STEPS", 1)
    rng = np.random.default_rng(0)
    for batch in (1, 7):
        a, b = draw_view(rng, (batch, m, 33), 0.01), draw_view(rng, (batch, 33, n), 0.01)
        init = draw_view(rng, (batch, m, n), 0.1)
        for count in (1, 3):
            set_threads(count)
            assert np.array_equal(bits(gemm(a, b, init)), bits(fold_each(a, b, init)))


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        *((name, 170) for name in ("_DEPTH", "_DEPTH_OF_ROWS", "_GROUP_BYTES", "_BLOCK")),
        *((name, 210) for name in ("_DEPTH", "_NEAR_BYTES", "_MOST_ROWS")),
        *((name, columns) for name in ("_PART", "GRAIN") for columns in (170, 210)),
    ],
)
@pytest.mark.parametrize("turned", ["", "a", "b"])
def test_block_sizes_change_nothing(
    name: str, columns: int, turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of the smallest size, which differ from thread to thread, give the same product."""
    rng = np.random.default_rng(0)
    shapes = {"a": (1, 150, 90), "b": (1, 90, columns)}
    operands = {}
    for operand, (z, high, long) in shapes.items():
        shape = (z, long, high) if operand in turned else (z, high, long)
        numbers = draw_numbers(rng, shape, 0.001)
        operands[operand] = numbers.swapaxes(1, 2) if operand in turned else numbers
    init = draw_numbers(rng, (1, 150, columns), 0)
    product = gemm(**operands, init=init)
    monkeypatch.setattr(gemm_module, "GRAIN", 1)
    monkeypatch.setattr(gemm_module, "_LEAST_COLUMNS", 200)
    monkeypatch.setattr(gemm_module, name, 1)
    for count in (1, 2, 3):
        set_threads(count)
        assert np.array_equal(bits(gemm(**operands, init=init)), bits(product))


def test_order_is_ascending() -> None:
    """2^24 + 1 - 2^24 is 0 in ascending order and 1 in descending order."""
    a = np.array([[[2.0**24, 1, -(2.0**24)]]], np.float32)
    ones, zero = np.ones((1, 3, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    assert gemm(a, ones, zero).item() == 0
    a[0, 0, 1:] = a[0, 0, :0:-1]
    assert gemm(a, ones, zero).item() == 1


def test_products_are_not_rounded() -> None:
    """(1 + 2^-12)^2 - (1 + 2^-11) is 2^-24: a rounded product would leave 0."""
    x = np.full((1, 1, 1), 1 + 2.0**-12, np.float32)
    init = np.full((1, 1, 1), -(1 + 2.0**-11), np.float32)
    assert gemm(x, x, init).item() == 2.0**-24


def test_result_may_take_the_place_of_its_start() -> None:
    """`out` may be `init`, and strided: then nothing between its rows is written."""
    rng = np.random.default_rng(0)
    a, b = draw_numbers(rng, (2, 20, 9), 0), draw_numbers(rng, (2, 9, 33), 0)
    memory = draw_numbers(rng, (2, 20, 50), 0)
    out, between = memory[:, :, 5:38], memory[:, :, np.r_[:5, 38:50]].copy()
    expected = gemm(a, b, out.copy())
    assert gemm(a, b, out, out) is out
    assert np.array_equal(bits(out), bits(expected))
    assert np.array_equal(memory[:, :, np.r_[:5, 38:50]], between)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux for guard pages")
@pytest.mark.parametrize(
    ("m", "n", "k"), [(3, 5, 7), (15, 17, 33), (16, 1, 16), (3, 40, 37), (67, 530, 66)]
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_nothing_beyond_the_operands_is_touched(m: int, n: int, k: int, *, is_turned: bool) -> None:
    """Each matrix may end where a page begins that must not be touched."""
    a, b, out = (put_before_guard(size) for size in (m * k, k * n, m * n))
    a[:], b[:], out[:] = 1, 2, 3
    matrices = (a.reshape(1, m, k), b.reshape(1, k, n), out.reshape(1, m, n))
    if is_turned:
        turned = a.reshape(1, k, m).swapaxes(1, 2), b.reshape(1, n, k).swapaxes(1, 2)
        matrices = (*turned, matrices[2])
    assert (gemm(*matrices, matrices[2]) == 3 + 2 * k).all()


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("axis", range(3))
def test_shapes_that_do_not_fit_are_refused(place: int, axis: int) -> None:
    """No operand is read beyond its end: a size that differs from the others' is an error."""
    shapes = [[2, 3, 4], [2, 4, 5], [2, 3, 5]]
    shapes[place][axis] += 1
    a, b, init = (np.zeros(shape, np.float32) for shape in shapes)
    with pytest.raises(ValueError, match="cannot multiply"):
        gemm(a, b, init, np.zeros((2, 3, 5), np.float32))


def test_a_result_with_strided_rows_is_refused() -> None:
    """Rows are written vector by vector, so their elements have to lie side by side."""
    x = np.zeros((1, 4, 4), np.float32)
    with pytest.raises(ValueError, match="contiguous"):
        gemm(x, x, x, x.swapaxes(1, 2))
