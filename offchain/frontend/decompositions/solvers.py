"""Linear systems of small matrices: elimination written out, one pivot after the other.

The number of operators grows with the size of the matrix, so that sizes above `MAX_SIZE` are
refused. A singular matrix gives infinities or NaN, where torch raises an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from offchain.errors import CaptureError

MAX_SIZE = 64
"""Rows of a matrix that is solved or factored."""


def _require_small(name: str, size: int) -> None:
    if size > MAX_SIZE:
        message = f"{name}: a matrix of {size} rows; at most {MAX_SIZE} are written out"
        raise CaptureError(message, operator=name)


def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return x of a x = b, or of x a = b, by substitution, row after row."""
    if not left:
        turned = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    size = a.shape[-1]
    _require_small("aten.linalg_solve_triangular.default", size)
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
    _require_small("aten.linalg_cholesky_ex.default", size)
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
    """
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
        row = both[..., k : k + 1, :] / pivot
        factor = torch.where(place[:, None] == k, 0, both[..., :, k : k + 1])
        both = torch.where(place[:, None] == k, row, both - factor * row)
    return both[..., size:], pivots, sign


def inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Return the inverse of a matrix, and no error."""
    del check_errors
    _require_small("aten.linalg_inv_ex.default", a.shape[-1])
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
    pivots, errors = (a.new_zeros(a.shape[:-k], dtype=torch.int32) for k in (1, 2))
    return x[..., 0] if is_vector else x, a, pivots, errors


def _follow(value: Tensor, a: Tensor) -> Tensor:
    """Return a value with the gradient of the logarithm of a determinant, which is the inverse's.

    What is added to the value is 0.
    """
    turned = torch.linalg.inv_ex(a.detach())[0].mT
    change: Tensor = (turned * (a - a.detach())).sum((-2, -1))
    return value + change


def slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sign of a determinant and the logarithm of its size, by the pivots."""
    _require_small("aten._linalg_slogdet.default", a.shape[-1])
    _, pivots, sign = _eliminate(a.detach(), a.detach()[..., :0])
    total = torch.zeros(a.shape[:-2])
    for pivot in pivots:
        sign, total = sign * pivot.sign(), total + pivot.abs().log()
    nothing = a.new_zeros(a.shape[:-1], dtype=torch.int32)
    logarithm = _follow(total, a)
    return sign + (logarithm - total) * 0, logarithm, a, nothing


def det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a determinant: the product of the pivots."""
    _require_small("aten._linalg_det.default", a.shape[-1])
    _, pivots, value = _eliminate(a.detach(), a.detach()[..., :0])
    for pivot in pivots:
        value = value * pivot
    nothing = a.new_zeros(a.shape[:-1], dtype=torch.int32)
    return value * (1 + _follow(torch.zeros_like(value), a)), a, nothing


def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of a product of reflections, of vectors below the diagonal."""
    rows, columns = a.shape[-2:]
    _require_small("aten.linalg_householder_product.default", columns)
    result = torch.eye(rows, columns).expand(a.shape)
    place = torch.arange(rows)
    for k in reversed(range(tau.shape[-1])):
        v = torch.where(place == k, 1.0, torch.where(place > k, a[..., k], 0.0))[..., None]
        result = result - tau[..., k, None, None] * (v @ (v.mT @ result))
    return result


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
    "aten.linalg_householder_product.default": householder_product,
}
"""ATen overload -> composition that autograd sees."""
