"""Factors by Householder's reflections, one column after the other, with LAPACK's signs.

A reflection is x - tau v v^T x of a vector v whose first element is 1. It turns a column to the
first axis, away from the sign of its first element; where all others are 0 already it is the
identity, tau = 0. The number of operators grows with the columns, of which there are `MAX_SIZE` at
most.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.frontend.decompositions.signs import find_scale
from moot.offchain.frontend.decompositions.solvers import require_narrow

UNIT = 2.0**-23
"""The distance from 1 to the next number of float32."""


class Reflection(NamedTuple):
    """A reflection: its vector, as a column, and its factor tau, as a matrix of one element."""

    vector: Tensor
    factor: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return the reflections of the columns of x."""
        return x - self.factor * (self.vector @ (self.vector.mT @ x))


def _reflect(x: Tensor) -> tuple[Reflection, Tensor]:
    """Return the reflection that turns a vector to the first axis, and the element it has there."""
    below = x[..., 1:].abs().amax(-1, keepdim=True)
    scale, back = find_scale(torch.maximum(x[..., :1].abs(), below))
    scaled = x * scale
    first, length = scaled[..., :1], (scaled * scaled).sum(-1, keepdim=True).sqrt()
    turned, is_turned = torch.where(first < 0, length, -length), below == 0
    factor = torch.where(is_turned, 0, (turned - first) / turned)
    rest = torch.where(is_turned, 0, scaled[..., 1:] / (first - turned))
    vector = torch.cat([torch.ones_like(first), rest], -1)
    element = torch.where(is_turned, x[..., :1], turned * back)
    return Reflection(vector[..., None], factor[..., None]), element


def _factor(a: Tensor) -> tuple[list[Reflection], list[Tensor]]:
    """Return the reflections that make a matrix triangular, and its rows from the diagonal on.

    Nothing is left to be turned in a last row of one element.
    """
    reflections: list[Reflection] = []
    rows: list[Tensor] = []
    while min(a.shape[-2:]):
        if a.shape[-2] == 1:
            return reflections, [*rows, a[..., 0, :]]
        reflection, element = _reflect(a[..., 0])
        rest = reflection.apply(a[..., 1:])
        reflections.append(reflection)
        rows.append(torch.cat([element, rest[..., 0, :]], -1))
        a = rest[..., 1:, :]
    return reflections, rows


def _multiply(reflections: Sequence[Reflection], q: Tensor) -> Tensor:
    """Return the product of reflections, each one row shorter than the one before.

    Args:
        reflections: the reflections.
        q: what stands below and to the right of the last one.
    """
    rows, columns = (size + len(reflections) for size in q.shape[-2:])
    corner = (torch.arange(rows)[:, None] + torch.arange(columns) == 0).float()
    for reflection in reversed(reflections):
        q = functional.pad(q, (1, 0, 1, 0))
        q = reflection.apply(q + corner[: q.shape[-2], : q.shape[-1]])
    return q


def _triangle(rows: Sequence[Tensor], a: Tensor, height: int) -> Tensor:
    """Return the upper triangle that rows make, of a height, in the shape of a matrix else."""
    if not rows:
        return a.new_zeros((*a.shape[:-2], height, a.shape[-1]))
    full = torch.stack([functional.pad(row, (k, 0)) for k, row in enumerate(rows)], -2)
    return functional.pad(full, (0, 0, 0, height - len(rows)))


def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Return an orthogonal and a triangular factor of a matrix."""
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    require_narrow("aten.linalg_qr.default", a)
    reflections, triangle = _factor(a)
    height = rows if mode == "complete" else least
    r = _triangle(triangle, a, height)
    if mode == "r":
        return a.new_zeros(0), r
    count = len(reflections)
    rest = torch.eye(rows - count, height - count)
    return _multiply(reflections, rest.expand(*a.shape[:-2], *rest.shape)), r


def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return a triangular factor, with the reflections' vectors below it, and their factors."""
    rows, columns = a.shape[-2:]
    require_narrow("aten.geqrf.default", a)
    reflections, triangle = _factor(a)
    packed = _triangle(triangle, a, rows)
    for k, (vector, _) in enumerate(reflections):
        packed = packed + functional.pad(vector[..., 1:, :], (k, columns - k - 1, k + 1, 0))
    factors = [reflection.factor[..., 0] for reflection in reflections]
    factors += [a.new_zeros((*a.shape[:-2], 1))] * (len(triangle) - len(reflections))
    return packed, torch.cat(factors, -1) if factors else a.new_zeros((*a.shape[:-2], 0))


def _read(a: Tensor, tau: Tensor) -> list[Reflection]:
    """Return the reflections whose vectors stand below the diagonal of a matrix."""
    first = torch.ones_like(a[..., :1, :1])
    return [
        Reflection(torch.cat([first, a[..., k + 1 :, k : k + 1]], -2), tau[..., k, None, None])
        for k in range(tau.shape[-1])
    ]


def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of a product of reflections, of vectors below the diagonal."""
    rows, columns = a.shape[-2:]
    require_narrow("aten.linalg_householder_product.default", a)
    count = tau.shape[-1]
    rest = torch.eye(rows - count, columns - count)
    return _multiply(_read(a, tau), rest.expand(*a.shape[:-2], *rest.shape))


def solve_least_squares(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the x that makes |a x - b| least, and of those the least, and no singular values.

    It is by QR, of the transpose where there are more columns than rows. Where the diagonal says
    that the rank is not full, x is NaN.
    """
    del driver
    rows, columns = a.shape[-2:]
    require_narrow("aten.linalg_lstsq.default", a)
    is_vector = b.ndim == a.ndim - 1
    right = b[..., None] if is_vector else b
    q, r = torch.linalg.qr(a if rows >= columns else a.mT)
    if rows >= columns:
        x = torch.linalg.solve_triangular(r, q.mT @ right, upper=True)
    else:
        x = q @ torch.linalg.solve_triangular(r.mT, right, upper=False)
    size = r.diagonal(dim1=-2, dim2=-1).abs()
    bound = UNIT * max(rows, columns) if rcond is None else rcond
    is_full = (size > bound * size.amax(-1, keepdim=True)).all(-1)[..., None, None]
    x = x * torch.where(is_full, 1.0, torch.nan)
    rank = torch.full(a.shape[:-2], min(rows, columns), dtype=torch.int64)
    return x[..., 0] if is_vector else x, a.new_zeros(0), rank, a.new_zeros(0)


REFLECTIONS: Mapping[str, Callable[..., Any]] = {
    "aten.linalg_qr.default": qr,
    "aten.geqrf.default": geqrf,
}
"""ATen overload -> decomposition."""

PRODUCTS: Mapping[str, Callable[..., Any]] = {
    "aten.linalg_householder_product.default": householder_product,
    "aten.linalg_lstsq.default": solve_least_squares,
}
"""ATen overload -> composition that autograd sees."""
