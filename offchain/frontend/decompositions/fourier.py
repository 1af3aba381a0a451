"""Fourier transforms as products with matrices of cosines and sines."""

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moot.offchain.frontend.lowering.builder import RefusalError

MAX_LENGTH = 2_048
"""Elements of a line that is transformed: a matrix has the square of it."""

UNSCALED, BY_ROOT = 0, 1
"""torch's numbers of normalizations; the third divides by the number of elements."""


def _scale(count: int, normalization: int) -> float:
    if normalization == UNSCALED:
        return 1.0
    return 1 / sqrt(count) if normalization == BY_ROOT else 1 / count


def _make_waves(inputs: int, outputs: int, count: int) -> tuple[Tensor, Tensor]:
    """Return (inputs, outputs) of cos and sin of 2 pi j k / count, rounded once from float64.

    After quarters of a turn they are 0, 1 and -1, as in a fast algorithm.
    """
    if count > MAX_LENGTH:
        message = f"a Fourier transform of {count} elements; at most {MAX_LENGTH} are written out"
        raise RefusalError(message, "aten._fft_c2c.default")
    places = np.outer(np.arange(inputs), np.arange(outputs)) % count
    steps = np.arange(count)
    angles, is_quarter = 2 * pi * steps / count, 4 * steps % count == 0
    cosines, sines = (
        np.where(is_quarter, wave.round(), wave) for wave in (np.cos(angles), np.sin(angles))
    )
    return _constant(cosines[places]), _constant(sines[places])


def _constant(numbers: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(numbers.astype(np.float32))


def _multiply(x: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """Return lines along an axis times a matrix."""
    return (x.movedim(dim, -1) @ matrix).movedim(-1, dim)


def transform(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:  # noqa: FBT001 - ATen's signature
    """Return the transform of complex numbers over axes."""
    prims = torch.ops.prims
    real, imaginary = prims.real.default(x), prims.imag.default(x)
    count, sign = 1, -1.0 if forward else 1.0
    for d in dim:
        size = x.shape[d]
        count *= size
        cosines, sines = _make_waves(size, size, size)
        turned = sines * sign
        real, imaginary = (
            _multiply(real, cosines, d) - _multiply(imaginary, turned, d),
            _multiply(real, turned, d) + _multiply(imaginary, cosines, d),
        )
    factor = _scale(count, normalization)
    if factor == 1:
        return torch.complex(real, imaginary)
    return torch.complex(real * factor, imaginary * factor)


def transform_real(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:  # noqa: FBT001 - likewise
    """Return the transform of real numbers; of the last axis only the first half, if one-sided."""
    *others, last = dim
    size = x.shape[last]
    cosines, sines = _make_waves(size, size // 2 + 1 if onesided else size, size)
    result = torch.complex(_multiply(x, cosines, last), -_multiply(x, sines, last))
    if others:
        result = transform(result, others, UNSCALED, forward=True)
    count = 1
    for d in dim:
        count *= x.shape[d]
    factor = _scale(count, normalization)
    return result if factor == 1 else result * factor


def transform_to_real(
    x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    """Return the real numbers whose one-sided transform is given, unscaled by default."""
    *others, last = dim
    if others:
        x = transform(x, others, UNSCALED, forward=False)
    prims = torch.ops.prims
    half = last_dim_size // 2 + 1
    real, imaginary = (
        p.narrow(last, 0, half) for p in (prims.real.default(x), prims.imag.default(x))
    )
    cosines, sines = _make_waves(half, last_dim_size, last_dim_size)
    both = [1.0 if 2 * k in {0, last_dim_size} else 2.0 for k in range(half)]
    twice = _constant(np.array(both)[:, None])
    result = _multiply(real, cosines * twice, last) - _multiply(imaginary, sines * twice, last)
    count = last_dim_size
    for d in others:
        count *= x.shape[d]
    factor = _scale(count, normalization)
    return result if factor == 1 else result * factor


FOURIER: Mapping[str, Callable[..., Any]] = {
    "aten._fft_c2c.default": transform,
    "aten._fft_r2c.default": transform_real,
    "aten._fft_c2r.default": transform_to_real,
}
"""ATen overload -> decomposition."""
