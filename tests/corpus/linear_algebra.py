"""Products of matrices, and decompositions of them."""

import torch
from torch import Tensor, linalg

from tests.corpus.rows import Row, ask, learn, ramp

A = ramp(4, 5)
B = ramp(5, 3, seed=1)
C = ramp(4, 3, seed=2)
V = ramp(5, seed=3)
W = ramp(4, seed=4)
BATCH = ramp(2, 4, 5)
OTHER = ramp(2, 5, 3, seed=1)
SQUARE = torch.eye(4) * 2 + ramp(4, 4, low=-0.5, high=0.5)
SQUARES = torch.eye(3) * 2 + ramp(2, 3, 3, low=-0.5, high=0.5)
EMPTY_COLUMN = SQUARES * torch.tensor([1.0, 0.0, 1.0])


def _positive(x: Tensor) -> Tensor:
    """Return a symmetric matrix with positive eigenvalues."""
    return x @ x.mT + torch.eye(x.shape[-1])


def _take_root(x: Tensor) -> Tensor:
    """Return the root of the inverse of a positive matrix, as Shampoo does."""
    values, vectors = linalg.eigh(_positive(x))
    return vectors @ (values.rsqrt()[..., None] * vectors.mT)


def _sign(vectors: Tensor) -> Tensor:
    """Return vectors that have a positive first element."""
    return vectors * vectors[..., :1, :].sign()


def _sign_values(x: Tensor) -> tuple[Tensor, ...]:
    """Return singular values and vectors of which the left ones have a positive first element."""
    left, values, right = linalg.svd(x, full_matrices=False)
    return _sign(left), values, right * left[..., :1, :].sign().mT


def _reduce_rank(x: Tensor) -> Tensor:
    """Return the best matrix of rank 2."""
    left, values, right = linalg.svd(x, full_matrices=False)
    return left[..., :2] * values[..., None, :2] @ right[..., :2, :]


def _count_ranks(x: Tensor) -> Tensor:
    """Return a matrix times its rank, by both bounds."""
    return (linalg.matrix_rank(x) + linalg.matrix_rank(x, atol=2.0)) * x


def _solve_least(tall: Tensor, wide: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    return linalg.lstsq(tall, wide.mT)[0], linalg.lstsq(wide, right)[0]


def _solve_by_factors(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    factors, pivots = linalg.lu_factor(a)
    return (
        linalg.lu_solve(factors, pivots, b),
        linalg.lu_solve(factors, pivots, b, adjoint=True),
        linalg.lu_solve(factors, pivots, b.mT, left=False),
    )


PRODUCTS: tuple[Row, ...] = (
    learn("mm", torch.mm, A, B),
    learn("matmul", torch.matmul, BATCH, B),
    learn("bmm", torch.bmm, BATCH, OTHER),
    learn("mv", torch.mv, A, V),
    learn("dot", torch.dot, V, V * 2),
    learn("vdot and inner", lambda x, y: (torch.vdot(x, x), torch.inner(y, x)), V, A),
    learn("outer and ger", lambda x, y: (torch.outer(x, y), torch.ger(y, x)), V, W),
    learn("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), C, A, B),
    learn("addmv", torch.addmv, W, A, V),
    learn("addr", torch.addr, ramp(5, 4), V, W),
    learn("baddbmm", torch.baddbmm, ramp(2, 4, 3), BATCH, OTHER),
    learn("addbmm", torch.addbmm, C, BATCH, OTHER),
    learn("chain_matmul", lambda a, b: linalg.multi_dot([a, b, b.mT]), A, B),
    learn("einsum", lambda a, b: torch.einsum("bij,bjk->ik", a, b), BATCH, OTHER),
    learn("tensordot", lambda a, b: torch.tensordot(a, b, dims=([0, 2], [0, 1])), BATCH, OTHER),
    learn("cross", linalg.cross, ramp(4, 3), C),
    learn("vecdot", linalg.vecdot, A, V),
    learn("matrix_power", lambda a: (linalg.matrix_power(a, 3), torch.matrix_power(a, 0)), SQUARE),
    learn("matrix_exp", torch.matrix_exp, SQUARE),
    learn("matrix_exp of a batch", lambda a: torch.matrix_exp(3 * a - a.mT), SQUARES),
    learn(
        "linalg.norm",
        lambda a: (linalg.norm(a), linalg.norm(a, 1), linalg.norm(a, float("inf"))),
        A,
    ),
    learn("linalg.vector_norm", lambda a: (linalg.vector_norm(a, 3), linalg.vector_norm(a, 0)), A),
    learn("linalg.matrix_norm nuclear", lambda a: linalg.matrix_norm(a, "nuc"), A),
    learn("linalg.matrix_norm 2", lambda a: (linalg.matrix_norm(a, 2), linalg.cond(a)), BATCH),
    learn("householder_product", linalg.householder_product, A[:, :3], V[:3]),
)

SOLVERS: tuple[Row, ...] = (
    learn("inverse", torch.inverse, SQUARE),
    learn("inverse of a batch", linalg.inv, SQUARES),
    learn("linalg.solve", linalg.solve, SQUARE, C),
    learn("linalg.solve of a batch", linalg.solve, SQUARE.expand(2, -1, -1), C.expand(2, -1, -1)),
    learn("det", torch.det, SQUARE),
    learn("logdet", torch.logdet, SQUARE),
    learn("slogdet", linalg.slogdet, SQUARE),
    learn(
        "solve_triangular", lambda a, b: linalg.solve_triangular(a.triu(), b, upper=True), SQUARE, C
    ),
    learn(
        "solve_triangular lower",
        lambda a, b: linalg.solve_triangular(a.tril(), b, upper=False, unitriangular=True),
        SQUARE,
        C,
    ),
    learn(
        "solve_triangular right",
        lambda a, b: linalg.solve_triangular(a.tril(), b.mT, upper=False, left=False),
        SQUARE,
        C,
    ),
    learn("triangular_solve", lambda a, b: torch.triangular_solve(b, a)[0], SQUARE, C),
    learn("cholesky", lambda a: linalg.cholesky(_positive(a)), SQUARE),
    learn("cholesky upper", lambda a: linalg.cholesky(_positive(a), upper=True), SQUARES),
    learn(
        "cholesky_solve",
        lambda a, b: torch.cholesky_solve(b, linalg.cholesky(_positive(a))),
        SQUARE,
        C,
    ),
    learn(
        "cholesky_inverse", lambda a: torch.cholesky_inverse(linalg.cholesky(_positive(a))), SQUARE
    ),
    learn("lu", linalg.lu, SQUARE),
    learn("lu of a batch", lambda a, b: (linalg.lu(a), linalg.lu(b)), BATCH, OTHER),
    learn("lu_factor", lambda a: linalg.lu_factor(a)[0], SQUARE),
    learn("lu_solve", _solve_by_factors, SQUARE, C),
    learn("qr", linalg.qr, SQUARE),
    learn("qr of a batch", linalg.qr, OTHER),
    learn("qr complete", lambda a: linalg.qr(a, mode="complete"), SQUARES),
    learn("qr of wide matrices", linalg.qr, BATCH),
    ask("qr of empty columns", linalg.qr, EMPTY_COLUMN),
    ask("qr of a factor alone", lambda a: linalg.qr(a, mode="r")[1], OTHER),
    ask("geqrf", lambda a, b: (torch.geqrf(a), torch.geqrf(b)), A, B),
    learn("svd", linalg.svd, SQUARE),
    learn("svd with signs", _sign_values, OTHER),
    learn("svd of low rank", _reduce_rank, BATCH),
    learn("svdvals", linalg.svdvals, SQUARE),
    learn("eigh", lambda a: linalg.eigh(_positive(a)), SQUARE),
    learn("eigh with signs", lambda a: _sign(linalg.eigh(_positive(a))[1]), SQUARES),
    learn("eigh of a root", _take_root, SQUARE),
    learn("eigvalsh", lambda a: linalg.eigvalsh(_positive(a)), SQUARE),
    learn("eig", lambda a: torch.view_as_real(linalg.eig(a)[0]), SQUARE),
    learn("pinv", linalg.pinv, SQUARE),
    learn("pinv of a batch", linalg.pinv, BATCH),
    learn("pinv, hermitian", lambda a: linalg.pinv(a + a.mT, hermitian=True), SQUARE),
    learn("lstsq", lambda a, b: linalg.lstsq(a, b)[0], SQUARE, C),
    learn("lstsq of tall and wide", _solve_least, B, A, C),
    learn("matrix_rank", _count_ranks, SQUARE),
)

ROWS = (*PRODUCTS, *SOLVERS)
