"""Methods and functions of torch.nn that branch on data, or compute with it in Python."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn import functional
from torch.nn.modules import adaptive, batchnorm, normalization, transformer
from torch.nn.utils import rnn
from torch.optim import swa_utils

from moot.offchain.frontend.decompositions.observers import OBSERVERS

_l1_loss = functional.l1_loss
_forward = batchnorm._BatchNorm.forward  # noqa: SLF001 - the class under all batch norms


def normalize_batch(self: Any, x: Tensor) -> Tensor:
    """Forward of batch norm: without a momentum, the statistics are means over all batches."""
    is_cumulative = self.momentum is None and self.training and self.track_running_stats
    if not is_cumulative:
        result: Tensor = _forward(self, x)
        return result
    self._check_input_dim(x)
    with torch.no_grad():
        self.num_batches_tracked.add_(1)
        share = self.num_batches_tracked.float().reciprocal()
        axes = [d for d in range(x.ndim) if d != 1]
        variance, mean = torch.var_mean(x, axes)
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            running.add_((now - running) * share)
    return functional.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def detect_causal_mask(
    mask: Tensor | None,
    is_causal: bool | None = None,  # noqa: FBT001 - torch's signature
    size: int | None = None,
) -> bool:
    """Return whether a mask is declared causal: it is applied either way."""
    del mask, size
    return is_causal is True


def check_symmetric(self: Any, value: Tensor) -> Tensor:
    """Return which matrices are symmetric: whether they are square is known."""
    del self
    if value.shape[-2] != value.shape[-1]:
        return torch.zeros(value.shape[:-2], dtype=torch.bool)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def check_positive_definite(self: Any, value: Tensor) -> Tensor:
    """Return which matrices are symmetric and have a triangular root."""
    root, info = torch.linalg.cholesky_ex(value)
    has_root: Tensor = info.eq(0) & root.isfinite().all(-1).all(-1)
    return check_symmetric(self, value).logical_and(has_root)


def update_average(self: Any, model: torch.nn.Module) -> None:
    """Move averaged parameters, which are those of the model at first."""
    averaged = self.module if self.use_buffers else self
    own, others = ([*it.parameters()] for it in (averaged, model))
    if self.use_buffers:
        own, others = [*own, *self.module.buffers()], [*others, *model.buffers()]
    is_first, number = self.n_averaged == 0, self.n_averaged.clone()
    with torch.no_grad():
        moved = [tensor.detach().clone() for tensor in own]
        given = [tensor.detach() for tensor in others]
        if self.multi_avg_fn is not None:
            self.multi_avg_fn(moved, given, number)
        else:
            average = self.avg_fn or swa_utils.get_swa_avg_fn()  # type: ignore[no-untyped-call]  # torch's is untyped
            moved = [average(a, b, number) for a, b in zip(moved, given, strict=True)]
        for tensor, new, first in zip(own, moved, given, strict=True):
            tensor.copy_(torch.where(is_first, first, new))
        if not self.use_buffers:
            for tensor, now in zip(self.module.buffers(), model.buffers(), strict=True):
                tensor.copy_(now)
        self.n_averaged.add_(1)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the places of 0, 1, ... in a permutation, without writing to a tensor."""
    return None if permutation is None else permutation.argsort()


def find_log_probabilities(self: Any, x: Tensor, target: Tensor) -> Any:
    """Forward of the adaptive softmax: each cluster takes all rows, zeros for those of others."""
    rows, classes = (x, target) if target.ndim else (x[None], target[None])
    ends = [0, *self.cutoffs]
    place = torch.where(classes < ends[1], classes, 0)
    chances = torch.where(classes < 0, torch.nan, 0.0)
    for number, (low, high) in enumerate(pairwise(ends[1:])):
        is_here = (classes >= low) & (classes < high)
        taken = torch.where(is_here[:, None], rows, 0)
        inside = functional.log_softmax(self.tail[number](taken), 1)
        chosen = inside.gather(1, (classes - low).clamp(0, high - low - 1)[:, None])[:, 0]
        chances = torch.where(is_here, chosen, chances)
        place = torch.where(is_here, self.shortlist_size + number, place)
    chances = torch.where(classes >= ends[-1], torch.nan, chances)
    head = functional.log_softmax(self.head(rows), 1)
    chances = chances + head.gather(1, place[:, None])[:, 0]
    return adaptive._ASMoutput(chances if target.ndim else chances[0], -chances.mean())  # noqa: SLF001 - likewise


def l1_loss(
    x: Tensor,
    y: Tensor,
    size_average: bool | None = None,  # noqa: FBT001 - torch's signature
    reduce: bool | None = None,  # noqa: FBT001 - likewise
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the L1 loss with a weight, which torch loses where a mode sees its function."""
    if weight is None:
        return _l1_loss(x, y, size_average, reduce, reduction)
    errors = _l1_loss(x, y, reduction="none") * weight
    if reduction == "none":
        return errors
    return errors.sum() / weight.sum() if reduction == "mean" else errors.sum()


class _AcrossChannels(torch.autograd.Function):
    """A response that is normalized across channels, with torch's sums and torch's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
        """Return x over a power of the squares of the channels around each."""
        side, square = int((size - 1) / 2), x * x
        never_left = functional.pad(square[:, :1].expand_as(x)[:, side + 1 :], _pad(side + 1, 0))
        scale = (_sum_channels(square, side, side) + never_left) * (alpha / size) + k
        result = x * scale.pow(-beta)
        ctx.save_for_backward(x, result, scale)
        ctx.settings = size, alpha, beta
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradient as torch sums it: of windows that may lie to one side."""
        x, result, scale = ctx.saved_tensors
        size, alpha, beta = ctx.settings
        before = int(size - (size - 1) / 2)
        sums = _sum_channels(gradients[0] * result / scale, before, size - 1 - before)
        own = scale.pow(-beta) * gradients[0]
        return own - 2 * alpha * beta / size * x * sums, None, None, None, None


def _sum_channels(x: Tensor, before: int, behind: int) -> Tensor:
    """Return the sums of each channel, some before it and some behind it."""
    padded = functional.pad(x, _pad(before, behind))
    return torch.stack([padded[:, k : k + x.shape[1]] for k in range(before + behind + 1)]).sum(0)


def _pad(before: int, behind: int) -> tuple[int, ...]:
    """Return the padding of images by so many channels."""
    return (0, 0, 0, 0, before, behind)


def normalize_across_channels(self: Any, x: Tensor) -> Tensor:
    """Forward of the normalization across channels, without writing to tensors of any shape."""
    result: Tensor = _AcrossChannels.apply(x, self.size, self.alpha, self.beta, self.k)  # type: ignore[no-untyped-call]  # torch's is untyped
    return result


METHODS: Sequence[tuple[Any, str, Any]] = (
    (batchnorm._BatchNorm, "forward", normalize_batch),  # noqa: SLF001 - likewise
    (constraints._Symmetric, "check", check_symmetric),  # noqa: SLF001 - likewise
    (constraints._PositiveDefinite, "check", check_positive_definite),  # noqa: SLF001 - likewise
    (rnn, "invert_permutation", invert_permutation),
    (swa_utils.AveragedModel, "update_parameters", update_average),
    (functional, "l1_loss", l1_loss),
    (adaptive.AdaptiveLogSoftmaxWithLoss, "forward", find_log_probabilities),
    (normalization.CrossMapLRN2d, "forward", normalize_across_channels),
    (transformer, "_detect_is_causal_mask", detect_causal_mask),
    *OBSERVERS,
)
"""Class or module, name, and what stands in its place while a step is traced."""
