"""Rules that fold (reductions, contractions, convolutions, pooling) against torch in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from moot.offchain.programs.graph import Kind
from tests.program_helpers import capture_function, check_function, check_gradients
from tests.quick import every, only

GENERATOR = torch.Generator().manual_seed(3)


def draw(*shape: int) -> torch.Tensor:
    """Return random numbers that are multiples of 1/64, so that ties and cancellation occur."""
    return torch.randint(-128, 128, shape, generator=GENERATOR) / 64


X = draw(2, 3, 5)
LONG = draw(3, 70)
MATRIX, OTHER, BIAS = draw(3, 4), draw(4, 5), draw(5)
BATCHES = draw(2, 3, 4), draw(2, 4, 2)
INTEGERS = torch.randint(-9, 9, (3, 4), generator=GENERATOR)
TRUTHS = INTEGERS > 0
WITH_NAN = torch.tensor([[1.0, float("nan"), 3.0], [-float("inf"), 2.0, 2.0]])
IMAGE = draw(2, 4, 5, 6)

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

REDUCTIONS: dict[str, Case] = {
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), (X,)),
    "sum of integers": (lambda x, t: (x.sum(0), x.int().sum(), t.sum(1)), (INTEGERS, TRUTHS)),
    "sum of transpose": (lambda x: x.transpose(0, 2).sum((0, 1)), (X,)),
    "sum of expanded": (lambda x: x.expand(2, 3, 4).sum((0, 2)), (MATRIX[:, :1],)),
    "sum of nothing": (lambda x: (x[:, :0].sum(1), x[:0].sum()), (MATRIX,)),
    "sum of a constant": (lambda x: torch.ones(40).sum() + x, (MATRIX,)),
    "long sum": (lambda x: (x.sum(), x.sum(1), x.sum(0)), (LONG,)),
    "mean": (lambda x: (x.mean(), x.mean(-1, keepdim=True), x.mean((0, 1))), (X,)),
    "prod": (lambda x: (x.prod(), x.prod(1)), (MATRIX,)),
    "var": (lambda x: (x.var(), x.var(1), x.var((0, 2), correction=0)), (X,)),
    "std": (lambda x: x.std(1, keepdim=True), (X,)),
    "var mean": (lambda x: torch.var_mean(x, 1), (LONG,)),
    "amax": (lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()), (X,)),
    "max with index": (lambda x: (*x.max(1), *x.min(2, keepdim=True)), (X,)),
    "extremes of nan": (lambda x: (x.amax(1), x.amin(1), x.argmax(1)), (WITH_NAN,)),
    "extremes of integers": (lambda x, t: (x.amax(0), x.amin(), t.amax(0)), (INTEGERS, TRUTHS)),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(2, keepdim=True)), (X,)),
    "any and all": (lambda t, x: (t.any(), t.all(1), x.any(0), t.any(1)), (TRUTHS, INTEGERS)),
    "long extremes": (lambda x: (x.amax(), x.amin(0), (x > -9).all()), (LONG,)),
    "norm": (lambda x: (x.norm(), x.norm(dim=1)), (MATRIX,)),
    "logsumexp": (lambda x: x.logsumexp(1), (X,)),
    "norms": (
        lambda x: tuple(torch.linalg.vector_norm(x, p, 1) for p in (0, 1, 2, 3, float("inf"))),
        (MATRIX,),
    ),
    "matrix norm": (torch.linalg.matrix_norm, (MATRIX,)),
    "cumulative": (lambda x: (x.cumsum(0), x.cumprod(1)), (MATRIX,)),
    "positions of truths": (lambda t: (t.long().argmax(1), *t.max(1)), (TRUTHS,)),
    "std and mean": (lambda x: torch.std_mean(x, 1), (X,)),
    "extremes together": (lambda x: x.aminmax(dim=1), (X,)),
    "missing numbers": (lambda x: (x.nansum(1), x.nanmean(1)), (WITH_NAN[:, :2],)),
    "counts": (lambda x: x.count_nonzero(1), (INTEGERS,)),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1)), (X,)),
    "scalars": (lambda x: (x[0, 0].sum(), x[0, 0].mean(), x[0, 0].amax()), (MATRIX,)),
}

CONTRACTIONS: dict[str, Case] = {
    "mm": (torch.mm, (MATRIX, OTHER)),
    "mm of transposes": (lambda x, y: y.t() @ x.t(), (MATRIX, OTHER)),
    "bmm": (torch.bmm, BATCHES),
    "matmul": (lambda x, y: (x @ y, x @ y[0], x[0] @ y), BATCHES),
    "addmm": (torch.addmm, (BIAS, MATRIX, OTHER)),
    "addmm scaled": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        (BIAS, MATRIX, OTHER),
    ),
    "addmm without": (lambda b, x, y: torch.addmm(b, x, y, beta=0), (BIAS, MATRIX, OTHER)),
    "baddbmm": (torch.baddbmm, (draw(2, 3, 2), *BATCHES)),
    "mv": (lambda x, y: (x @ y[:, 0], torch.addmv(x[:, 0], x, y[:, 1])), (MATRIX, OTHER)),
    "dot": (lambda x: x[0] @ x[1], (MATRIX,)),
    "outer": (lambda x, y: torch.outer(x[0], y[0]), (MATRIX, OTHER)),
    "linear": (lambda x, y, b: functional.linear(x, y.t(), b), (draw(2, 3, 4), OTHER, BIAS)),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), BATCHES),
    "einsum sum": (lambda x, y: torch.einsum("bij,bjk->k", x, y), BATCHES),
    "tensordot": (lambda x: torch.tensordot(x, x, dims=([0], [0])), (MATRIX,)),
    "kron": (torch.kron, (MATRIX, OTHER)),
    "products": (lambda x, y: torch.linalg.multi_dot([x, y, y.t()]), (MATRIX, OTHER)),
    "empty inner": (lambda x, y: x[:, :0] @ y[:0], (MATRIX, OTHER)),
    "grouped attention": (
        lambda x: functional.scaled_dot_product_attention(x, x[:, :1], x[:, 1:], enable_gqa=True),
        (draw(1, 2, 3, 4),),
    ),
    "attention": (
        lambda x: functional.scaled_dot_product_attention(x, x * 0.5, x, is_causal=True),
        (draw(1, 2, 3, 4),),
    ),
}


@pytest.mark.parametrize("name", every(8, REDUCTIONS))
def test_reductions(name: str) -> None:
    """Reductions of any type over any axes are torch's."""
    function, inputs = REDUCTIONS[name]
    check_function(function, *inputs)


FOLD_GRADIENTS: dict[str, Callable[..., Any]] = {
    "extremes": lambda x: x.amax(1) + x.amin(1) + x.max(1)[0] - x.min(1)[0],
    "extreme": lambda x: x.max() - 2 * x.min(),
    "norms": lambda x: x.norm() + x.norm(p=1, dim=1) + x.norm(p=float("inf"), dim=1),
    "product": lambda x: x.prod(1) + x.prod(),
    "cumulative": lambda x: x.cumsum(0) * x.cumprod(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "deviation": lambda x: x.std(1) + x.var(),
    "distance": lambda x: functional.pairwise_distance(x, x.detach() + 1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
}


@pytest.mark.parametrize("name", every(8, FOLD_GRADIENTS))
def test_fold_gradients(name: str) -> None:
    """Gradients through reductions are torch's."""
    x = (torch.arange(12) * 5 % 13 - 5.5).reshape(3, 4) / 4
    check_gradients(lambda x: FOLD_GRADIENTS[name](x).square().sum(), x)


@pytest.mark.parametrize("name", every(6, CONTRACTIONS))
def test_contractions(name: str) -> None:
    """Matrix products are torch's."""
    function, inputs = CONTRACTIONS[name]
    check_function(function, *inputs)


CONVOLUTIONS = {
    "plain": ((2, 4, 5, 6), (3, 4, 3, 2), {}),
    "stride and padding": ((2, 4, 5, 6), (3, 4, 3, 3), {"stride": (2, 1), "padding": (1, 2)}),
    "dilation": ((1, 2, 7, 6), (3, 2, 3, 2), {"dilation": 2, "padding": 2, "stride": 2}),
    "groups": ((2, 4, 5, 4), (6, 2, 2, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((1, 3, 4, 4), (3, 1, 3, 3), {"groups": 3, "stride": 2, "padding": 1}),
    "uneven stride": ((1, 1, 8, 5), (2, 1, 3, 2), {"stride": 3}),
}


@pytest.mark.parametrize("name", only({"groups"}, CONVOLUTIONS))
def test_convolutions(name: str) -> None:
    """A convolution and the gradients of its input, weight and bias are torch's."""
    x_shape, w_shape, options = CONVOLUTIONS[name]

    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, w, b, **options).square().sum()  # type: ignore[arg-type]  # sizes

    check_gradients(loss, draw(*x_shape), draw(*w_shape), draw(w_shape[0]))


def test_convolutions_of_other_ranks() -> None:
    """Convolutions over one and three dimensions, and their gradients, are torch's."""
    check_gradients(
        lambda x, w: functional.conv1d(x, w, stride=2, padding=1).square().sum(),
        *(draw(2, 3, 7), draw(2, 3, 3)),
    )
    check_gradients(
        lambda x, w: functional.conv3d(x, w, padding=1).square().sum(),
        *(draw(1, 2, 3, 2, 2), draw(2, 2, 2, 2, 3)),
    )


def test_transposed_convolutions() -> None:
    """A transposed convolution, with groups and output padding, and its gradients are torch's."""
    check_gradients(
        lambda x, w, b: (
            functional.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2)
            .square()
            .sum()
        ),
        *(draw(1, 4, 3, 2), draw(4, 3, 3, 3), draw(6)),
    )


POOLS: dict[str, Callable[..., Any]] = {
    "max": lambda x: functional.max_pool2d(x, 2),
    "max overlapping": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "max dilated": lambda x: functional.max_pool2d(x, 2, 1, 0, dilation=2),
    "max ceiling": lambda x: functional.max_pool2d(x, 2, 2, ceil_mode=True),
    "max line": lambda x: functional.max_pool1d(x[0], 2),
    "avg": lambda x: functional.avg_pool2d(x, 2),
    "avg padded": lambda x: functional.avg_pool2d(x, (3, 2), 2, 1),
    "avg inside": lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg ceiling": lambda x: functional.avg_pool2d(x, 2, 2, ceil_mode=True),
    "avg divisor": lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
    "adaptive one": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "adaptive": lambda x: functional.adaptive_avg_pool2d(x, (5, 3)),
}


@pytest.mark.parametrize("name", every(8, POOLS))
def test_pools(name: str) -> None:
    """Pooling and its gradient are torch's."""
    check_gradients(lambda x: (POOLS[name](x) ** 2).sum(), IMAGE)


def test_max_pool_indices() -> None:
    """The indices of a max pool are torch's, across padding and dilation."""
    check_function(
        lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True), draw(1, 2, 5, 7)
    )


NORMALIZATIONS: dict[str, Callable[..., Any]] = {
    "layer norm": lambda x, w, b: functional.layer_norm(x, (5,), w, b),
    "layer norm over two": lambda x, w, b: functional.layer_norm(x * w + b, (3, 5)),
    "batch norm": lambda x, w, b: functional.batch_norm(
        x.transpose(1, 2), None, None, w, b, training=True
    ),
    "group norm": lambda x, w, b: functional.group_norm(x.view(2, 3, 5) * w + b, 3),
    "instance norm": lambda x, w, b: functional.instance_norm(x * w + b),
    "rms norm": lambda x, w, b: functional.rms_norm(x + b, (5,), w, eps=1e-6),
    "softmax": lambda x, w, b: (x * w + b).softmax(-1),
    "log softmax": lambda x, w, b: (x * w + b).log_softmax(1),
    "cosine": lambda x, w, b: functional.cosine_similarity(x * w, x + b, dim=-1),
    "normalize": lambda x, w, b: functional.normalize(x * w + b, dim=1),
}


@pytest.mark.parametrize("name", every(8, NORMALIZATIONS))
def test_normalizations(name: str) -> None:
    """Normalizations and the gradients of input, weight and bias are torch's."""
    scale = draw(2, 3, 5)

    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = NORMALIZATIONS[name](x, w, b)
        weighted: torch.Tensor = result * scale.flatten()[: result.numel()].view(result.shape)
        return weighted.sum()

    check_gradients(loss, X, draw(5), draw(5))


TARGETS = torch.tensor([1, 4, 0])

LOSSES: dict[str, Callable[..., Any]] = {
    "cross entropy": lambda x: functional.cross_entropy(x, TARGETS),
    "ignored": lambda x: functional.cross_entropy(x, TARGETS, ignore_index=4),
    "smoothed": lambda x: functional.cross_entropy(x, TARGETS, label_smoothing=0.1),
    "summed": lambda x: functional.cross_entropy(x, TARGETS, reduction="sum"),
    "weighted": lambda x: functional.cross_entropy(x, TARGETS, x.detach()[0].abs() + 1),
    "soft": lambda x: functional.cross_entropy(x, x.detach().softmax(1)),
    "mse": lambda x: functional.mse_loss(x, x.detach() * 2 + 1),
    "l1": lambda x: functional.l1_loss(x, x.detach() * 2 + 1),
    "huber": lambda x: functional.smooth_l1_loss(x, x.detach() * 2 + 1),
    "binary": lambda x: functional.binary_cross_entropy_with_logits(x, (x.detach() > 0) * 1.0),
    "places": lambda x: functional.cross_entropy(x[None], TARGETS[None, :].repeat(1, 2)[:, :5] % 3),
    "beta": lambda x: functional.smooth_l1_loss(x, x.detach() * 2 + 1, beta=0.5),
    "delta": lambda x: functional.huber_loss(x, x.detach() * 2 + 1, delta=0.7),
    "chances": lambda x: functional.binary_cross_entropy(
        x.sigmoid(), (x.detach() > 0).to(x.dtype), x.detach().abs()
    ),
    "weighted binary": lambda x: functional.binary_cross_entropy_with_logits(
        x, (x.detach() > 0).to(x.dtype), pos_weight=x.detach()[0].abs()
    ),
    "poisson": lambda x: functional.poisson_nll_loss(x, x.detach().abs() + 1),
    "hinge": lambda x: functional.hinge_embedding_loss(x, x.detach().sign()),
    "soft margin": lambda x: functional.soft_margin_loss(x, x.detach().sign()),
    "margin": lambda x: functional.multi_margin_loss(x, TARGETS),
    "triplet": lambda x: functional.triplet_margin_loss(x, x * 2 + 1, x * 0.5 - 1),
    "cosine": lambda x: functional.cosine_embedding_loss(x, x * 2 + 1, TARGETS * 0 + 1),
    "nothing to learn": lambda x: (
        functional.cross_entropy(x, TARGETS * 0 + 4, ignore_index=4).nan_to_num(0).add(x.sum())
    ),
    "divergence": lambda x: functional.kl_div(x.log_softmax(1), x.detach().softmax(1)),
}


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")  # kl_div's default mean
@pytest.mark.parametrize("name", every(8, LOSSES))
def test_losses(name: str) -> None:
    """Losses and their gradients are torch's."""
    check_gradients(LOSSES[name], draw(3, 5))


def test_long_folds_are_split_by_shape() -> None:
    """A sum of K elements has two stages of ceil(K / W) and W steps, W = 2^ceil(log2(sqrt(K)))."""
    for size, stages in {
        31: [(31,)],
        32: [(4,), (8,)],
        70: [(5,), (16,)],
        64: [(8,), (8,)],
    }.items():
        program = capture_function(lambda x: x.sum(1), draw(2, size)).program
        folds = [node.fold_shape for node in program.nodes if node.kind is Kind.REDUCE]
        assert folds == stages


def test_lanes_run_along_the_innermost_group_of_axes() -> None:
    """Neighbouring axes are split together; the others lead the fold of the first stage."""
    program = capture_function(lambda x: x.sum((0, 2, 3)), draw(2, 3, 4, 5)).program
    folds = [node for node in program.nodes if node.kind is Kind.REDUCE]
    assert [(node.shape, node.fold_shape) for node in folds] == [((3, 8), (2, 3)), ((3,), (8,))]


def test_lanes_do_not_depend_on_strides() -> None:
    """The stages of a reduction follow from its shape: a transposed input has the same ones."""
    found = []
    for function in (lambda x: x.sum((0, 2)), lambda x: x.permute(2, 1, 0).sum((0, 2))):
        for shape in ((3, 2, 20), (20, 2, 3)):
            program = capture_function(function, draw(*shape)).program
            folds = [n.fold_shape for n in program.nodes if n.kind is Kind.REDUCE]
            found.append(folds)
    assert found[0] == found[3]
    assert found[1] == found[2]
