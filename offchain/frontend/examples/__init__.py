"""Example programs: small versions of real models, and the real ones, on data that is at hand."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.examples import audio, language, mixture, translation, vision
from moot.offchain.frontend.recipe import Recipe
from moot.offchain.programs.catalogue import DIGIT_NAMES, NAMES, SIZES, TEXT_NAMES

_DIGITS: Mapping[str, tuple[Callable[..., Recipe], Mapping[str, Any]]] = {
    "mlp": (vision.build_mlp, vision.MLP_SIZES),
    "cnn": (vision.build_cnn, vision.CNN_SIZES),
    "resnet": (vision.build_resnet, vision.RESNET_SIZES),
    "mobilenet": (vision.build_mobilenet, vision.MOBILENET_SIZES),
    "vit": (vision.build_vit, vision.VIT_SIZES),
    "whisper": (audio.build_whisper, audio.WHISPER_SIZES),
}
_TEXT: Mapping[str, tuple[Callable[..., Recipe], Mapping[str, Any]]] = {
    "gpt2": (language.build_gpt2, language.GPT2_SIZES),
    "llama": (language.build_llama, language.LLAMA_SIZES),
    "bert": (language.build_bert, language.BERT_SIZES),
    "mixtral": (mixture.build_mixtral, mixture.MIXTRAL_SIZES),
    "t5": (translation.build_t5, translation.T5_SIZES),
}
assert (tuple(_DIGITS), tuple(_TEXT)) == (DIGIT_NAMES, TEXT_NAMES)


@standard_torch()
def build(
    name: str,
    size: str = "tiny",
    seed: int = 0,
    data: Path | None = None,
    *,
    inference: bool = False,
) -> Recipe:
    """Return an example's recipe, with weights drawn from the seed.

    Args:
        name: one of `NAMES`.
        size: one of `SIZES`.
        seed: of the weights, the batches and dropout.
        data: text that a language model learns from; the standard library's source by default.
        inference: one forward pass that returns the logits, instead of training.

    Raises:
        UsageError: there is no such example or size.
    """
    if name not in NAMES:
        raise UsageError.unknown("example", name, NAMES)
    if size not in SIZES:
        raise UsageError.unknown("size", size, SIZES)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name in _TEXT:
            make, sizes = _TEXT[name]
            return make(sizes[size], seed, data, inference=inference)
        if data is not None:
            raise UsageError(f"{name} learns from digits, not from a file; leave the data out")
        make, sizes = _DIGITS[name]
        return make(sizes[size], seed, inference=inference)
