"""Factors of matrices are eager torch's, signs and gradients included, or open, or refused."""

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, linalg, nn

from moot.offchain.errors import CaptureError
from moot.offchain.frontend import tracing
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.decompositions import exponentials, rotations
from moot.offchain.frontend.decompositions.exponentials import SHORT, SQUARINGS, matrix_exp
from moot.offchain.frontend.decompositions.pivots import lu_factor, lu_unpack
from moot.offchain.frontend.decompositions.reflections import (
    geqrf,
    householder_product,
    qr,
    solve_least_squares,
)
from moot.offchain.frontend.decompositions.rotations import eigh, find_signs, svd
from moot.offchain.frontend.decompositions.table import find_overload
from moot.offchain.frontend.lowering.table import get_decompositions
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.quick import every

EPSILON = 2.0**-23

SHAPES = ((1, 1), (1, 3), (3, 1), (4, 4), (2, 5, 3), (3, 5), (9, 9), (2, 0, 3), (3, 0))

X = torch.tensor([[1.5, -0.4, 0.3], [0.2, 2.1, -0.6], [-0.5, 0.7, -1.2], [0.9, 0.1, 0.8]])


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_close(found: Any, expected: Any, most: float = 32 * EPSILON) -> None:
    """Assert tensors of equal shapes and types that agree, relative to their largest element."""
    for x, y in zip(found, expected, strict=True):
        size = float(y.abs().max()) if y.numel() else 0.0
        torch.testing.assert_close(x, y, rtol=0, atol=most * size)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reflections_are_those_of_lapack(shape: tuple[int, ...]) -> None:
    """Both factors have torch's signs, in every mode, and so have the reflections themselves."""
    a = draw(*shape)
    for mode in ("reduced", "complete", "r"):
        assert_close(qr(a, mode), linalg.qr(a, mode))
    assert_close(geqrf(a), torch.geqrf(a))
    if shape[-2] >= shape[-1]:
        packed, tau = torch.geqrf(a)
        assert_close([householder_product(packed, tau)], [linalg.householder_product(packed, tau)])


@pytest.mark.parametrize(
    "a",
    [
        torch.zeros(3, 3),
        -torch.zeros(3, 3),
        torch.eye(3).flip(0),
        draw(4, 4).triu(),
        draw(4, 4) * torch.tensor([1.0, 0.0, 1.0, 0.0]),
        draw(4, 3) * torch.tensor([[-0.0], [1.0], [1.0], [1.0]]),
        torch.tensor([[1.0, 2.0], [1e-20, 3.0]]),
        draw(4, 3) * 1e30,
        draw(4, 3) * 1e-30,
    ],
    ids=lambda a: f"{float(a.abs().max()):.0e}",
)
def test_columns_of_zeros_are_not_reflected(a: Tensor) -> None:
    """What is triangular stays as it is; zeros, large and small numbers have LAPACK's signs."""
    assert_close(qr(a, "complete"), linalg.qr(a, "complete"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pivots_are_those_of_lapack(shape: tuple[int, ...]) -> None:
    """The factors, the exchanges of rows and the permutation are torch's."""
    a = draw(*shape)
    factors, pivots, _ = lu_factor(a)
    expected = linalg.lu_factor(a)
    assert_close([factors], [expected[0]])
    assert torch.equal(pivots, expected[1])
    assert_close(lu_unpack(factors, pivots), linalg.lu(a))


@pytest.mark.parametrize("norm", [0.0, 1e-8, 1e-3, 0.05, 0.3, 0.5, 0.6, 1.0, 3.1, 20.0, 300.0])
@pytest.mark.parametrize("batch", [(), (1,), (3,)], ids=str)
def test_exponentials_are_as_near_as_those_of_torch(batch: tuple[int, ...], norm: float) -> None:
    """An exponential is off by no more than torch's own, and by as much where torch's is short."""
    a = draw(*batch, 5, 5)
    a = a - a.mT
    a = a / a.abs().sum(-2).amax(-1)[..., None, None] * norm
    exact = linalg.matrix_exp(a.double())
    found, theirs = matrix_exp(a).double(), linalg.matrix_exp(a).double()
    off, most = ((x - exact).abs().max() for x in (found, theirs))
    assert off <= 4 * most + EPSILON
    if SHORT[0] < norm < SHORT[1] and batch != (3,):
        assert (found - theirs).abs().max() <= 8 * EPSILON
        assert off > 2 * EPSILON or norm < 0.4


def test_exact_exponentials_are_not_those_of_torch() -> None:
    """Without the shares that torch has of its terms, a single matrix comes out otherwise."""
    a = torch.full((2, 2), 0.285)
    theirs = linalg.matrix_exp(a)
    assert (matrix_exp(a) - theirs).abs().max() <= 4 * EPSILON
    with patch.object(exponentials, "SHARES", {}):
        assert (matrix_exp(a) - theirs).abs().max() > 200 * EPSILON


def test_exponentials_end_in_nan() -> None:
    """A norm beyond what is written out gives NaN, and the largest before it numbers."""
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]) * 2.0**SQUARINGS
    assert matrix_exp(turn).isfinite().all()
    assert matrix_exp(turn * 1.001).isnan().all()
    assert matrix_exp(torch.full((2, 2), torch.nan)).isnan().all()


def make_hard(size: int) -> Tensor:
    """Return symmetric matrices whose eigenvalues lie in every way."""
    x = draw(12, size, size, seed=size)
    turned = linalg.qr(x)[0]
    few = x[..., : size // 4 + 1]
    values = [
        torch.tensor([1.0, 1.0, 2.0, -1.0] * size)[:size],
        torch.tensor([1.0, -1.0] * size)[:size],
        10.0 ** torch.linspace(0, -6, size),
        torch.ones(size),
    ]
    places = torch.linspace(0, 1, size)
    near = torch.eye(size) + 1e-3 * (x + x.mT)
    kernel = (-4 * (places - places[:, None]) ** 2).exp().expand(1, size, size)
    hard = [x + x.mT, x @ x.mT, few @ few.mT, few @ few.mT + 0.01 * torch.eye(size), near, kernel]
    hard += [turned @ torch.diag(v) @ turned.mT for v in values]
    found = torch.cat([*hard, torch.ones(1, size, size), torch.zeros(1, size, size)])
    return (found + found.mT) / 2


def measure(a: Tensor) -> float:
    """Return how far factors of symmetric matrices are off, in units of their largest element."""
    values, vectors = eigh(a)
    left, sizes, right = svd(a)
    spread = a.abs().amax((-2, -1), keepdim=True).clamp(min=1e-30)
    one = torch.eye(a.shape[-1])
    errors = [
        ((vectors * values[..., None, :]) @ vectors.mT - a) / spread,
        ((left * sizes[..., None, :]) @ right - a) / spread,
        (values - linalg.eigvalsh(a))[..., None] / spread,
        (sizes - linalg.svdvals(a))[..., None] / spread,
        *(x.mT @ x - one for x in (vectors, left, right)),
    ]
    return max(float(error.abs().max()) for error in errors)


SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 24)


@pytest.mark.parametrize("size", SIZES)
def test_the_sweeps_suffice(size: int) -> None:
    """Eigenvalues, vectors and products are off by rounding errors, however the values lie."""
    assert measure(make_hard(size)) <= 12 * size * EPSILON


def test_fewer_sweeps_do_not() -> None:
    """Half of the sweeps leave more than rounding errors."""
    with patch.object(rotations, "SWEEPS", ((24, 4),)):
        assert measure(make_hard(24)) > 12 * 24 * EPSILON


@pytest.mark.parametrize("shape", [(2, 2), (2, 5, 3), (3, 7), (8, 8), (0, 2), (2, 0)], ids=str)
def test_singular_vectors_are_those_of_torch_but_for_signs(shape: tuple[int, ...]) -> None:
    """Vectors agree once the signs are made equal; full matrices are orthogonal."""
    a = draw(*shape)
    least = min(shape[-2:])
    for full in (False, True):
        left, values, right = svd(a, full)
        theirs = linalg.svd(a, full_matrices=full)
        assert_close([values], [theirs[1]])
        assert (left.shape, right.shape) == (theirs[0].shape, theirs[2].shape)
        if least:
            signs = find_signs(theirs[0][..., :least])
            assert_close([left[..., :least]], [theirs[0][..., :least] * signs], 256 * EPSILON)
            assert_close(
                [right[..., :least, :]], [theirs[2][..., :least, :] * signs.mT], 256 * EPSILON
            )
        for square in (left.mT @ left, right @ right.mT):
            assert_close([square], [torch.eye(square.shape[-1]).expand(square.shape)])


def make_recipe(function: Callable[[Tensor], Any], x: Tensor = X) -> TrainingRecipe:
    """Return a recipe whose loss weighs what a function makes of a parameter."""

    def loss(model: nn.Module) -> Tensor:
        result = function(model.weight)  # type: ignore[arg-type]  # a parameter
        results = [result] if isinstance(result, Tensor) else [*result]
        weighed = [
            (y * torch.linspace(0.3, 1.7, y.numel()).reshape(y.shape)).sum() for y in results
        ]
        return torch.stack(weighed).sum()

    model = nn.Module()
    model.weight = nn.Parameter(x.clone())
    return TrainingRecipe(model, loss, SGD(0.05), lambda _: ())


def _take_root(x: Tensor) -> Tensor:
    """Return the root of the inverse of a positive matrix."""
    values, vectors = linalg.eigh(x.mT @ x)
    root: Tensor = vectors @ (values.rsqrt()[:, None] * vectors.mT)
    return root


def _fold(x: Tensor) -> Tensor:
    left, values, right = linalg.svd(x, full_matrices=False)
    folded: Tensor = left[:, :2] * values[:2] @ right[:2]
    return folded


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "qr": linalg.qr,
    "qr of rows": lambda x: linalg.qr(x.mT),
    "matrix_exp": lambda x: linalg.matrix_exp(x[:3] - x[:3].mT),
    "a short matrix_exp": lambda x: linalg.matrix_exp(0.19 * x[0, 0] * torch.ones(2, 2)),
    "lu": linalg.lu,
    "lstsq": lambda x: linalg.lstsq(x, x.sum(1, keepdim=True).cos())[0],
    "eigh": _take_root,
    "svd": _fold,
    "nuclear norm": lambda x: linalg.matrix_norm(x, "nuc"),
    "pinv": linalg.pinv,
}


@pytest.mark.parametrize("name", every(40, FUNCTIONS))
def test_losses_and_gradients_are_those_of_torch(name: str) -> None:
    """The rehearsal accepts the loss, the gradient and the new state of three steps."""
    assert capture(make_recipe(FUNCTIONS[name])).is_rehearsed


def _turn(a: Tensor, mode: str = "reduced") -> Any:
    """Return factors of the other signs."""
    return [-factor for factor in qr(a, mode)]


def decompose(name: str, function: Callable[..., Any]) -> Any:
    """Let an operator decompose otherwise."""
    changed = {find_overload(name): function}
    return patch.object(tracing, "get_decompositions", lambda: {**get_decompositions(), **changed})


MUTANTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "qr of other signs": ("qr", lambda: decompose("aten.linalg_qr.default", _turn)),
    "one sweep": ("eigh", lambda: patch.object(rotations, "SWEEPS", ((24, 1),))),
    "one sweep of columns": ("nuclear norm", lambda: patch.object(rotations, "SWEEPS", ((24, 1),))),
}


@pytest.mark.parametrize("name", every(6, MUTANTS))
def test_a_wrong_factor_is_refused(name: str) -> None:
    """The rehearsal refuses programs whose factors are not torch's."""
    function, mutate = MUTANTS[name]
    with mutate(), pytest.raises(CaptureError, match=r"in step \d element .* in torch"):
        capture(make_recipe(FUNCTIONS[function]))


LARGE = {
    "linalg_qr": (linalg.qr, 65, "columns; at most 64"),
    "linalg_lu_factor_ex": (linalg.lu_factor, 65, "columns; at most 64"),
    "_linalg_eigh": (linalg.eigh, 25, "rows; at most 24"),
    "_linalg_svd": (linalg.svd, 25, "columns; at most 24"),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_matrices_are_refused(name: str) -> None:
    """A matrix of more rows than are written out is refused in a line that names the size."""
    function, size, most = LARGE[name]
    line = f"aten.{name}.default: a matrix of {size} {most} are written out"
    with pytest.raises(CaptureError, match=f"^{re.escape(line)} in .*test_factors.py"):
        capture(make_recipe(lambda x: function(x)[0], torch.eye(size)))


def test_complex_parameters_are_refused() -> None:
    """The line says how to hold one, and what it says is captured."""
    with pytest.raises(CaptureError, match=r"parameter\.weight: complex64 .* real tensor of shape"):
        capture(make_recipe(torch.view_as_real, torch.ones(3, dtype=torch.complex64)))
    turned = make_recipe(lambda x: (torch.view_as_complex(x.reshape(6, 2)) * 1j).abs())
    assert capture(turned).is_rehearsed


def test_a_rank_that_is_not_full_is_nan() -> None:
    """Least squares of columns that depend on one another are NaN, and so is the gradient."""
    a = (X * torch.tensor([1.0, 0.0, 1.0])).requires_grad_()
    x = solve_least_squares(a, torch.ones(4, 1))[0]
    (gradient,) = torch.autograd.grad(x.sum(), a)
    assert x.isnan().all()
    assert gradient.isnan().any()
    assert solve_least_squares(X, torch.ones(4, 1))[0].isfinite().all()
