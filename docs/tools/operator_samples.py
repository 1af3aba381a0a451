"""Sample calls of ATen operators, for the table in operators.md."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn import functional

aten = torch.ops.aten
prims = torch.ops.prims

X = torch.linspace(-2, 2, 12).reshape(3, 4)
Y = X.flip(0) * 0.5 + 0.25
N = torch.arange(12).reshape(3, 4) - 5
T = X > 0
ROW = X[0]
SQUARE = Y[:3, :3] + 2 * torch.eye(3)
P = torch.tensor([2, 0, 1])
PAIRS = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]])
CUBE = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
LONG = torch.linspace(-1, 1, 600).reshape(2, 300)
IMAGE = torch.linspace(-1, 1, 60).reshape(1, 2, 5, 6)
VOLUME = torch.linspace(-1, 1, 120).reshape(1, 2, 3, 4, 5)
KERNEL = torch.linspace(-1, 1, 36).reshape(2, 2, 3, 3)


class Call(NamedTuple):
    """A call of one function; tensors may occur anywhere in its arguments."""

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]


def call(function: Any, *args: Any, **options: Any) -> Call:
    """Return a sample call."""
    return Call(function, args, options)


UNARY = """abs ceil clone cos cosh erf erfc exp exp2 expm1 floor isinf isnan log log1p log2 neg
    reciprocal relu round rsqrt sgn sigmoid sign sin sinh sqrt tan tanh trunc logical_not alias
    detach empty_like zeros_like ones_like rand_like randn_like sum
    mean prod max min amax amin argmax argmin any all t squeeze bernoulli normal_functional uniform
    sort"""
COMPARISONS = "eq ne lt le gt ge"
LOGIC = "and or xor"


def elementwise_calls() -> Iterator[Call]:
    """Yield calls of what works element by element."""
    for name in UNARY.split():
        yield call(getattr(aten, name).default, X)
    for name in ("add", "sub", "mul", *COMPARISONS.split()):
        yield call(getattr(aten, name).Tensor, X, Y)
        yield call(getattr(aten, name).Tensor, N, N)
        yield call(getattr(aten, name).Scalar, X, 2)
    for name in ("add", "mul"):
        yield call(getattr(aten, name).Tensor, T, T)
    for name in LOGIC.split():
        yield call(getattr(aten, f"bitwise_{name}").Tensor, N, N)
        yield call(getattr(aten, f"bitwise_{name}").Scalar, N, 3)
        yield call(getattr(aten, f"logical_{name}").default, X, T)
    yield call(aten.bitwise_not.default, N)
    yield call(aten.div.Tensor, X, Y)
    yield call(aten.div.Scalar, X, 3)
    yield call(aten.pow.Tensor_Scalar, N, 5)
    for exponent in (0, 2, 0.5, -0.5, -1, -2, 1.7):
        yield call(aten.pow.Tensor_Scalar, X, exponent)
    yield call(aten.pow.Tensor_Tensor, X, Y)
    for base in (2, 3):
        yield call(aten.pow.Scalar, base, X)
    yield call(aten.maximum.default, X, Y)
    yield call(aten.minimum.default, X, Y)
    yield call(aten.clamp.default, X, -1, 1)
    yield call(aten.clamp.Tensor, X, Y, Y)
    yield call(aten.where.self, T, X, Y)
    yield call(aten._to_copy.default, X, dtype=torch.int64)  # noqa: SLF001 - ATen's name
    yield call(prims.convert_element_type.default, N, torch.float32)
    yield call(aten.copy.default, X, N)


def division_calls() -> Iterator[Call]:
    """Yield calls of divisions with a remainder, and of shifts."""
    for mode in ("floor", "trunc"):
        for x in (X, N):
            yield call(aten.div.Tensor_mode, x, x, rounding_mode=mode)
            yield call(aten.div.Scalar_mode, x, 3, rounding_mode=mode)
    for name in ("remainder", "fmod"):
        for x in (X, N):
            yield call(getattr(aten, name).Tensor, x, x)
            yield call(getattr(aten, name).Scalar, x, 3)
    yield call(aten.remainder.Scalar_Tensor, 3, N)
    for name in ("left", "right"):
        shift = getattr(aten, f"bitwise_{name}_shift")
        yield call(shift.Tensor, N, N)
        yield call(shift.Tensor_Scalar, N, 3)
        yield call(shift.Scalar_Tensor, 3, N)
    for name in ("__lshift__", "__rshift__"):
        yield call(getattr(aten, name).Tensor, N, N)
        yield call(getattr(aten, name).Scalar, N, 3)


def fold_calls() -> Iterator[Call]:
    """Yield calls of contractions, convolutions, reductions, softmax, pooling and sorting."""
    yield call(aten.mm.default, X, Y.T)
    yield call(aten.bmm.default, CUBE, CUBE.mT)
    yield call(aten._int_mm.default, X.to(torch.int8), Y.T.to(torch.int8))  # noqa: SLF001 - likewise
    yield call(aten.addmm.default, X[:, 0], X, Y.T)
    yield call(aten.addmm.default, X[:, 0], X, Y.T, beta=2, alpha=3)
    yield call(aten.baddbmm.default, CUBE[:, :, :3], CUBE, CUBE.mT)
    yield call(aten.mv.default, X, Y[0])
    yield call(aten.dot.default, X[0], Y[0])
    yield call(aten.addmv.default, X[:, 0], X, Y[0])
    geometry = ([1], [1], [1], False, [0], 1)
    yield call(aten.convolution.default, IMAGE, KERNEL, None, *geometry)
    gradients = [True, True, True]
    yield call(aten.convolution_backward.default, IMAGE, IMAGE, KERNEL, [2], *geometry, gradients)
    for name in ("sum.dim_IntList", "mean.dim", "any.dims", "all.dims"):
        packet, overload = name.split(".")
        yield call(getattr(getattr(aten, packet), overload), X, [0])
    for name in ("prod.dim_int", "any.dim", "all.dim", "max.dim", "min.dim"):
        packet, overload = name.split(".")
        yield call(getattr(getattr(aten, packet), overload), X, 1)
    for name in ("amax", "amin", "any", "max"):
        yield call(getattr(aten, name).default, T)
    yield call(aten.sum.default, N)
    yield call(aten.var_mean.correction, X, [0])
    yield call(aten.var.correction, X, [0])
    yield call(aten.cumsum.default, X, 1)
    for name in ("cumprod", "cummax", "cummin"):
        yield call(getattr(aten, name).default, X, 1)
    yield call(aten._softmax.default, X, 1, False)  # noqa: SLF001 - ATen's name
    yield call(aten._log_softmax.default, X, 1, False)  # noqa: SLF001 - likewise
    yield call(aten.sort.stable, N, stable=True)
    yield call(aten.topk.default, X, 2)
    yield call(aten.topk.default, LONG, 2)


def pool_calls() -> Iterator[Call]:
    """Yield calls of pooling."""
    for rank, x in ((2, IMAGE), (3, VOLUME)):
        window = ([2] * rank, [1] * rank, [1] * rank)
        pooled = getattr(aten, f"max_pool{rank}d_with_indices").default(x, *window)
        name = f"max_pool{rank}d_with_indices"
        yield call(getattr(aten, name).default, x, *window)
        options = ([1] * rank, False)
        backward = getattr(aten, f"{name}_backward").default
        yield call(backward, pooled[0], x, *window, *options, pooled[1])
        average = getattr(aten, f"avg_pool{rank}d")
        yield call(average.default, x, *window)
        yield call(average.default, x, *window, False, False)
        backward = getattr(aten, f"avg_pool{rank}d_backward").default
        yield call(backward, average(x, *window), x, *window, False, True, None)
        yield from _adaptive_calls(rank, x)


def _adaptive_calls(rank: int, x: torch.Tensor) -> Iterator[Call]:
    for size in ([1] * rank, [2] * rank):
        average = getattr(aten, f"_adaptive_avg_pool{rank}d")
        yield call(average.default, x, size)
        yield call(
            getattr(aten, f"_adaptive_avg_pool{rank}d_backward").default, average(x, size), x
        )
        largest = getattr(aten, f"adaptive_max_pool{rank}d")
        yield call(largest.default, x, size)
        backward = getattr(aten, f"adaptive_max_pool{rank}d_backward").default
        values, positions = largest(x, size)
        yield call(backward, values, x, positions)


def index_calls() -> Iterator[Call]:
    """Yield calls of gathers and scatters."""
    yield call(aten.gather.default, X, 0, PAIRS)
    yield call(aten.index_select.default, X, 0, P)
    yield call(aten.embedding.default, X, PAIRS)
    for padding in (-1, 1):
        yield call(aten.embedding_dense_backward.default, CUBE[0], P, 5, padding, False)
    yield call(aten.embedding_dense_backward.default, CUBE[0], P, 5, -1, True)
    yield call(aten.scatter.src, X, 0, PAIRS, Y)
    yield call(aten.scatter.value, X, 0, PAIRS, 1.5)
    yield call(aten.scatter.reduce, X, 0, PAIRS, Y, reduce="add")
    yield call(aten.scatter.value_reduce, X, 0, PAIRS, 1.5, reduce="multiply")
    yield call(aten.scatter_add.default, X, 0, PAIRS, Y)
    for reduce in ("sum", "amax", "amin", "prod", "mean"):
        yield call(aten.scatter_reduce.two, X, 0, PAIRS, Y, reduce)
        yield call(aten.scatter_reduce.two, X, 0, PAIRS, Y, reduce, include_self=False)
    for name in ("index", "_unsafe_index"):
        yield call(getattr(aten, name).Tensor, X, [None, P])
    for name in ("index_put", "_unsafe_index_put"):
        for accumulate in (False, True):
            yield call(getattr(aten, name).default, X, [P], Y, accumulate)
    yield call(aten.index_put.default, X, [T], torch.tensor(1.0))
    yield call(aten.put.default, X, P, Y[0, :3])


def shape_calls() -> Iterator[Call]:
    """Yield calls of what rearranges and pads."""
    for name in ("view", "_unsafe_view", "_reshape_alias"):
        strides = ([4, 1],) if name == "_reshape_alias" else ()
        yield call(getattr(aten, name).default, X, [3, 4], *strides)
    yield call(aten.unsqueeze.default, X, 1)
    yield call(aten.squeeze.dim, X, 0)
    yield call(aten.squeeze.dims, X, [0])
    yield call(aten.expand.default, X[0], [2, 4])
    yield call(aten.permute.default, CUBE, [2, 0, 1])
    yield call(aten.transpose.int, X, 0, 1)
    yield call(aten.slice.Tensor, X, 1, 1, 3)
    yield call(aten.select.int, X, 0, 1)
    yield call(aten.split.Tensor, X, 2)
    yield call(aten.split_with_sizes.default, X, [1, 2])
    yield call(aten.unbind.int, X)
    yield call(aten.flip.default, X, [0])
    yield call(aten.diagonal.default, X)
    yield call(aten.unfold.default, X, 1, 2, 1)
    yield call(aten.as_strided.default, X, [2, 3], [4, 1])
    yield call(aten.repeat.default, X, [2, 1])
    yield call(aten.cat.default, [X, Y])
    yield call(aten.slice_scatter.default, X, Y[:2], 0, 1)
    yield call(aten.select_scatter.default, X, Y[0], 0, 1)
    yield call(aten.diagonal_scatter.default, X, Y[:, 0])
    yield call(aten.diagonal_backward.default, X[:, 0], [3, 4], 0, 0, 1)
    yield call(aten.roll.default, X, [1], [0])
    yield call(aten.constant_pad_nd.default, X, [1, 1])
    for rank, x in enumerate((CUBE, IMAGE, VOLUME), start=1):
        padding = [1] * (2 * rank)
        forward = getattr(aten, f"replication_pad{rank}d").default
        backward = getattr(aten, f"replication_pad{rank}d_backward").default
        yield call(backward, forward(x, padding), x, padding)


def creation_calls() -> Iterator[Call]:
    """Yield calls of what makes tensors, random ones included."""
    for name in ("zeros", "ones", "rand", "randn"):
        yield call(getattr(aten, name).default, [2, 3])
    for name in ("new_empty", "new_zeros", "new_ones"):
        yield call(getattr(aten, name).default, X, [2, 3])
    yield call(aten.full.default, [2, 3], 1.5)
    yield call(aten.full_like.default, X, 1.5)
    yield call(aten.new_full.default, X, [2, 3], 1.5)
    yield call(aten.fill.Scalar, X, 1.5)
    yield call(aten.scalar_tensor.default, 1.5)
    yield call(aten.empty.memory_format, [2, 3])
    yield call(aten.empty_permuted.default, [2, 3], [1, 0])
    yield call(aten.empty_strided.default, [2, 3], [3, 1])
    yield call(aten.new_empty_strided.default, X, [2, 3], [3, 1])
    yield call(aten.arange.default, 5)
    yield call(aten.arange.start, 1, 5)
    yield call(aten.arange.start_step, 1, 5, 2)
    count = {"dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False}
    yield call(prims.iota.default, 5, start=0, step=1, **count)
    yield call(aten.eye.default, 3)
    yield call(aten.eye.m, 3, 4)
    yield call(aten.tril_indices.default, 3, 4)
    yield call(aten.triu_indices.default, 3, 4)
    yield call(aten.bernoulli.p, X, 0.5)
    yield call(aten.native_dropout.default, X, 0.5, True)
    yield call(aten.randint.default, 5, [3])
    yield call(aten.randint.low, 1, 5, [3])
    yield call(aten.randint_like.default, X, 5)
    yield call(aten.randint_like.low_dtype, X, 1, 5)
    yield call(aten.multinomial.default, Y.abs(), 1)
    yield call(aten.multinomial.default, Y.abs(), 2)
    yield call(lambda x: x + torch.tensor([1.0, 2, 3, 4]), X)  # lift_fresh_copy
    yield call(torch.linalg.inv, SQUARE)  # _linalg_check_errors
    yield call(aten._assert_async.msg, T[0, 0], "message")  # noqa: SLF001 - ATen's name


ACTIVATIONS = """celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid
    mish relu6 selu silu softplus softshrink softsign tanhshrink threshold"""
INVERSE = "acos acosh angle asin asinh atan atanh erfinv log10"
LOSSES = """binary_cross_entropy_with_logits huber_loss l1_loss mse_loss poisson_nll_loss
    smooth_l1_loss soft_margin_loss"""


def learn(function: Any, *args: Any, **options: Any) -> Call:
    """Return a sample call followed by its gradient to the first argument."""

    def both(x: torch.Tensor, *rest: Any, **others: Any) -> Any:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            result = function(leaf, *rest, **others)
            return torch.autograd.grad((result * result).sum(), leaf)

    return Call(both, args, options)


def composed_calls() -> Iterator[Call]:
    """Yield calls, and gradients, of what torch decomposes."""
    for name in ACTIVATIONS.split():
        yield learn(getattr(functional, name), X, *((0.1, 0.2) if name == "threshold" else ()))
    for name in LOSSES.split():
        yield learn(getattr(functional, name), X, T.float())
    yield learn(functional.binary_cross_entropy, X.sigmoid(), T.float())
    yield learn(functional.kl_div, X, Y.sigmoid(), reduction="sum")
    yield learn(functional.cross_entropy, X, P, ROW.abs(), ignore_index=1, label_smoothing=0.1)
    yield learn(functional.prelu, CUBE, ROW[:3])
    yield learn(functional.layer_norm, X, [4], ROW)
    yield learn(functional.rms_norm, X, [4], ROW)
    yield learn(functional.group_norm, IMAGE, 2)
    yield learn(functional.instance_norm, IMAGE)
    yield learn(functional.batch_norm, IMAGE, ROW[:2], ROW[:2].abs(), training=True)
    yield learn(functional.local_response_norm, IMAGE, 2)
    yield learn(functional.softmax, X, 1)
    yield learn(functional.log_softmax, X, 1)
    yield learn(functional.pad, IMAGE, (1, 1, 1, 1), mode="reflect")
    for mode in ("nearest", "bilinear", "bicubic"):
        yield learn(functional.interpolate, IMAGE, (7, 8), mode=mode)
    yield learn(functional.unfold, IMAGE, 2)
    yield learn(functional.fold, X.reshape(1, 4, 3), (2, 4), 2)
    yield learn(functional.pixel_shuffle, X.reshape(1, 4, 1, 3), 2)
    yield learn(torch.cumsum, X, 1)
    yield learn(torch.logsumexp, X, 1)
    yield learn(torch.linalg.vector_norm, X)
    yield learn(torch.std, X, 1)
    yield learn(torch.prod, X, 1)
    yield learn(torch.tril, X)
    for name in ("addcmul", "addcdiv", "lerp"):
        yield learn(getattr(torch, name), X, Y.abs() + 1, Y.abs() + 1)
    for name in ("frac", "square", "nan_to_num", "logit", *INVERSE.split()):
        yield learn(getattr(torch, name), X)
    for name in ("logaddexp", "xlogy", "atan2", "copysign", "fmax", "fmin", "hypot"):
        yield learn(getattr(torch, name), X, Y)
    yield call(torch.signbit, X)
    yield call(torch.copysign, X, -1.0)
    yield call(torch.round, X, decimals=2)
    for name in ("qr", "matrix_exp", "lu_factor_ex", "eigh", "svd"):
        yield call(getattr(torch.linalg, name), SQUARE)
    for name in ("logcumsumexp", "kthvalue", "median", "nanmedian", "mode"):
        yield call(getattr(torch, name), X, 1)
    yield call(torch.index_reduce, X, 0, P, Y, "amax")
    yield call(torch.searchsorted, ROW, X)
    yield call(torch.fake_quantize_per_tensor_affine, X, 0.1, 0, -20, 20)
    yield call(aten._fake_quantize_learnable_per_tensor_affine.default, X, ROW, ROW, -20, 20)  # noqa: SLF001 - torch's name
    yield call(functional.one_hot, P, 3)
    yield call(aten.exponential.default, X)
    yield call(torch.randperm, 4)
    yield call(torch.normal, X, 0.5)


SAMPLES: tuple[Call, ...] = (
    *elementwise_calls(),
    *division_calls(),
    *fold_calls(),
    *pool_calls(),
    *index_calls(),
    *shape_calls(),
    *creation_calls(),
    *composed_calls(),
)
"""At least one call of every overload that has a rule."""
