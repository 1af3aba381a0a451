"""Language models of bytes: GPT-2, Llama and BERT of the transformers library, never downloaded."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from moot.offchain.frontend.data import IGNORED, masked_batches, text_batches
from moot.offchain.frontend.optimizers import Adam, AdamW, Optimizer
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe

BYTE_VALUES = 256


@dataclass(frozen=True, slots=True)
class LanguageSize:
    """Sizes of a language model and its batches."""

    samples: int
    tokens: int
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int = BYTE_VALUES
    key_heads: int = 1
    experts: int = 0


_TINY = LanguageSize(samples=2, tokens=16, layers=2, width=32, heads=2, inner=64)
_SMALL = LanguageSize(samples=4, tokens=64, layers=4, width=128, heads=4, inner=512, key_heads=2)

GPT2_SIZES = {
    "tiny": _TINY,
    "small": _SMALL,
    "full": LanguageSize(4, 256, 12, 768, 12, 3072, vocabulary=50257),
}
LLAMA_SIZES = {
    "tiny": _TINY,
    "small": _SMALL,
    # 110 million parameters: GPT-2's shape, the vocabulary and the layers of Llama.
    "full": LanguageSize(4, 256, 12, 768, 12, 2432, vocabulary=32000, key_heads=4),
}
BERT_SIZES = {
    "tiny": _TINY,
    "small": _SMALL,
    "full": LanguageSize(8, 128, 12, 768, 12, 3072, vocabulary=30522),
}


def predict(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of each token, (samples, tokens, vocabulary)."""
    logits: torch.Tensor = model(tokens).logits
    return logits


def causal_loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of every token but the first, given those before it."""
    logits = predict(model, tokens)[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def masked_loss(model: torch.nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the masked tokens."""
    logits = predict(model, tokens).flatten(0, 1)
    return functional.cross_entropy(logits, labels.flatten(), ignore_index=IGNORED)


def make_text_recipe(
    model: torch.nn.Module,
    size: LanguageSize,
    seed: int,
    data: Path | None,
    optimizer: Optimizer,
    *,
    inference: bool,
    is_masked: bool = False,
) -> Recipe:
    """Return the recipe of a model that predicts tokens: the next ones, or those masked."""
    if inference:
        batch = text_batches(seed, data, size.samples, size.tokens)
        return InferenceRecipe(model.train(mode=False), predict, batch, seed)
    make_batches = masked_batches if is_masked else text_batches
    loss: Callable[..., torch.Tensor] = masked_loss if is_masked else causal_loss
    batch = make_batches(seed, data, size.samples, size.tokens)
    return TrainingRecipe(model.train(), loss, optimizer, batch, seed)


COMMON: dict[str, Any] = {
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "attn_implementation": "eager",
}
"""Settings of every model: no special tokens, and attention that is written out."""


def build_gpt2(size: LanguageSize, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return GPT-2 with its own dropout, learning by AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415 - heavy and optional

    config = GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=max(size.tokens, 1024) if size.vocabulary > BYTE_VALUES else size.tokens,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.inner,
        use_cache=False,
        **COMMON,
    )
    model = GPT2LMHeadModel(config)
    return make_text_recipe(model, size, seed, data, AdamW(learning_rate=3e-4), inference=inference)


def get_llama_settings(size: LanguageSize) -> dict[str, Any]:
    """Return the settings that Llama shares with the models that are built like it."""
    return {
        "vocab_size": size.vocabulary,
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.key_heads,
        "max_position_embeddings": size.tokens,
        "use_cache": False,
        **COMMON,
    }


def build_llama(size: LanguageSize, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return Llama with grouped queries, learning by AdamW."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - heavy and optional

    is_tied = size.vocabulary > BYTE_VALUES
    config = LlamaConfig(tie_word_embeddings=is_tied, **get_llama_settings(size))
    model = LlamaForCausalLM(config)
    return make_text_recipe(model, size, seed, data, AdamW(learning_rate=3e-4), inference=inference)


def build_bert(size: LanguageSize, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return BERT that finds masked tokens, learning by Adam."""
    from transformers import BertConfig, BertForMaskedLM  # noqa: PLC0415 - heavy and optional

    config = BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        max_position_embeddings=max(size.tokens, 512)
        if size.vocabulary > BYTE_VALUES
        else size.tokens,
        **COMMON | {"pad_token_id": 0},
    )
    model = BertForMaskedLM(config)
    optimizer = Adam(learning_rate=1e-4)
    return make_text_recipe(model, size, seed, data, optimizer, inference=inference, is_masked=True)
