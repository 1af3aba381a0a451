"""Methods and functions of torch.nn that branch on data, or compute with it in Python."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules import batchnorm, transformer

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


METHODS: Sequence[tuple[Any, str, Any]] = (
    (batchnorm._BatchNorm, "forward", normalize_batch),  # noqa: SLF001 - likewise
    (transformer, "_detect_is_causal_mask", detect_causal_mask),
)
"""Class or module, name, and what stands in its place while a step is traced."""
