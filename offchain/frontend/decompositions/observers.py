"""Training aware of quantization: torch.ao's fake quantization and observers, without branches.

torch observes a range where a flag in a buffer says so, and begins with the first one that it sees;
here both are computed, and chosen by the flag.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.ao.quantization import fake_quantize, observer

from moot.offchain.frontend.lowering.builder import RefusalError

_Observer = observer.UniformQuantizationObserverBase
_calculate = _Observer._calculate_qparams  # noqa: SLF001 - what all observers of ranges call


def follow_range(self: Any, x: Tensor) -> Tensor:
    """Forward of a moving average of ranges, which begins with the first range."""
    if x.numel():
        is_first = _is_unknown(self.min_val, self.max_val)
        found = torch.aminmax(x.detach().to(self.min_val.dtype))
        for kept, now in zip((self.min_val, self.max_val), found, strict=True):
            moved = kept + self.averaging_constant * (now - kept)
            kept.copy_(torch.where(is_first, now, moved))
    return x


def has_range(low: Tensor, high: Tensor) -> bool:
    """Return whether there is a place for a range; one that was never seen has infinite ends."""
    return low.numel() > 0 and high.numel() > 0


def find_parameters(self: Any, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return scales and zero points: 1 and 0 of a range that was never seen."""
    scale, zero = _calculate(self, low.reshape(-1), high.reshape(-1))
    if low.ndim:
        return scale, zero
    is_unknown = _is_unknown(low, high)
    return torch.where(is_unknown, 1.0, scale), torch.where(is_unknown, 0, zero)


def _is_unknown(low: Tensor, high: Tensor) -> Tensor:
    """Return whether a range was never seen."""
    return (low == inf) & (high == -inf)


def fake_quantize_by_flags(self: Any, x: Tensor) -> Tensor:
    """Forward of fake quantization, whose two flags are data.

    Raises:
        RefusalError: the shapes of its buffers follow from a first call that is still to come.
    """
    observed = self.activation_post_process
    is_observing, is_on = self.observer_enabled[0] == 1, self.fake_quant_enabled[0] == 1
    kept = [*observed.buffers(), self.scale, self.zero_point]
    if not all(tensor.numel() for tensor in kept):
        message = "it has observed no range yet; call the model once before you give it"
        raise RefusalError(message, "torch.ao.quantization.FakeQuantize")
    before = [tensor.clone() for tensor in kept]
    observed(x.detach())
    for tensor, new in zip((self.scale, self.zero_point), self.calculate_qparams(), strict=True):
        tensor.copy_(new)
    for tensor, old in zip(kept, before, strict=True):
        tensor.copy_(torch.where(is_observing, tensor, old))
    limits = observed.quant_min, observed.quant_max
    if self.is_per_channel:
        found = torch.fake_quantize_per_channel_affine(
            x, self.scale, self.zero_point, self.ch_axis, *limits
        )
    else:
        found = torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *limits)
    return torch.where(is_on, found, x)


OBSERVERS: Sequence[tuple[Any, str, Any]] = (
    (observer.MovingAverageMinMaxObserver, "forward", follow_range),
    (observer, "check_min_max_valid", has_range),
    (_Observer, "_calculate_qparams", find_parameters),
    (fake_quantize.FakeQuantize, "forward", fake_quantize_by_flags),
)
"""Class or module, name, and what stands in its place while a step is traced."""
