"""Rules of matrix products: left folds acc = fma(a, b, acc) over the inner dimension, ascending.

Those of integers wrap around, as torch's do; numbers that are known to be INT8 stay INT8.
"""

from collections.abc import Mapping, Sequence

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule
from moot.offchain.frontend.lowering.views import View, along, constant, expand, insert
from moot.offchain.programs.graph import Kind, Node, Row

Number = float | int

MOST_BYTES = ((1 << 31) - 1) // (1 << 14)
"""Products of two INT8 numbers, 2^14 at most, of which an INT32 number holds the sum: 131,071."""


def emit_contract(
    b: Builder,
    shape: Sequence[int],
    fold_shape: Sequence[int],
    first: tuple[View, Sequence[Row]],
    second: tuple[View, Sequence[Row]],
    start: tuple[View, Sequence[Row]] | None = None,
    part: str = "contract",
) -> View:
    """Emit one contract of two views at coordinates of the output and the fold.

    `start` is what the fold starts from, +0 by default.
    """
    dtype = first[0].dtype
    if dtype is DType.BOOL or second[0].dtype is not dtype:
        raise RefusalError("a contraction of two types, or of bool; use float32 or integers")
    extents = (*shape, *fold_shape)
    initial = start or (constant(dtype, 0), ())
    factors = zip(b.shorten(first[0], second[0]), (first[1], second[1]), strict=True)
    operands = tuple(b.operand(view, rows, extents) for view, rows in (initial, *factors))
    node = Node(Kind.CONTRACT, Function.FMA, dtype, tuple(shape), operands, tuple(fold_shape))
    return b.emit(node, part)


def multiply(b: Builder, x: View, y: View, start: View | None = None, part: str = "mm") -> View:
    """Return the product of (..., M, K) and (..., K, N) with equal leading dimensions."""
    *batch, rows, inner = x.shape
    shape = (*batch, rows, y.shape[-1])
    rank = len(shape)
    lead = [along(d, size) for d, size in enumerate(batch)]
    left = [*lead, along(rank - 2, rows), along(rank, inner)]
    right = [*lead, along(rank, inner), along(rank - 1, shape[-1])]
    initial = None
    if start is not None:
        initial = (expand(start, shape), [along(d, size) for d, size in enumerate(shape)])
    return emit_contract(b, shape, (inner,), (x, left), (y, right), initial, part)


def mm(b: Builder, x: View, y: View) -> View:
    """Lower mm and bmm."""
    return multiply(b, x, y)


def int_mm(b: Builder, x: View, y: View) -> View:
    """Lower _int_mm, unless a sum of its products may pass what an INT32 number holds."""
    steps = x.shape[-1]
    if steps > MOST_BYTES:
        raise RefusalError(
            f"a sum of {steps:,} products of int8 may pass 2^31; {MOST_BYTES:,} are the most, so "
            "split the factors, and add up the parts in int64"
        )
    return multiply(b, b.widen(x), b.widen(y))


def addmm(
    b: Builder, start: View, x: View, y: View, *, beta: Number = 1, alpha: Number = 1
) -> View:
    """Lower addmm and baddbmm: the fold starts from the summand, unless something is scaled."""
    if beta == alpha == 1:
        return multiply(b, x, y, start)
    product = multiply(b, x, y)
    if alpha != 1:
        product = b.map(Function.MUL, product, b.scalar(alpha, product.dtype))
    if beta == 0:
        return product
    if beta != 1:
        start = b.map(Function.MUL, start, b.scalar(beta, start.dtype))
    return b.map(Function.ADD, start, product)


def mv(b: Builder, x: View, y: View) -> View:
    """Lower mv."""
    return b.reshape(multiply(b, x, insert(y, 1)), x.shape[:1])


def dot(b: Builder, x: View, y: View) -> View:
    """Lower dot."""
    return b.reshape(multiply(b, insert(x, 0), insert(y, 1)), ())


def addmv(
    b: Builder, start: View, x: View, y: View, *, beta: Number = 1, alpha: Number = 1
) -> View:
    """Lower addmv."""
    column = insert(expand(start, x.shape[:1]), 1)
    return b.reshape(addmm(b, column, x, insert(y, 1), beta=beta, alpha=alpha), x.shape[:1])


CONTRACTIONS: Mapping[str, Rule] = {
    "aten.mm.default": mm,
    "aten.bmm.default": mm,
    "aten._int_mm.default": int_mm,
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.mv.default": mv,
    "aten.dot.default": dot,
    "aten.addmv.default": addmv,
}
"""ATen overload -> rule."""
