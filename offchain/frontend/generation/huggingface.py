"""The transformers library's causal language models, to be decoded a token a step."""

from typing import Any

import torch
from torch import Tensor, nn

from moot.offchain.errors import UsageError
from moot.offchain.frontend.generation.cache import Cache, Layers, PrefillCache, StepCache
from moot.offchain.frontend.quantization import unrounded

PROBE = 3
"""Tokens on which a model is tried."""

ELSE = "write a module that calls it as offchain/frontend/generation/cache.py says"


class CausalModel(nn.Module):
    """Calls a model of the transformers library as `cache` says.

    Models whose layers all attend to everything before them (GPT-2, Llama and their like) keep the
    promise that `cache` asks for. Others are refused: by their configuration, or because on a few
    tokens they do not say the same as when they are called in the library's own way.

    Args:
        model: a causal language model, in its evaluation mode.

    Raises:
        UsageError: the model is in training mode, or of another kind.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.limit = require_causal(model)
        self.eval()
        self.model = model
        config: Any = model.config
        with unrounded(model):
            self._check(torch.arange(PROBE).remainder(config.vocab_size).unsqueeze(0))

    def forward(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Return the logits of each token."""
        length = cache.mask.shape[-1]
        if self.limit and length > self.limit:
            raise UsageError(
                f"a text of {length} tokens is longer than the {self.limit} that the model sees; "
                "generate fewer"
            )
        lowest = torch.finfo(torch.float32).min
        hidden = torch.zeros(cache.mask.shape).masked_fill(~cache.mask, lowest)
        logits: Tensor = self.model(
            input_ids=tokens,
            attention_mask=hidden.expand(len(tokens), 1, *hidden.shape),
            position_ids=cache.positions.unsqueeze(0),
            past_key_values=_Adapter(cache),
            use_cache=True,
        ).logits
        return logits

    @torch.no_grad()
    def _check(self, tokens: Tensor) -> None:
        """Compare one pass and single steps with the library's own call."""
        expected = self.model(input_ids=tokens, use_cache=False).logits
        whole = PrefillCache(PROBE)
        try:
            found = [self(tokens, whole)]
            layers: Layers = {n: (0 * k, 0 * v) for n, (k, v) in whole.layers.items()}
            for position in torch.arange(PROBE):
                step = StepCache(layers, position, PROBE)
                found.append(self(tokens[:, position, None], step))
                layers = step.layers
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"the model asks for more than its cache: {error}; {ELSE}") from error
        steps = torch.cat(found[1:], 1)
        if not all(torch.allclose(x, expected, 1e-3, 1e-4) for x in (found[0], steps)):
            raise UsageError(f"the model needs more than tokens, positions and a mask; {ELSE}")


def require_causal(model: nn.Module) -> int | None:
    """Return how many tokens a model sees at most, None if it does not say.

    Raises:
        UsageError: the model is in training mode, or not all layers attend to all that is before.
    """
    if model.training:
        raise UsageError("the model is in training mode; call model.eval() before generating")
    config: Any = model.config
    if set(getattr(config, "layer_types", None) or ()) - {"full_attention"}:
        raise UsageError(f"some layers do not attend to everything before them; {ELSE}")
    sizes = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    return min((size for size in sizes if size), default=None)


class _Adapter:
    """The part of a transformers cache that models call when they are given their masks."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values at all positions."""
        return self._cache.extend(layer_idx, key_states, value_states)
