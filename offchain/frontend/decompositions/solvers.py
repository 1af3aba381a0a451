"""Linear systems of small matrices: elimination written out, one pivot after the other.

The number of operators grows with the size of the matrix, so that sizes above `MAX_SIZE` are
refused. A singular matrix has an inverse of infinities or NaN, where torch raises an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from moot.offchain.frontend.lowering.builder import RefusalError

MAX_SIZE = 64
"""Rows of a matrix that is solved or factored."""


def require_small(name: str, size: int, most: int = MAX_SIZE, what: str = "rows") -> None:
    """Refuse an operator on a matrix of more rows, or columns, than are written out."""
    if size > most:
        raise RefusalError(f"a matrix of {size} {what}; at most {most} are written out", name)


def require_narrow(name: str, a: Tensor, most: int = MAX_SIZE) -> None:
    """Refuse an operator on a matrix of which both sides are longer than is written out."""
    rows, columns = a.shape[-2:]
    require_small(name, min(rows, columns), most, "columns" if columns <= rows else "rows")


def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return x of a x = b, or of x a = b, by substitution, row after row."""
    if not left:
        turned = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    size = a.shape[-1]
    require_small("aten.linalg_solve_triangular.default", size)
    solved: dict[int, Tensor] = {}
    for i in reversed(range(size)) if upper else range(size):
        row = b[..., i : i + 1, :]
        if solved:
            known = sorted(solved)
            before = torch.cat([solved[k] for k in known], -2)
            row = row - a[..., i : i + 1, known[0] : known[-1] + 1] @ before
        solved[i] = row if unitriangular else row / a[..., i : i + 1, i : i + 1]
    result = torch.cat([solved[i] for i in range(size)], -2) if size else b
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]  # torch's is untyped
    return result.expand(*batch, *b.shape[-2:])


def triangular_solve(
    b: Tensor,
    a: Tensor,
    upper: bool = True,  # noqa: FBT001, FBT002 - ATen's signature
    transpose: bool = False,  # noqa: FBT001, FBT002 - likewise
    unitriangular: bool = False,  # noqa: FBT001, FBT002 - likewise
) -> tuple[Tensor, Tensor]:
    """Return the solution of a triangular system, and its matrix."""
    matrix = a.mT if transpose else a
    is_upper = upper is not transpose
    return solve_triangular(matrix, b, upper=is_upper, unitriangular=unitriangular), a.clone()


def cholesky(
    a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the triangular root of a positive definite matrix, column after column."""
    del check_errors
    size = a.shape[-1]
    require_small("aten.linalg_cholesky_ex.default", size)
    source = a.mT if upper else a
    columns: list[Tensor] = []
    for j in range(size):
        column = source[..., j:, j]
        if columns:
            before = torch.stack(columns, -1)[..., j:, :]
            column = column - (before @ before[..., :1, :].mT)[..., 0]
        column = column / column[..., :1].sqrt()
        columns.append(torch.nn.functional.pad(column, (j, 0)))
    result = torch.stack(columns, -1) if columns else a.clone()
    return result.mT if upper else result, a.new_zeros(a.shape[:-2], dtype=torch.int32)


def cholesky_solve(b: Tensor, root: Tensor, upper: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - ATen's signature
    """Return the solution of a system of which the triangular root is given."""
    lower = root.mT if upper else root
    return solve_triangular(lower.mT, solve_triangular(lower, b, upper=False), upper=True)


def cholesky_inverse(root: Tensor, upper: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - likewise
    """Return the inverse of a matrix of which the triangular root is given."""
    return cholesky_solve(torch.eye(root.shape[-1]).expand(root.shape), root, upper)


def _eliminate(a: Tensor, b: Tensor) -> tuple[Tensor, Sequence[Tensor], Tensor]:
    """Return the solution of a x = b, all pivots, and the sign of the rows' permutation.

    Gauss and Jordan's elimination; the pivot is the first of the largest elements of its column.
    Where nothing is solved, a pivot of 0 leaves its row as it is, since all below it are 0.
    """
    solves = bool(b.shape[-1])
    size = a.shape[-1]
    both = torch.cat([a, b.expand(*a.shape[:-2], *b.shape[-2:])], -1)
    place = torch.arange(size)
    sign, pivots = torch.ones(a.shape[:-2]), []
    for k in range(size):
        best = both[..., k:, k].abs().argmax(-1, keepdim=True) + k
        order = torch.where(place == k, best, torch.where(place == best, k, place))
        both = both.gather(-2, order[..., None].expand(both.shape))
        sign = torch.where(best[..., 0] == k, sign, -sign)
        pivot = both[..., k : k + 1, k : k + 1]
        pivots.append(pivot[..., 0, 0])
        row = both[..., k : k + 1, :] / (pivot if solves else torch.where(pivot == 0, 1, pivot))
        factor = torch.where(place[:, None] == k, 0, both[..., :, k : k + 1])
        both = torch.where(place[:, None] == k, row, both - factor * row)
    return both[..., size:], pivots, sign


def inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Return the inverse of a matrix, and no error."""
    del check_errors
    require_small("aten.linalg_inv_ex.default", a.shape[-1])
    solution, _, _ = _eliminate(a, torch.eye(a.shape[-1]))
    return solution, a.new_zeros(a.shape[:-2], dtype=torch.int32)


def solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the solution of a system, by the inverse, without the factors that torch keeps."""
    del check_errors
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if is_vector else b
    inverted = torch.linalg.inv_ex(a)[0]
    x = inverted @ right if left else right @ inverted
    pivots, infos = (a.new_zeros(a.shape[:-n], dtype=torch.int32) for n in (1, 2))
    return x[..., 0] if is_vector else x, a, pivots, infos


class _Determinant(torch.autograd.Function):
    """The determinant, by the pivots; its gradient, by the inverse, is 0 where it is 0, as torch's.

    What torch has as its gradient at a singular matrix is 0, whatever the rank of the matrix is.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        """Return the product of the pivots."""
        _, pivots, value = _eliminate(a, a[..., :0])
        for pivot in pivots:
            value = value * pivot
        ctx.save_for_backward(a, value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of the matrix."""
        a, value = ctx.saved_tensors
        turned: Tensor = torch.linalg.inv_ex(a)[0].mT
        factor = (gradients[0] * value)[..., None, None]
        return torch.where(value[..., None, None] == 0, 0, factor * turned)


class _LogDeterminant(torch.autograd.Function):
    """The sign of a determinant and the logarithm of its size, by the pivots."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> tuple[Tensor, Tensor]:
        """Return both; the sign of what is not a number is 0, as torch's is."""
        _, pivots, sign = _eliminate(a, a[..., :0])
        total = torch.zeros(a.shape[:-2])
        for pivot in pivots:
            sign, total = sign * pivot.sign(), total + pivot.abs().log()
        ctx.save_for_backward(a)
        return sign, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of the matrix; that of the sign is 0."""
        turned: Tensor = torch.linalg.inv_ex(ctx.saved_tensors[0])[0].mT
        return gradients[1][..., None, None] * turned


def slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sign of a determinant and the logarithm of its size, without torch's factors."""
    require_small("aten._linalg_slogdet.default", a.shape[-1])
    sign, logarithm = _LogDeterminant.apply(a)  # type: ignore[no-untyped-call]  # torch's is untyped
    return sign, logarithm, a, a.new_zeros(a.shape[:-1], dtype=torch.int32)


def det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a determinant, without torch's factors."""
    require_small("aten._linalg_det.default", a.shape[-1])
    value = _Determinant.apply(a)  # type: ignore[no-untyped-call]  # likewise
    return value, a, a.new_zeros(a.shape[:-1], dtype=torch.int32)


SOLVERS: Mapping[str, Callable[..., Any]] = {
    "aten.linalg_solve_triangular.default": solve_triangular,
    "aten.triangular_solve.default": triangular_solve,
    "aten.linalg_cholesky_ex.default": cholesky,
    "aten.cholesky_solve.default": cholesky_solve,
    "aten.cholesky_inverse.default": cholesky_inverse,
    "aten.linalg_inv_ex.default": inverse,
}
"""ATen overload -> decomposition."""

SYSTEMS: Mapping[str, Callable[..., Any]] = {
    "aten._linalg_solve_ex.default": solve,
    "aten._linalg_det.default": det,
    "aten._linalg_slogdet.default": slogdet,
}
"""ATen overload -> composition that autograd sees."""
