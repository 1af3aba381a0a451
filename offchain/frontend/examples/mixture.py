"""A sparse mixture of experts: Mixtral of the transformers library, its experts computed densely.

Mixtral sends each token to the two experts that its router prefers. The library runs an expert on
the tokens that chose it, how many they are depends on data, and a program has fixed shapes. Here
every expert runs on every token, and its result counts with the weight of the token's route, 0
where the token did not choose it. Values and gradients are those of the sparse computation; the
work is that of all experts. (The library's own alternative, `batched_mm`, copies the weights of the
chosen experts for every token.)
"""

from pathlib import Path
from typing import Any

import torch

from moot.offchain.frontend.examples.language import (
    LanguageSize,
    get_llama_settings,
    make_text_recipe,
)
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import Recipe

DENSE = "moot_dense"
"""Name under which the library finds `run_experts_densely`."""

MIXTRAL_SIZES = {
    "tiny": LanguageSize(2, 16, 2, 32, heads=2, inner=32, experts=4),
    "small": LanguageSize(4, 64, 4, 128, heads=4, inner=256, key_heads=2, experts=8),
    # Mixtral 8x7B's shape (Jiang et al., arXiv 2401.04088) at an eighth of its width and depth: its
    # 47 billion parameters and their moments need half a terabyte.
    "full": LanguageSize(4, 256, 4, 512, 4, 1792, vocabulary=32000, key_heads=1, experts=8),
}


def run_experts_densely(
    experts: Any,
    hidden: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    """Return the experts' weighted sum.

    Args:
        experts: MixtralExperts; its weights are (experts, 2 * inner, width) and (experts, width,
            inner).
        hidden: float32 (tokens, width).
        chosen: INT64 (tokens, choices), the experts of each token.
        weights: float32 (tokens, choices), how much each of them counts.
    """
    everywhere = hidden.expand(experts.num_experts, *hidden.shape)
    gate, up = (everywhere @ experts.gate_up_proj.mT).chunk(2, -1)
    results = (experts.act_fn(gate) * up) @ experts.down_proj.mT
    routes = weights.new_zeros(len(hidden), experts.num_experts).scatter(1, chosen, weights)
    total: torch.Tensor = (results * routes.t()[..., None]).sum(0)
    return total


def build_mixtral(size: LanguageSize, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return Mixtral with two experts a token, learning by AdamW."""
    from transformers import MixtralConfig, MixtralForCausalLM  # noqa: PLC0415 - heavy and optional
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS  # noqa: PLC0415 - likewise

    ALL_EXPERTS_FUNCTIONS.register(DENSE, run_experts_densely)
    settings = get_llama_settings(size) | {"experts_implementation": DENSE}
    config = MixtralConfig(num_local_experts=size.experts, **settings)
    model = MixtralForCausalLM(config)
    return make_text_recipe(model, size, seed, data, AdamW(learning_rate=3e-4), inference=inference)
