"""Products of matrices as calls of machine code, divided as `gemm` divides them."""

from math import prod

from moot.offchain.backends.cpu.calls import (
    Layout,
    call,
    lay_out_whole,
    list_copies,
    reserve_scratch,
    share_out,
)
from moot.offchain.backends.cpu.kernels.contraction import strips, thin
from moot.offchain.backends.cpu.kernels.contraction.gemm import divide, is_better_turned, is_thin
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call
from moot.offchain.native.threads import get_threads

_ALL = slice(None)


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
