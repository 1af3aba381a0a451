"""Products of matrices of integers: the packed kernels against sums of all products."""

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.backends.cpu import called_integers
from moot.offchain.backends.cpu.called_integers import multiply
from moot.offchain.backends.cpu.kernels.contraction import byte_rows, tiles, words
from moot.offchain.backends.cpu.kernels.contraction.words import Packed
from moot.offchain.native.machine import WIDTH_VARIABLE, WIDTHS_BITS
from moot.offchain.native.threads import get_threads, set_threads
from tests.quick import every

Integers = npt.NDArray[Any]

BOUNDS = {
    "int8": (np.int8, 1 << 7),
    "bytes": (np.int32, 1 << 7),
    "halves": (np.int32, 1 << 15),
    "int32": (np.int32, 1 << 31),
    "int64": (np.int64, 1 << 63),
}
"""Types of factors, and what their numbers are below, and at least the negative of."""

SIZES = st.integers(1, 12) | st.integers(1, 70) | st.sampled_from([16, 31, 32, 33, 64])


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def draw_numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Integers:
    """Numbers of a kind, a quarter of them at the ends of its range."""
    dtype, bound = BOUNDS[kind]
    ordinary = rng.integers(-bound, bound - 1, shape, np.int64, endpoint=True)
    ends = rng.choice(np.array([-bound, bound - 1, 0, -1, 1 - bound], np.int64), shape)
    return np.where(rng.random(shape) < 0.25, ends, ordinary).astype(dtype)


def draw_view(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Integers:
    """An array with an arbitrary order of axes, and on each a stride of any sign, or 0."""
    order = rng.permutation(len(shape))
    steps = rng.choice([1, 1, 1, 2, -1, -3, 0], len(shape))
    sizes = [max(1, size * abs(step)) for size, step in zip(shape, steps, strict=True)]
    whole = draw_numbers(rng, kind, tuple(sizes[axis] for axis in order))
    turned = whole.transpose(np.argsort(order))
    view = turned[tuple(slice(None, None, step or 1) for step in steps)]
    return np.broadcast_to(view[tuple(slice(size) for size in shape)], shape)


def add_up(a: Integers, b: Integers, init: Integers) -> Integers:
    """The same product by Python's integers, modulo what an element holds."""
    exact = init.astype(object) + np.matmul(a.astype(object), b.astype(object))
    bits = 8 * init.itemsize
    wrapped = (exact + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return wrapped.astype(init.dtype)


def get_init(kind: str) -> str:
    """Return the kind of numbers that sums are."""
    return "int64" if kind == "int64" else "int32"


@pytest.mark.parametrize("has_tiles", [False, True])
@pytest.mark.parametrize("kind", BOUNDS)
@settings(deadline=None)
@given(
    batch=st.integers(1, 2),
    m=SIZES,
    n=SIZES,
    k=SIZES,
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_sums_of_all_products(
    *, kind: str, batch: int, m: int, n: int, k: int, threads: int, seed: int, has_tiles: bool
) -> None:
    """Whatever the shape, strides, numbers, threads and instructions, sums wrap around."""
    rng = np.random.default_rng(seed)
    set_threads(threads)
    a, b = draw_view(rng, kind, (batch, m, k)), draw_view(rng, kind, (batch, k, n))
    init = draw_view(rng, get_init(kind), (batch, m, n))
    out = np.empty(init.shape, init.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(called_integers, "_GRAIN", 1)
        patch.setattr(called_integers, "_PACKING_GRAIN", 1)
        if not has_tiles:
            patch.setattr(tiles, "are_there", lambda: False)
        multiply(a, b, init, out)
    assert np.array_equal(out, add_up(a, b, init))


@pytest.mark.parametrize("has_tiles", [False, True])
@pytest.mark.parametrize("packed", [form.packed for form in words.FORMS[4]])
@pytest.mark.parametrize("kind", ["int8", "bytes"])
def test_blocks_change_nothing(
    packed: Packed, kind: str, monkeypatch: pytest.MonkeyPatch, *, has_tiles: bool
) -> None:
    """Small blocks of rows and of steps, words of either form and sums in place are the same."""
    monkeypatch.setattr(called_integers, "_BLOCK_ROWS", 40)
    source = BOUNDS[kind][0]().itemsize
    form = words.Form(packed, source, packed is Packed.BYTES)
    monkeypatch.setitem(words.FORMS, source, (form,))
    if not has_tiles:
        monkeypatch.setattr(tiles, "are_there", lambda: False)
    rng = np.random.default_rng(7)
    for m, n, k in ((130, 70, 2200), (33, 100, 4100), (95, 33, 64), (80, 97, 2240), (48, 40, 128)):
        a, b = draw_numbers(rng, kind, (1, m, k)), draw_numbers(rng, kind, (1, n, k))
        out = draw_numbers(rng, "int32", (1, m, n))
        expected = add_up(a, b.swapaxes(1, 2), out)
        multiply(a, b.swapaxes(1, 2), out, out)
        assert np.array_equal(out, expected)


@pytest.mark.skipif(not words.HAS_BYTES, reason="the processor has no instruction for bytes")
@pytest.mark.parametrize("is_turned", [False, True])
def test_few_rows_are_multiplied_as_they_lie(*, is_turned: bool) -> None:
    """Up to `MOST_ROWS` rows, or columns, of numbers side by side, at either end of their range."""
    rng = np.random.default_rng(int(is_turned))
    lanes = 4 * words.COLUMNS // 2
    for m in range(1, byte_rows.MOST_ROWS + 1):
        for steps in (1, 3, lanes - 1, lanes, lanes + 1, 3 * lanes + 5):
            n = int(rng.integers(1, 11))
            a, b = (rng.integers(-128, 128, (rows, steps), np.int8) for rows in (m, n))
            if steps % 2:
                a[0], b[0] = -128, -128
            start = rng.integers(-(1 << 31), 1 << 31, (m, n)).astype(np.int32)
            expected = start + a.astype(np.int32) @ b.T.astype(np.int32)
            found = np.empty_like(start)
            if is_turned:
                multiply(b[None], a.T[None], start.T[None], found.T[None])
            else:
                multiply(a[None], b.T[None], start[None], found[None])
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("place", ["a", "b"])
@pytest.mark.parametrize("value", [128, -129, 1 << 15, -(1 << 15) - 1, 1 << 31 - 1])
def test_one_number_that_does_not_fit_is_seen(place: str, value: int) -> None:
    """A number too long for a word's, in either factor and anywhere, is multiplied as it is."""
    rng = np.random.default_rng(3)
    for m, n, k in ((1, 1, 1), (35, 40, 90)):
        factors = {
            "a": draw_numbers(rng, "bytes", (1, m, k)),
            "b": draw_numbers(rng, "bytes", (1, k, n)),
        }
        chosen = factors[place].reshape(-1)
        for at in {0, len(chosen) // 2, len(chosen) - 1}:
            before, chosen[at] = chosen[at], value
            out = draw_numbers(rng, "int32", (1, m, n))
            expected = add_up(factors["a"], factors["b"], out)
            multiply(factors["a"], factors["b"], out, out)
            assert np.array_equal(out, expected)
            chosen[at] = before


def put_before_guard(numbers: Integers) -> Integers:
    """A copy of numbers that ends where a page begins that is protected."""
    pages = -(-numbers.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, pages + mmap.PAGESIZE), np.uint8)
    guard = ctypes.c_void_p(memory.ctypes.data + pages)
    assert ctypes.CDLL(None).mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = memory[pages - numbers.nbytes : pages].view(numbers.dtype).reshape(numbers.shape)
    copy[...] = numbers
    return copy


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux for guard pages")
@pytest.mark.parametrize("kind", ["int8", "bytes", "halves"])
def test_nothing_beyond_the_factors_is_read(kind: str) -> None:
    """Rows, columns and steps that fill no vector end with the memory."""
    rng = np.random.default_rng(5)
    for m, n, k in ((1, 1, 1), (3, 17, 70), (33, 33, 67), (48, 40, 128), (33, 20, 64)):
        a = put_before_guard(draw_numbers(rng, kind, (1, m, k)))
        for is_turned in (False, True):
            shape = (1, n, k) if is_turned else (1, k, n)
            whole = put_before_guard(draw_numbers(rng, kind, shape))
            b = whole.swapaxes(1, 2) if is_turned else whole
            out = put_before_guard(draw_numbers(rng, "int32", (1, m, n)))
            expected = add_up(a, b, out)
            multiply(a, b, out, out)
            assert np.array_equal(out, expected)


def test_instructions_are_known_by_features() -> None:
    """Bytes need an instruction for vectors of their width."""
    assert words.has_bytes(16, "+avx512f,+avx512vnni")
    assert words.has_bytes(8, "+avx2,+avxvnni")
    assert not words.has_bytes(8, "+avx2,+avx512vnni")
    assert not words.has_bytes(16, "+avx512f,-avx512vnni")
    assert not words.has_bytes(4, "+sse2,+avxvnni,+avx512vnni")


WIDTH_CHECK = """
import numpy as np
from moot.offchain.backends.cpu.called_integers import multiply
rng = np.random.default_rng(1)
for dtype, bound in ((np.int8, 128), (np.int32, 128), (np.int32, 1 << 15), (np.int32, 1 << 31)):
    for m, n, k in ((3, 5, 7), (40, 33, 130)):
        a, b = (rng.integers(-bound, bound, s).astype(dtype) for s in ((1, m, k), (1, n, k)))
        for right in (b.swapaxes(1, 2), np.ascontiguousarray(b.swapaxes(1, 2))):
            out = np.zeros((1, m, n), np.int32)
            multiply(a, right, out, out)
            wide = a.astype(np.int64) @ right.astype(np.int64)
            assert np.array_equal(out, wide.astype(np.int32)), (dtype, bound, m)
"""


@pytest.mark.parametrize("bits", every(2, [bits for bits in WIDTHS_BITS if bits < 512]))
def test_narrow_vectors_give_the_same(bits: int) -> None:
    """Processors with narrower vectors, and without instructions for bytes, come to the same."""
    environment = os.environ | {WIDTH_VARIABLE: str(bits)}
    command = [sys.executable, "-c", WIDTH_CHECK]
    subprocess.run(command, env=environment, check=True)  # noqa: S603 - the code is above
