"""Training data that is at hand everywhere: the bytes of real text, and handwritten digits."""

import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moot.offchain.errors import UsageError

TEXT_MODULES = ("argparse", "ast", "dataclasses", "enum", "inspect", "typing")
"""Modules of Python's standard library whose source is the default text."""

IGNORED = -100
"""The label of a token that the loss skips."""

MASKED_SHARE = 0.15
"""The share of the tokens that a masked language model has to find."""

MASK_BYTE = 0
"""The token put over a masked byte; text does not contain it."""

DIGIT_SIDE = 8
"""Pixels along each side of a digit."""

DIGIT_CLASSES = 10

Batch = Callable[[int], tuple[torch.Tensor, ...]]


def make_generator(seed: int, step: int) -> np.random.Generator:
    """Return the generator of one step's draws; seed and step are its only inputs."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, step))))


def read_text(path: Path | None = None) -> NDArray[np.uint8]:
    """Return the bytes of a file, or of the standard library's modules when none is given."""
    return np.frombuffer(_read_library() if path is None else _read_file(path), np.uint8)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the data file {path}: {error.strerror}") from error


@cache
def _read_library() -> bytes:
    library = Path(sysconfig.get_path("stdlib"))
    return b"".join((library / f"{name}.py").read_bytes() for name in TEXT_MODULES)


def text_batches(seed: int, path: Path | None, samples: int, tokens: int) -> Batch:
    """Return batches of windows of text: INT64 tokens in [0, 256) of shape (samples, tokens)."""
    text = read_text(path)
    if len(text) < tokens:
        raise UsageError(f"{path} has {len(text)} bytes; a window needs {tokens}")

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        starts = make_generator(seed, step).integers(0, len(text) - tokens + 1, samples)
        windows = text[starts[:, None] + np.arange(tokens)]
        return (torch.from_numpy(windows.astype(np.int64)),)

    return batch


def masked_batches(seed: int, path: Path | None, samples: int, tokens: int) -> Batch:
    """Return batches of text with masked tokens, and labels that are `IGNORED` elsewhere."""
    whole = text_batches(seed, path, samples, tokens)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        (text,) = whole(step)
        draws = make_generator(seed, step).spawn(1)[0].random((samples, tokens))
        is_masked = torch.from_numpy(draws < MASKED_SHARE)
        is_masked[0, 0] = True  # a batch without any label has no loss
        return text.masked_fill(is_masked, MASK_BYTE), text.masked_fill(~is_masked, IGNORED)

    return batch


def digit_batches(
    seed: int, samples: int, *, channels: int = 1, scale: int = 1, held_out: int = 0
) -> Batch:
    """Return batches of digits, of all but the last ones that are held out.

    Each is float32 images in [0, 1] of shape (samples, channels, 8 * scale, 8 * scale), every pixel
    repeated, and INT64 labels in [0, 10) of shape (samples,).
    """
    count = len(_load_digits()[1]) - held_out

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        chosen = make_generator(seed, step).integers(0, count, samples)
        return _get_digits(chosen, channels, scale)

    return batch


def hold_out_digits(
    count: int, *, channels: int = 1, scale: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images and labels of the last `count` digits, as a batch has them."""
    return _get_digits(np.arange(len(_load_digits()[1]))[-count:], channels, scale)


def _get_digits(
    chosen: NDArray[np.int64], channels: int, scale: int
) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = _load_digits()
    pixels = images[chosen][:, None].repeat(channels, 1)
    large = pixels.repeat(scale, 2).repeat(scale, 3)
    return torch.from_numpy(large), torch.from_numpy(labels[chosen])


@cache
def _load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - a heavy import, of an optional dependency

    digits = load_digits()
    brightest = np.float32(digits.images.max())
    return digits.images.astype(np.float32) / brightest, digits.target.astype(np.int64)
