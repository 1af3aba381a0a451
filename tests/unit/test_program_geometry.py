"""Windows of any geometry (convolution, pooling, padding, resizing), gradients included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tests.program_helpers import check_function, check_gradients, run_function
from tests.quick import every

FEW = settings(max_examples=12, deadline=None)
RANKS = st.integers(1, 3)
CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)
MAX_POOLS = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
AVG_POOLS = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)
ADAPTIVE = (
    (functional.adaptive_avg_pool1d, functional.adaptive_max_pool1d),
    (functional.adaptive_avg_pool2d, functional.adaptive_max_pool2d),
    (functional.adaptive_avg_pool3d, functional.adaptive_max_pool3d),
)


def fill(*shape: int) -> torch.Tensor:
    """Return numbers of which no two are equal, in no order."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7919 % 10_007) / 5_003 - 1).reshape(shape)


def tuples(data: st.DataObject, rank: int, low: int, high: int) -> tuple[int, ...]:
    """Draw one number for each dimension."""
    return data.draw(st.tuples(*[st.integers(low, high)] * rank))


@FEW
@given(RANKS, st.integers(1, 2), st.data())
def test_convolutions(rank: int, groups: int, data: st.DataObject) -> None:
    """Any stride, padding, dilation and number of groups gives torch's values and gradients."""
    kernel, dilation = tuples(data, rank, 1, 3), tuples(data, rank, 1, 2)
    stride, padding = tuples(data, rank, 1, 3), tuples(data, rank, 0, 2)
    least = [
        max(d * (k - 1) + 1 - 2 * p, 1) for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]
    sizes = [low + data.draw(st.integers(0, 2)) for low in least]
    options: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return CONVOLUTIONS[rank - 1](x, w, b, **options).square().sum()

    x, w = fill(2, 2 * groups, *sizes), fill(2 * groups, 2, *kernel)
    check_gradients(loss, x, w, fill(2 * groups))


@FEW
@given(RANKS, st.integers(1, 2), st.data())
def test_transposed_convolutions(rank: int, groups: int, data: st.DataObject) -> None:
    """So does a transposed convolution, with any padding of its output."""
    kernel, stride = tuples(data, rank, 1, 3), tuples(data, rank, 1, 3)
    output = tuple(data.draw(st.integers(0, s - 1)) for s in stride)
    padding = tuple(data.draw(st.integers(0, (k - 1) // 2)) for k in kernel)
    sizes = tuples(data, rank, 1, 3)
    options: Any = {"stride": stride, "padding": padding, "output_padding": output}

    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = TRANSPOSED[rank - 1](x, w, b, groups=groups, **options)
        return result.square().sum()

    x, w = fill(1, 2 * groups, *sizes), fill(2 * groups, 2, *kernel)
    check_gradients(loss, x, w, fill(2 * groups))


def test_a_transposed_convolution_may_have_a_bias_of_minus_zero() -> None:
    """Both executors fold the zeros between strides into it, also where nothing else is folded."""
    x, w, b = fill(1, 2, 3, 3), torch.ones(2, 4, 1, 1), torch.tensor([-0.0, 1, -0.0, -2])
    (found,) = run_function(lambda x, w, b: functional.conv_transpose2d(x, w, b, 3), x, w, b)
    assert found.shape == (1, 4, 7, 7)
    assert not np.signbit(found[0, ::2, 1]).any()


@FEW
@given(RANKS, st.booleans(), st.booleans(), st.data())
def test_pools(rank: int, is_max: bool, ceil_mode: bool, data: st.DataObject) -> None:  # noqa: FBT001 - drawn
    """Maxima and averages of any windows, and their gradients, are torch's."""
    kernel, stride = tuples(data, rank, 1, 3), tuples(data, rank, 1, 3)
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    x = fill(1, 2, *(k + data.draw(st.integers(0, 3)) for k in kernel))
    options: Any = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    if not is_max:
        options["count_include_pad"] = data.draw(st.booleans())
    pool = (MAX_POOLS if is_max else AVG_POOLS)[rank - 1]
    check_gradients(lambda x: pool(x, kernel, **options).square().sum(), x)


@pytest.mark.slow
@FEW
@given(RANKS, st.data())
def test_adaptive_pools(rank: int, data: st.DataObject) -> None:
    """Averages and maxima of windows that need not be equal are torch's, positions included."""
    x = fill(1, 2, *tuples(data, rank, 1, 5))
    size: Any = tuples(data, rank, 1, 5)
    average, largest = ADAPTIVE[rank - 1]
    check_gradients(lambda x: average(x, size).square().sum(), x)
    check_gradients(lambda x: largest(x, size).square().sum(), x)
    check_function(lambda x: largest(x, size, return_indices=True), x)


def test_adaptive_pools_of_specials() -> None:
    """NaN and infinities stay inside their own windows."""
    x = torch.tensor([[float("nan"), 1, 2, -float("inf"), 3, -float("inf"), -float("inf")]])
    check_function(lambda x: functional.adaptive_max_pool1d(x, 3, return_indices=True), x)
    check_function(lambda x: functional.adaptive_max_pool1d(x, 7, return_indices=True), x)
    check_function(lambda x: functional.adaptive_avg_pool1d(x, 3), x)


@FEW
@given(RANKS, st.sampled_from(["constant", "reflect", "replicate", "circular"]), st.data())
def test_pads(rank: int, mode: str, data: st.DataObject) -> None:
    """Every padding mode on every side of up to three dimensions is torch's."""
    sizes = tuples(data, rank, 2, 4)
    sides = [data.draw(st.integers(0, n - 1)) for n in reversed(sizes) for _ in range(2)]
    weights = fill(2, 2, *(n + 6 for n in sizes))

    def loss(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, sides, mode=mode)
        cut = tuple(slice(n) for n in padded.shape)
        total: torch.Tensor = (padded * weights.to(x.dtype)[cut]).square().sum()
        return total

    check_gradients(loss, fill(2, 2, *sizes))


RESIZES = {
    1: ("nearest", "nearest-exact", "linear", "area"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    3: ("nearest", "nearest-exact", "trilinear", "area"),
}


@pytest.mark.slow
@FEW
@given(RANKS, st.data())
def test_resizes(rank: int, data: st.DataObject) -> None:
    """Resizing to any size, up or down, by any mode but antialiasing is torch's."""
    mode = data.draw(st.sampled_from(RESIZES[rank]))
    corners = data.draw(st.booleans()) if mode.endswith(("linear", "cubic")) else None
    size, x = tuples(data, rank, 1, 6), fill(1, 2, *tuples(data, rank, 2, 4))

    def resize(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, size, mode=mode, align_corners=corners)

    check_gradients(lambda x: resize(x).square().sum(), x)


@FEW
@given(st.data())
def test_unfold_and_fold(data: st.DataObject) -> None:
    """Windows as columns, and their sum back into an image, are torch's."""
    kernel, stride = tuples(data, 2, 1, 3), tuples(data, 2, 1, 2)
    dilation, padding = tuples(data, 2, 1, 2), tuples(data, 2, 0, 1)
    sizes = tuples(data, 2, 3, 5)
    reach = zip(sizes, kernel, dilation, padding, strict=True)
    assume(all(n + 2 * p > d * (k - 1) for n, k, d, p in reach))
    options: Any = {"dilation": dilation, "padding": padding, "stride": stride}

    def loss(x: torch.Tensor) -> torch.Tensor:
        columns = functional.unfold(x, kernel, **options)
        return functional.fold(columns.square(), sizes, kernel, **options).square().sum()

    check_gradients(loss, fill(1, 2, *sizes))


SAMPLING: dict[str, Callable[..., Any]] = {
    "pixel shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "channel shuffle": lambda x: functional.channel_shuffle(x, 2),
    "lp pool": lambda x: functional.lp_pool2d(x.abs() + 1, 2, 2),
    "local response": lambda x: functional.local_response_norm(x, 2),
}


@pytest.mark.parametrize("name", every(4, SAMPLING))
def test_sampling(name: str) -> None:
    """Operators that rearrange or normalize an image's channels and places give torch's numbers."""
    check_gradients(lambda x: SAMPLING[name](x).square().sum(), fill(1, 4, 4, 6))
