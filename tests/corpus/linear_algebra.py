"""Products of matrices, and decompositions of them."""

import torch
from torch import Tensor, linalg

from tests.corpus.rows import Row, learn, ramp

A = ramp(4, 5)
B = ramp(5, 3, seed=1)
C = ramp(4, 3, seed=2)
V = ramp(5, seed=3)
W = ramp(4, seed=4)
BATCH = ramp(2, 4, 5)
OTHER = ramp(2, 5, 3, seed=1)
SQUARE = torch.eye(4) * 2 + ramp(4, 4, low=-0.5, high=0.5)
SQUARES = torch.eye(3) * 2 + ramp(2, 3, 3, low=-0.5, high=0.5)
ONE_SOLUTION = ("triangular", "cholesky")


def _positive(x: Tensor) -> Tensor:
    """Return a symmetric matrix with positive eigenvalues."""
    return x @ x.mT + torch.eye(x.shape[-1])


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
    learn(
        "linalg.norm",
        lambda a: (linalg.norm(a), linalg.norm(a, 1), linalg.norm(a, float("inf"))),
        A,
    ),
    learn("linalg.vector_norm", lambda a: (linalg.vector_norm(a, 3), linalg.vector_norm(a, 0)), A),
    learn("linalg.matrix_norm nuclear", lambda a: linalg.matrix_norm(a, "nuc"), A),
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
    learn("lu_factor", lambda a: linalg.lu_factor(a)[0], SQUARE),
    learn("qr", linalg.qr, SQUARE),
    learn("svd", linalg.svd, SQUARE),
    learn("svdvals", linalg.svdvals, SQUARE),
    learn("eigh", lambda a: linalg.eigh(_positive(a)), SQUARE),
    learn("eigvalsh", lambda a: linalg.eigvalsh(_positive(a)), SQUARE),
    learn("eig", lambda a: torch.view_as_real(linalg.eig(a)[0]), SQUARE),
    learn("pinv", linalg.pinv, SQUARE),
    learn("lstsq", lambda a, b: linalg.lstsq(a, b)[0], SQUARE, C),
    learn("matrix_rank", lambda a: linalg.matrix_rank(a) * a, SQUARE),
)

ROWS = (*PRODUCTS, *SOLVERS)
