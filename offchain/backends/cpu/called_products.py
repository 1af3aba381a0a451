"""Products of matrices as calls of machine code, in the way that suits their shapes best."""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.environment import report_change
from moot.offchain.backends.cpu.calls import (
    Layout,
    call,
    lay_out_whole,
    list_copies,
    reserve_scratch,
    share_out,
)
from moot.offchain.backends.cpu.kernels.contraction import strips, thin
from moot.offchain.backends.cpu.kernels.contraction.gemm import (
    Floats,
    divide,
    is_better_turned,
    is_thin,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import UNSUITABLE, Call, NativeSequence, Place
from moot.offchain.native.threads import get_threads
from moot.offchain.native.vectors import NAN
from moot.offchain.planning.accesses import Sizes

_ALL = slice(None)

Factors = npt.NDArray[Any]
"""Floats, patterns of shorter ones, which some arithmetics multiply, or integers."""


class Products(NamedTuple):
    """How batches of matrices are multiplied, in some arithmetic.

    Attributes:
        multiply: (a, b, init, out) multiplies them, as `gemm` does.
        list_calls: returns the calls that do, as `list_products`; None if a run decides.
        is_batched: whether a batch takes one call, and not one for each matrix.
    """

    multiply: Callable[[Factors, Factors, Any, Any], object]
    list_calls: Callable[[Layout, Layout, Layout, Layout, Memory], list[Call]] | None = None
    is_batched: bool = False


def gemm(a: Floats, b: Floats, init: Floats, out: Floats | None = None) -> Floats:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], each sum in ascending order.

    Args:
        a: (B, M, K) float32, any strides, zero and negative ones included.
        b: (B, K, N) float32, any strides.
        init: (B, M, N) float32, any strides: what each sum starts from.
        out: (B, M, N) float32 in which the elements of a row lie side by side; it may be `init`,
            but shares no memory with `a` or `b`. A new array if None.

    Returns:
        `out`.

    Raises:
        ValueError: if the rows of `out` are not contiguous, or the shapes do not fit.
    """
    if out is None:
        out = np.empty(init.shape, np.float32)
    batch, m, n = out.shape
    if init.shape != out.shape or a.shape[:2] != (batch, m) or b.shape != (batch, a.shape[2], n):
        raise ValueError(f"cannot multiply {a.shape} by {b.shape} into {out.shape}")
    if not out.size:
        return out
    if out.strides[2] != FLOAT_BYTES and n > 1:
        raise ValueError("the rows of the result have to be contiguous")
    if a.shape[2]:
        arrays = a, b, init, out
        layouts = tuple((array.shape, array.strides) for array in arrays)
        if _find_sequence(layouts, get_threads()).perform([None, *arrays]) == UNSUITABLE:
            raise report_change()
    else:
        out[...] = np.where(np.isnan(init), NAN, init)
    return out


@lru_cache(1024)
def _find_sequence(
    layouts: tuple[tuple[Sizes, tuple[int, ...]], ...], _threads: int
) -> NativeSequence:
    """Return the products of a, b, init and out by their shapes and strides."""
    memory = Memory()
    a, b, init, out = (
        Layout(Place(1 + number), FLOAT_BYTES, *layout) for number, layout in enumerate(layouts)
    )
    calls = list_products(a, b, init, out, memory)
    return NativeSequence(calls, memory.most_bytes, len(layouts))


def list_products(a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory) -> list[Call]:
    """Return the calls that multiply batches of matrices, whose shapes and layouts are `gemm`'s."""
    _, m, n = out.shape
    if m * n <= thin.MOST_ELEMENTS:
        elements = call(thin.fold_elements, (a, b, out, 0, prod(out.shape)), memory)
        shared = share_out(elements, thin.get_elements_grain(b.shape[1]))
        return [*list_copies(init, out, memory), shared]
    if is_better_turned(m, n, b.strides):
        return _list_turned_products(b.swap(1, 2), a.swap(1, 2), init.swap(1, 2), out, memory)
    if strips.is_suitable(m, b.shape, b.strides):
        return _list_near_products(a, b, init, out, memory)
    if is_thin(m, b.strides):
        return _list_thin_products(a, b, init, out, memory)
    return [_multiply(a, b, init, out, memory)]


def _list_turned_products(
    a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory
) -> list[Call]:
    """Return the calls that multiply the turned operands and turn the result."""
    shape = init.shape
    if out.strides[1] == FLOAT_BYTES:
        return list_products(a, b, init, out.swap(1, 2), memory)
    turned = lay_out_whole(memory.reserve(prod(shape) * FLOAT_BYTES), FLOAT_BYTES, shape)
    calls = list_products(a, b, init, turned, memory)
    return [*calls, *list_copies(turned.swap(1, 2), out, memory)]


def _list_near_products(
    a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory
) -> list[Call]:
    calls = []
    if not strips.has_readable_columns(init.strides):
        calls, init = list_copies(init, out, memory), out
    width, blocks, grain = strips.divide(b.shape, get_threads())
    product = call(strips.multiply_strips, (a, b, init, out, width, 0, blocks), memory)
    return [*calls, share_out(product, grain)]


def _list_thin_products(
    a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory
) -> list[Call]:
    batch, depth, columns = b.shape
    k, n = (size // thin.SIDE * thin.SIDE for size in (depth, columns))
    left, right = out.part(_ALL, _ALL, slice(n)), out.part(_ALL, _ALL, slice(n, None))
    calls = list_copies(init, out, memory)
    if k and n:
        block = thin.choose_block(left.shape, b.strides, get_threads())
        factors = a.part(_ALL, _ALL, slice(k)), b.part(_ALL, slice(k), slice(n))
        blocks = batch * -(-n // block)
        squares = call(thin.multiply_blocks, (*factors, left, block, 0, blocks), memory)
        calls.append(share_out(squares, thin.get_blocks_grain(block, k)))
    if k < depth and n:
        rest = a.part(_ALL, _ALL, slice(k, None)), b.part(_ALL, slice(k, None), slice(n))
        calls.append(_multiply(*rest, left, left, memory))
    if n < columns:
        calls.append(_multiply(a, b.part(_ALL, _ALL, slice(n, None)), right, right, memory))
    return calls


def _multiply(a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory) -> Call:
    is_turned = b.strides[1] == FLOAT_BYTES
    division = divide(*out.shape, a.shape[2], get_threads(), is_turned=is_turned)
    place, size = reserve_scratch(memory, division.scratch_floats * FLOAT_BYTES)
    scratch = lay_out_whole(place, FLOAT_BYTES, (division.scratch_floats,))
    arguments = (a, b, init, out, scratch, *division.sizes, 0, division.blocks)
    product = call(division.multiply, arguments, memory)
    return share_out(product, division.grain, scratch=(product.words.index(place), size))


FLOATS = Products(gemm, list_products, is_batched=True)
