"""A classifier of spectrograms: the encoder of Whisper of the transformers library."""

from dataclasses import dataclass
from typing import Any

import torch

from moot.offchain.frontend.data import DIGIT_CLASSES, DIGIT_SIDE, digit_batches
from moot.offchain.frontend.examples.vision import classification_loss, classify
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import Batch, InferenceRecipe, Recipe, TrainingRecipe


@dataclass(frozen=True, slots=True)
class AudioSize:
    """Sizes of a classifier; `bands` and `frames` of a spectrogram are multiples of 8."""

    samples: int
    bands: int
    frames: int
    layers: int
    width: int
    heads: int
    inner: int


WHISPER_SIZES = {
    "tiny": AudioSize(samples=2, bands=8, frames=16, layers=2, width=16, heads=2, inner=32),
    "small": AudioSize(samples=4, bands=40, frames=128, layers=3, width=128, heads=4, inner=512),
    "full": AudioSize(samples=2, bands=80, frames=3000, layers=6, width=512, heads=8, inner=2048),
}


def spectrogram_batches(seed: int, size: AudioSize) -> Batch:
    """Return batches of spectrograms that show digits, and of their labels.

    Each is float32 (samples, bands, frames) in [0, 1] and INT64 (samples,) in [0, 10).
    """
    digits = digit_batches(seed, size.samples)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        images, labels = digits(step)
        high = images[:, 0].repeat_interleave(size.bands // DIGIT_SIDE, 1)
        return high.repeat_interleave(size.frames // DIGIT_SIDE, 2), labels

    return batch


def build_whisper(size: AudioSize, seed: int, *, inference: bool) -> Recipe:
    """Return the encoder of Whisper (Radford et al., arXiv 2212.04356) under a linear classifier.

    It learns by AdamW; its sinusoidal positions are frozen. Full is Whisper-base's encoder on 30
    seconds of sound.
    """
    from transformers import WhisperConfig, WhisperForAudioClassification  # noqa: PLC0415 - heavy and optional

    untyped: dict[str, Any] = {"num_labels": DIGIT_CLASSES, "attn_implementation": "eager"}
    config = WhisperConfig(
        num_mel_bins=size.bands,
        max_source_positions=size.frames // 2,
        d_model=size.width,
        encoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        encoder_ffn_dim=size.inner,
        dropout=0.1,
        **untyped,
    )
    model = WhisperForAudioClassification(config)
    batch = spectrogram_batches(seed, size)
    if inference:
        return InferenceRecipe(
            model.train(mode=False), classify, lambda step: batch(step)[:1], seed
        )
    optimizer = AdamW(learning_rate=3e-4)
    return TrainingRecipe(model.train(), classification_loss, optimizer, batch, seed)
