"""LU factors of small matrices: elimination with the first of the largest pivots of each column.

A pivot of 0 leaves its column as it is, since all below it are 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from moot.offchain.frontend.decompositions.solvers import require_narrow


def _exchange(rows: int, k: int, other: Tensor) -> Tensor:
    """Return the order of rows in which row k and another are exchanged."""
    place = torch.arange(rows)
    return torch.where(place == k, other, torch.where(place == other, k, place))


def _take_rows(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(-2, order[..., None].expand(*order.shape, x.shape[-1]))


def lu_factor(
    a: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both factors in one matrix, the row with which each is exchanged, and no error."""
    del pivot, check_errors  # torch has no elimination without pivots on a processor
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    require_narrow("aten.linalg_lu_factor_ex.default", a)
    pivots = []
    for k in range(least):
        best = a[..., k:, k].abs().argmax(-1, keepdim=True) + k
        a = _take_rows(a, _exchange(rows, k, best))
        pivots.append(best + 1)
        row, below = a[..., k : k + 1, k:], a[..., k + 1 :, :]
        factor = below[..., k : k + 1] / torch.where(row[..., :1] == 0, 1, row[..., :1])
        rest = below[..., k + 1 :] - factor * row[..., 1:]
        below = torch.cat([below[..., :k], factor, rest], -1)
        a = torch.cat([a[..., : k + 1, :], below], -2)
    order = torch.cat(pivots, -1).int() if pivots else a.new_zeros((*a.shape[:-2], 0)).int()
    return a.clone(), order, a.new_zeros(a.shape[:-2], dtype=torch.int32)


def _find_order(pivots: Tensor, rows: int) -> Tensor:
    """Return the order of rows to which exchanges come."""
    order = torch.arange(rows).expand(*pivots.shape[:-1], rows)
    for k in range(pivots.shape[-1]):
        order = order.gather(-1, _exchange(rows, k, pivots[..., k : k + 1].long() - 1))
    return order


def lu_unpack(
    lu: Tensor,
    pivots: Tensor,
    unpack_data: bool = True,  # noqa: FBT001, FBT002 - ATen's signature
    unpack_pivots: bool = True,  # noqa: FBT001, FBT002 - likewise
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a permutation and both factors, which make up a matrix in this order."""
    rows, columns = lu.shape[-2:]
    least = min(rows, columns)
    nothing = lu.new_zeros(0)
    permutation = lower = upper = nothing
    if unpack_pivots:
        order = _find_order(pivots, rows)
        permutation = (torch.arange(rows)[:, None] == order[..., None, :]).to(lu.dtype)
    if unpack_data:
        lower = lu[..., :least].tril(-1) + torch.eye(rows, least)
        upper = lu[..., :least, :].triu()
    return permutation, lower, upper


def lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return a permutation and both factors of a matrix."""
    factors, pivots, _ = torch.linalg.lu_factor_ex(a, pivot=pivot)
    return torch.lu_unpack(factors, pivots)


def lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """Return the solution of a system of which the factors are given."""
    if not left:
        turned: Tensor = torch.linalg.lu_solve(factors, pivots, b.mT, adjoint=not adjoint)
        return turned.mT
    size = factors.shape[-1]
    order = _find_order(pivots, size)
    batch = torch.broadcast_shapes(order.shape[:-1], b.shape[:-2])  # type: ignore[no-untyped-call]  # torch's is untyped
    order, b = order.expand(*batch, size), b.expand(*batch, *b.shape[-2:])
    solve = torch.linalg.solve_triangular
    if adjoint:
        x = solve(factors.mT, b, upper=False)
        x = solve(factors.mT, x, upper=True, unitriangular=True)
        return _take_rows(x, order.argsort(-1))
    y = solve(factors, _take_rows(b, order), upper=False, unitriangular=True)
    result: Tensor = solve(factors, y, upper=True)
    return result


PIVOTS: Mapping[str, Callable[..., Any]] = {
    "aten.linalg_lu_factor_ex.default": lu_factor,
    "aten.linalg_lu.default": lu,
    "aten.lu_unpack.default": lu_unpack,
    "aten.linalg_lu_solve.default": lu_solve,
}
"""ATen overload -> decomposition."""
