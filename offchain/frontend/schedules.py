"""Learning-rate schedules: the rate of an update, computed inside the step from a counter.

The counter is a tensor of the committed state, so that a rate is part of the program and can be
disputed like any other number. The arithmetic is float32's; definitions are those of the
transformers library's schedulers of the same names, with one difference: past their end, rates
stay where they ended (its cosine would rise again).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan, pi

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.text import show

Schedule = Callable[[Tensor], Tensor]
"""(INT64 number of updates before this one) -> its learning rate, one float32 number."""

Rate = float | Schedule
"""A learning rate, or another number that updates have: a constant, or a schedule."""

COUNTER = "updates"
"""The counter that schedules read, where there is one: how many updates were made."""


def require_number(name: str, value: float, least: float, below: float = inf) -> None:
    """Refuse a number (`UsageError`) that is not in [least, below)."""
    if not least <= value < below:
        interval = f"in [{least:g}, {below:g})" if below < inf else f"finite and at least {least:g}"
        raise UsageError(f"{name} is {value}; choose a number that is {interval}")


def require_count(name: str, value: int, least: int = 0) -> None:
    """Refuse a count (`UsageError`) that is not an integer or too small."""
    if not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is {show(value)}; choose an integer of at least {least}")


def require_rate(
    rate: Rate, name: str = "the learning rate", least: float = 0, below: float = inf
) -> None:
    """Refuse a constant rate (`UsageError`) that is not in [least, below)."""
    if not callable(rate):
        require_number(name, rate, least, below)


@dataclass(frozen=True, slots=True)
class Warmup:
    """Linear from 0 to the peak over the first updates, constant from then on."""

    peak: float
    warmup: int

    def __post_init__(self) -> None:
        _check(self.peak, self.warmup)

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the rate."""
        return _warm_up(updates, self.peak, self.warmup, torch.full((), self.peak))


@dataclass(frozen=True, slots=True)
class _Decay:
    """A warm-up to the peak, and a decay to 0 at update `total`."""

    peak: float
    total: int
    warmup: int = 0

    def __post_init__(self) -> None:
        _check(self.peak, self.warmup, self.total)


class LinearDecay(_Decay):
    """Linear from the peak, reached after the warm-up, to 0 at update `total`."""

    __slots__ = ()

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the rate."""
        left = 1 - _progress(updates, self.warmup, self.total)
        return _warm_up(updates, self.peak, self.warmup, left * self.peak)


class CosineDecay(_Decay):
    """Half a cosine from the peak, reached after the warm-up, to 0 at update `total`."""

    __slots__ = ()

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the rate."""
        wave = (_progress(updates, self.warmup, self.total) * pi).cos()
        return _warm_up(updates, self.peak, self.warmup, (wave + 1) * (self.peak / 2))


@dataclass(frozen=True, slots=True)
class StepDecay:
    """The peak times `factor` after every `every` updates, as `torch.optim.lr_scheduler.StepLR`."""

    peak: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check(self.peak, 0)
        require_count("the number of updates between decays", self.every, 1)
        require_number("the factor of a decay", self.factor, 0)

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the rate."""
        times = torch.div(updates, self.every, rounding_mode="floor")
        return torch.full((), self.factor).pow(times.float()) * self.peak


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """The rates of updates, one after the other; the last one is that of all that follow.

    Attributes:
        rates: the rates, float32.
        updates: of how many updates they are known; later ones are NaN.
    """

    rates: Tensor
    updates: int

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the rate."""
        index = updates.clamp(max=len(self.rates) - 1)
        rate = self.rates.index_select(0, index.reshape(1)).reshape(())
        return torch.where(updates < self.updates, rate, nan)


def _check(peak: float, warmup: int, total: int | None = None) -> None:
    require_number("the learning rate", peak, 0)
    require_count("the number of updates of the warm-up", warmup)
    if total is not None:
        require_count("the total number of updates (it includes the warm-up)", total, warmup + 1)


def _warm_up(updates: Tensor, peak: float, warmup: int, rate: Tensor) -> Tensor:
    """Return the rate, or while warming up its share of the peak."""
    if not warmup:
        return rate
    return torch.where(updates < warmup, updates.float() / warmup * peak, rate)


def _progress(updates: Tensor, warmup: int, total: int) -> Tensor:
    """Return the share of the way from the end of the warm-up to the total, in [0, 1]."""
    return ((updates - warmup).float() / (total - warmup)).clamp(0, 1)
