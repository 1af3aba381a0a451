"""An encoder-decoder that continues text: T5 of the transformers library, never downloaded."""

from pathlib import Path

import torch

from moot.offchain.frontend.data import text_batches
from moot.offchain.frontend.examples.language import COMMON, LanguageSize
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe

START = 0
"""The token before the decoder's first one; text does not contain it."""


T5_SIZES = {
    "tiny": LanguageSize(samples=2, tokens=12, layers=1, width=32, heads=2, inner=64),
    "small": LanguageSize(samples=4, tokens=48, layers=3, width=128, heads=4, inner=512),
    "full": LanguageSize(4, 128, 12, 768, 12, 3072, vocabulary=32128),
}
"""Of each size, `tokens` are read and as many are written."""


def predict_continuation(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of the second half of the tokens, (samples, tokens, vocabulary).

    Each is told the first half, and those of the second half that come before it.
    """
    source, target = tokens.chunk(2, 1)
    before = torch.nn.functional.pad(target[:, :-1], (1, 0), value=START)
    logits: torch.Tensor = model(input_ids=source, decoder_input_ids=before).logits
    return logits


def continuation_loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the second half of the tokens, as the model defines it."""
    source, target = tokens.chunk(2, 1)
    loss: torch.Tensor = model(input_ids=source, labels=target.contiguous()).loss
    return loss


def build_t5(size: LanguageSize, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return T5 (Raffel et al., arXiv 1910.10683), learning by AdamW; full is T5-base."""
    from transformers import T5Config, T5ForConditionalGeneration  # noqa: PLC0415 - heavy and optional

    config = T5Config(
        vocab_size=size.vocabulary,
        d_model=size.width,
        d_kv=size.width // size.heads,
        d_ff=size.inner,
        num_layers=size.layers,
        num_heads=size.heads,
        use_cache=False,
        **COMMON | {"pad_token_id": START, "decoder_start_token_id": START},
    )
    model = T5ForConditionalGeneration(config)
    batch = text_batches(seed, data, size.samples, 2 * size.tokens)
    if inference:
        return InferenceRecipe(model.train(mode=False), predict_continuation, batch, seed)
    optimizer = AdamW(learning_rate=3e-4)
    return TrainingRecipe(model.train(), continuation_loss, optimizer, batch, seed)
