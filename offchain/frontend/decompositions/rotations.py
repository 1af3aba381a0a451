"""Eigenvalues and singular values by Jacobi's rotations: a fixed number of sweeps.

A round rotates disjoint pairs of neighbours all at once, and then moves what is beside one another,
so that after a sweep of m - 1 rounds every two have been a pair, and all stand where they stood. An
odd one has a row of zeros for a partner. What the last sweep leaves beside the diagonal are
rounding errors: `tests/unit/test_factors.py` measures it.

The signs of eigenvectors and singular vectors are open, by torch's documentation. A program's have
a positive largest element, of left singular vectors where there are two.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.frontend.decompositions.reflections import UNIT
from moot.offchain.frontend.decompositions.solvers import require_narrow, require_small

MOST = 24
"""Rows of a matrix whose eigenvalues are found."""

SWEEPS = ((4, 4), (8, 6), (16, 8), (MOST, 9))
"""Rows of a matrix, and how many sweeps it needs at most."""

NEGLIGIBLE = 2.0**-24
"""An element so small beside the largest is left: a rotation would only mix equal eigenvalues."""


def _count_rounds(size: int) -> int:
    return next(sweeps for most, sweeps in SWEEPS if size <= most) * (size - 1)


def _make_moves(size: int) -> tuple[Tensor, Tensor]:
    """Return the matrices that move columns after a round, without and with an exchange of pairs.

    The first one stays where it is, and the others go round a circle: those at even places up, and
    those at odd places down.
    """
    place = torch.arange(size)
    is_even = place % 2 == 0
    source = torch.where(is_even, place - 2, place + 2)
    for moved, origin in ((0, 0), (2, 1), (size - 1, max(size - 2, 1))):
        source = torch.where(place == moved, origin, source)
    partner = torch.where(is_even, place + 1, place - 1)
    sign = torch.where(is_even, 1.0, -1.0)[:, None]
    kept, exchanged = (source == other[:, None] for other in (place, partner))
    return kept.float(), torch.where(exchanged, sign, 0)


def _normalize(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices whose largest elements are near 1, by a power of two, and its reciprocal."""
    exponent = x.abs().amax((-2, -1)).log2().floor().clamp(-126, 127)
    return x * torch.exp2(-exponent)[..., None, None], torch.exp2(exponent)[..., None]


def _rotate(
    p: Tensor, q: Tensor, beside: Tensor, bound: Tensor | float, moves: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the matrix of a round: of rotations that make what is beside the diagonal 0.

    Args:
        p: every other element of the diagonal.
        q: those behind them.
        beside: the elements beside both.
        bound: the square of elements that are left.
        moves: what moves columns after the round.
    """
    apart, square = q - p, beside * beside
    root = (apart * apart + 4 * square).sqrt()
    reach = apart + torch.where(apart < 0, -root, root)
    slope = torch.where(square <= bound, 0, (2 * beside) / reach)
    cosine = (slope * slope + 1).rsqrt()
    kept, exchanged = (move.reshape(-1, 2, move.shape[-1]) for move in moves)
    sine = slope * cosine
    turn: Tensor = cosine[..., None, None] * kept + sine[..., None, None] * exchanged
    return turn.flatten(-3, -2)


def _diagonalize(a: Tensor, *, has_vectors: bool) -> tuple[Tensor, Tensor]:
    """Return the diagonal that a symmetric matrix of even size comes to, and its vectors."""
    size = a.shape[-1]
    moves = _make_moves(size)
    vectors = torch.eye(size).expand(a.shape)
    for _ in range(_count_rounds(size)):
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        beside = a.diagonal(1, dim1=-2, dim2=-1)[..., ::2]
        turn = _rotate(diagonal[..., ::2], diagonal[..., 1::2], beside, NEGLIGIBLE**2, moves)
        a = turn.mT @ a @ turn
        if has_vectors:
            vectors = vectors @ turn
    return a.diagonal(dim1=-2, dim2=-1), vectors


def _separate(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix of an even number of columns that are orthogonal, and what makes them so."""
    size = a.shape[-1]
    moves = _make_moves(size)
    vectors = torch.eye(size).expand(*a.shape[:-2], size, size)
    for _ in range(_count_rounds(size)):
        squares = (a * a).sum(-2)
        p, q = squares[..., ::2], squares[..., 1::2]
        beside = (a[..., ::2] * a[..., 1::2]).sum(-2)
        turn = _rotate(p, q, beside, NEGLIGIBLE**2 * p * q, moves)
        a, vectors = a @ turn, vectors @ turn
    return a, vectors


def _take_columns(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(-1, order[..., None, :].expand(*x.shape[:-1], order.shape[-1]))


def find_signs(vectors: Tensor) -> Tensor:
    """Return the sign of each column's largest element, the first of them, as a row."""
    place = vectors.abs().argmax(-2, keepdim=True)
    return torch.where(vectors.gather(-2, place) < 0, -1.0, 1.0)


def eigh(a: Tensor, uplo: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - ATen's signature
    """Return the eigenvalues of a symmetric matrix, ascending, and its eigenvectors."""
    size = a.shape[-1]
    require_small("aten._linalg_eigh.default", size, MOST)
    if not a.numel():
        return a[..., 0] if size else a.new_zeros(a.shape[:-1]), a.clone()
    lower = a if uplo.upper() == "L" else a.mT
    normal, back = _normalize(lower.tril() + lower.tril(-1).mT)
    odd = size % 2
    values, vectors = _diagonalize(functional.pad(normal, (0, odd, 0, odd)), has_vectors=compute_v)
    values, order = values[..., :size].sort(dim=-1, stable=True)
    values = values * back
    if not compute_v:
        return values, a.new_zeros(0)
    vectors = _take_columns(vectors[..., :size, :size], order)
    return values, vectors * find_signs(vectors)


def svd(
    a: Tensor,
    full_matrices: bool = False,  # noqa: FBT001, FBT002 - ATen's signature
    compute_uv: bool = True,  # noqa: FBT001, FBT002 - likewise
    *,
    driver: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return left singular vectors, singular values, descending, and right singular vectors.

    Rotations make the columns orthogonal; their lengths are the values. The longer vectors are an
    orthogonal factor of the columns, so that they are complete where values are 0.
    """
    del driver
    is_wide = a.shape[-2] < a.shape[-1]
    tall = a.mT if is_wide else a
    size = tall.shape[-1]
    require_narrow("aten._linalg_svd.default", a, MOST)
    if not size:
        return _decompose_nothing(a, full_matrices=full_matrices)
    normal, back = _normalize(tall)
    columns, right = _separate(functional.pad(normal, (0, size % 2)))
    columns, right = columns[..., :size], right[..., :size, :size]
    lengths = (columns * columns).sum(-2).sqrt()
    values, order = lengths.sort(dim=-1, descending=True, stable=True)
    values = values * back
    if not compute_uv:
        return a.new_zeros(0), values, a.new_zeros(0)
    mode = "complete" if full_matrices else "reduced"
    left, triangle = torch.linalg.qr(_take_columns(columns, order), mode)
    diagonal = triangle.diagonal(dim1=-2, dim2=-1)
    signs = torch.where(diagonal < 0, -1.0, 1.0)[..., None, :]
    right = _take_columns(right, order) * signs
    signs = find_signs(right if is_wide else left[..., :size])
    right, first, rest = right * signs, left[..., :size] * signs, left[..., size:]
    left = torch.cat([first, rest], -1) if full_matrices else first
    return (right, values, left.mT) if is_wide else (left, values, right.mT)


def _decompose_nothing(a: Tensor, *, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of a matrix without elements."""
    batch, (rows, columns) = a.shape[:-2], a.shape[-2:]
    left, right = (torch.eye(n, n if full_matrices else 0) for n in (rows, columns))
    return (
        left.expand(*batch, *left.shape),
        a.new_zeros((*batch, 0)),
        right.mT.expand(*batch, *right.mT.shape),
    )


def pinv(
    a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return the pseudoinverse: of singular values above a bound, the reciprocals."""
    if hermitian:
        values, right = torch.linalg.eigh(a)
        left = right
    else:
        left, values, right = torch.linalg.svd(a, full_matrices=False)
        right = right.mT
    size = values.abs()
    bound = _find_bound(a, size, atol, rtol)
    is_kept = size > bound[..., None]
    inverted = torch.where(is_kept, 1 / torch.where(is_kept, values, 1), 0)
    result: Tensor = (right * inverted[..., None, :]) @ left.mT
    return result


def _find_bound(a: Tensor, values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Return the bound below which a singular value is none, as torch has it."""
    if not values.shape[-1]:
        return values.new_zeros(values.shape[:-1])
    largest = values.amax(-1)
    if rtol is None:
        rtol = max(a.shape[-2:]) * UNIT
        if isinstance(atol, Tensor):
            rtol = torch.where(atol > 0, 0.0, rtol)
        elif atol is not None and atol > 0:
            return torch.full_like(largest, atol)
    bound: Tensor = largest * rtol
    if atol is None:
        return bound
    return torch.maximum(bound, atol) if isinstance(atol, Tensor) else bound.clamp(min=atol)


def matrix_rank(
    a: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Tensor:
    """Return the number of singular values above a bound."""
    find = torch.linalg.eigvalsh if hermitian else torch.linalg.svdvals
    values = find(a).abs()
    count: Tensor = (values > _find_bound(a, values, atol, rtol)[..., None]).sum(-1)
    return count


ROTATIONS: Mapping[str, Callable[..., Any]] = {
    "aten._linalg_eigh.default": eigh,
    "aten._linalg_svd.default": svd,
    "aten.linalg_pinv.atol_rtol_tensor": pinv,
}
"""ATen overload -> decomposition."""

RANKS: Mapping[str, Callable[..., Any]] = {
    f"aten.linalg_matrix_rank.atol_rtol_{kind}": matrix_rank for kind in ("float", "tensor")
}
"""ATen overload -> composition that autograd sees."""
