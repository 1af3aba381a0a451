"""Rules of matrix products: left folds acc = fma(a, b, acc) over the inner dimension, ascending."""

from collections.abc import Mapping, Sequence

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule
from moot.offchain.frontend.lowering.reductions import fold
from moot.offchain.frontend.lowering.views import View, along, constant, expand, insert
from moot.offchain.programs.graph import Kind, Node, Row

Number = float | int


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
    if any(view.dtype is not DType.FLOAT32 for view, _ in (first, second)):
        raise RefusalError("a contraction of integers; only float32 is defined")
    extents = (*shape, *fold_shape)
    initial = start or (constant(DType.FLOAT32, 0), ())
    factors = zip(b.shorten(first[0], second[0]), (first[1], second[1]), strict=True)
    operands = tuple(b.operand(view, rows, extents) for view, rows in (initial, *factors))
    node = Node(
        Kind.CONTRACT, Function.FMA, DType.FLOAT32, tuple(shape), operands, tuple(fold_shape)
    )
    return b.emit(node, part)


def multiply(b: Builder, x: View, y: View, start: View | None = None, part: str = "mm") -> View:
    """Return the product of (..., M, K) and (..., K, N) with equal leading dimensions."""
    if DType.FLOAT32 not in (x.dtype, y.dtype):
        return _multiply_integers(b, x, y, start)
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


def _multiply_integers(b: Builder, x: View, y: View, start: View | None) -> View:
    """Return the product of matrices of integers: the sums of all products, which are exact."""
    products = b.map(Function.MUL, insert(x, len(x.shape)), insert(y, len(y.shape) - 2))
    result = fold(b, Function.ADD, products, len(products.shape) - 2)
    return result if start is None else b.map(Function.ADD, start, result)


def mm(b: Builder, x: View, y: View) -> View:
    """Lower mm and bmm."""
    return multiply(b, x, y)


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
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.mv.default": mv,
    "aten.dot.default": dot,
    "aten.addmv.default": addmv,
}
"""ATen overload -> rule."""
