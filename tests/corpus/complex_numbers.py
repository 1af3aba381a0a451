"""Complex numbers inside a program (its state and batch are real), and Fourier transforms."""

import torch
from torch import Tensor, fft

from tests.corpus.rows import Row, learn, ramp

X = ramp(3, 8)
Y = ramp(3, 8, seed=1)
EVEN = ramp(2, 6, 8)
QUERY = ramp(2, 5, 2, 6)
SIGNAL = ramp(2, 48)


def _rotate(x: Tensor) -> Tensor:
    """Return rotary embeddings by polar numbers, as Llama's reference code has them."""
    half = x.shape[-1] // 2
    rates = 1.0 / (100.0 ** (torch.arange(half).float() / half))
    angles = torch.outer(torch.arange(x.shape[1]).float(), rates)
    turns = torch.polar(torch.ones_like(angles), angles)[None, :, None]
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], half, 2))
    return torch.view_as_real(pairs * turns).flatten(3)


def _pair(x: Tensor, y: Tensor) -> Tensor:
    return torch.complex(x, y)


def _mix(x: Tensor) -> Tensor:
    """Return FNet's mixing: the real part of a transform over two axes."""
    return fft.fft(fft.fft(x, dim=-1), dim=-2).real


def _filter(x: Tensor, weights: Tensor) -> Tensor:
    """Return a global filter: a product in the frequency domain."""
    spectrum = fft.rfft2(x, norm="ortho")
    return fft.irfft2(spectrum * torch.view_as_complex(weights), s=x.shape[-2:], norm="ortho")


def _spectrum(x: Tensor) -> Tensor:
    window = torch.hann_window(16)
    return torch.stft(x, 16, 8, window=window, return_complex=True).abs()


NUMBERS: tuple[Row, ...] = (
    learn("rotary embedding by polar", _rotate, QUERY),
    learn("complex, real, imag", lambda x, y: (_pair(x, y).real, _pair(x, y).imag), X, Y),
    learn("complex product", lambda x, y: torch.view_as_real(_pair(x, y) * _pair(y, x)), X, Y),
    learn("complex quotient", lambda x, y: torch.view_as_real(_pair(x, y) / _pair(y, x + 2)), X, Y),
    learn(
        "complex sum and scale", lambda x, y: torch.view_as_real((_pair(x, y) + x) * 2 - 1j), X, Y
    ),
    learn("complex abs", lambda x, y: _pair(x, y).abs(), X, Y),
    learn("complex angle", lambda x, y: _pair(x, y).angle(), X, Y),
    learn("complex conj", lambda x, y: torch.view_as_real(_pair(x, y).conj() * _pair(x, y)), X, Y),
    learn("complex exp", lambda x, y: torch.view_as_real(_pair(x, y).exp()), X, Y),
    learn("complex matmul", lambda x, y: torch.view_as_real(_pair(x, y) @ _pair(y, x).mT), X, Y),
    learn("complex sum", lambda x, y: torch.view_as_real(_pair(x, y).sum(1)), X, Y),
    learn("polar", lambda x, y: torch.view_as_real(torch.polar(x, y)), X + 2, Y),
)

TRANSFORMS: tuple[Row, ...] = (
    learn("fft", lambda x: torch.view_as_real(fft.fft(x)), X),
    learn("ifft", lambda x, y: torch.view_as_real(fft.ifft(_pair(x, y))), X, Y),
    learn("rfft", lambda x: torch.view_as_real(fft.rfft(x)), X),
    learn("irfft", lambda x, y: fft.irfft(_pair(x, y)[:, :5], 8), X, Y),
    learn("hfft", lambda x, y: fft.hfft(_pair(x, y)[:, :5], 8), X, Y),
    learn("fft2", lambda x: torch.view_as_real(fft.fft2(x)), EVEN),
    learn("rfftn and irfftn", lambda x: fft.irfftn(fft.rfftn(x) * 2, s=x.shape), EVEN),
    learn("fftshift", fft.fftshift, X),
    learn("FNet mixing", _mix, EVEN),
    learn("global filter", _filter, EVEN, ramp(6, 5, 2)),
    learn("convolution by rfft", lambda x, y: fft.irfft(fft.rfft(x) * fft.rfft(y), n=8), X, Y),
    learn("stft", _spectrum, SIGNAL),
)

ROWS = (*NUMBERS, *TRANSFORMS)
