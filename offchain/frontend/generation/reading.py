"""Reader: a causal model of the transformers library whose attention sums in order."""

from typing import Any

import torch
from torch import Tensor, nn

from moot.offchain.errors import UsageError
from moot.offchain.frontend.generation.attention import Asked, Attending, ChunkCache
from moot.offchain.frontend.generation.huggingface import ELSE, PROBE, require_causal
from moot.offchain.frontend.quantization import unrounded

_NAME = "moot_in_order"
"""The name under which the library finds the attention."""

_FOREIGN = ("softcap", "s_aux", "head_mask", "position_bias")
"""What some models hand to attention that it does not know."""

_caches: list[Attending] = []
"""The caches of the calls that are going on, the innermost last."""


class Reader(nn.Module):
    """Calls a causal model with a cache of `attention`.

    Models are those of `CausalModel`: whose layers all attend to everything before them.

    Args:
        model: a causal language model, in its evaluation mode; its attention is replaced.

    Attributes:
        limit: the tokens that it sees at most, None if it does not say.
        vocabulary: how many tokens there are.
        heads: the shape (key heads, width) of each layer's keys, by the layer's number.

    Raises:
        UsageError: the model is in training mode, or of another kind.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.limit = require_causal(model)
        self.eval()
        self.model = model
        config: Any = model.config
        self.vocabulary = int(config.get_text_config().vocab_size)
        tokens = torch.arange(PROBE).remainder(self.vocabulary).unsqueeze(0)
        with torch.no_grad(), unrounded(model):
            expected = self._get_model()(input_ids=tokens, use_cache=False).logits
            _register()
            self._get_model().set_attn_implementation(_NAME)
            self.heads = self._check(tokens, expected)

    def forward(self, tokens: Tensor, cache: Attending) -> Tensor:
        """Return logits (texts, T, vocabulary)."""
        _caches.append(cache)
        try:
            logits: Tensor = self._get_model()(
                input_ids=tokens,
                attention_mask=torch.zeros(len(tokens), 1, tokens.shape[1], 1),
                position_ids=cache.positions,
                past_key_values=_Adapter(),
                use_cache=True,
            ).logits
        finally:
            _caches.pop()
        return logits

    def _get_model(self) -> Any:
        return self.model

    def _check(self, tokens: Tensor, expected: Tensor) -> dict[int, tuple[int, int]]:
        """Compare a pass with the library's own call, and return the shapes of keys."""
        cache = ChunkCache({}, torch.zeros(1, dtype=torch.int64), PROBE)
        try:
            found = self(tokens, cache)
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"the model asks for more than its cache: {error}; {ELSE}") from error
        if not cache.layers or not torch.allclose(found, expected, 1e-3, 1e-4):
            raise UsageError(f"the model needs more than tokens, positions and a mask; {ELSE}")
        shapes = {layer: keys.shape for layer, (keys, _) in cache.layers.items()}
        return {layer: (shape[1], shape[3]) for layer, shape in sorted(shapes.items())}


class _Adapter:
    """The part of a transformers cache that models call: keys and values go on to attention."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        """Return both as they are."""
        return key_states, value_states


def _register() -> None:
    from transformers import AttentionInterface  # noqa: PLC0415 - heavy and optional

    AttentionInterface.register(_NAME, _attend)


def _attend(
    module: Any,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    _mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Return what the innermost call's cache lets a layer see, as the library calls attention."""
    foreign = [name for name in _FOREIGN if more.get(name) is not None]
    if foreign:
        raise ValueError(f"attention has {foreign[0]}")
    scale = queries.shape[-1] ** -0.5 if scaling is None else float(scaling)
    return _caches[-1].attend(module.layer_idx, Asked(queries, keys, values, scale)), None
