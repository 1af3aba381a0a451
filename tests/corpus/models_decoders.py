"""Further decoders of the transformers library, and those that carry a state past each token."""

from dataclasses import replace
from typing import Any

from tests.corpus.models_kinds import Kind
from tests.corpus.models_language import EXPERTS, GROUPED, SHARED, SIZES, decoder

SPARSE = GROUPED | {"num_experts_per_tok": 2, "num_local_experts": 4}
SCANNED: dict[str, Any] = {"mamba_d_state": 4, "mamba_expand": 2}
DELTA: dict[str, Any] = {
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"],
}

DENSE = (
    decoder("smollm3", "SmolLM3", **GROUPED),
    decoder("olmo", "Olmo", **SIZES),
    decoder("olmo2", "Olmo2", **SIZES),
    decoder("olmo3", "Olmo3", **SIZES, sliding_window=4),
    decoder("stablelm", "StableLm", **SIZES, num_key_value_heads=1),
    decoder("starcoder2", "Starcoder2", **SIZES, num_key_value_heads=1),
    decoder("cohere", "Cohere", **SIZES, num_key_value_heads=1),
    decoder("cohere2", "Cohere2", **GROUPED, sliding_window=4),
    decoder("granite", "Granite", **SIZES, num_key_value_heads=1),
    decoder("glm", "Glm", **GROUPED),
)

SPARSELY = (
    decoder("phimoe", "Phimoe", **SPARSE),
    decoder("minimax", "MiniMax", **SPARSE, block_size=4),
    decoder("jetmoe", "JetMoe", "expert_size.tolist()", **SPARSE, kv_channels=8),
)

STATEFUL = (
    decoder("qwen3_next", "Qwen3Next", **EXPERTS, **DELTA, num_experts=4, moe_intermediate_size=8),
    decoder(
        "zamba2",
        "Zamba2",
        **SIZES,
        **SCANNED,
        layers_block_type=["mamba", "hybrid"],
        n_mamba_heads=4,
        mamba_headdim=8,
        adapter_rank=4,
        chunk_size=4,
    ),
    decoder(
        "recurrent_gemma",
        "RecurrentGemma",
        **SIZES,
        num_key_value_heads=1,
        lru_width=16,
        attention_window_size=4,
        block_types=["recurrent", "attention"],
    ),
    decoder(
        "bamba",
        "Bamba",
        **SIZES,
        **SCANNED,
        num_key_value_heads=1,
        attn_layer_indices=[1],
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_chunk_size=4,
    ),
)


def by_loops(name: str, head: str, **settings: Any) -> Kind:
    """Return a kind whose mixtures are loops over the experts that were chosen."""
    kind = decoder(name, head, **settings, experts_implementation="eager")
    return replace(kind, name=f"{name} by loops")


LOOPED = (
    by_loops("mixtral", "Mixtral", **EXPERTS, num_local_experts=4),
    by_loops("olmoe", "Olmoe", **EXPERTS, num_experts=4),
    by_loops("qwen2_moe", "Qwen2Moe", **SHARED),
)

KINDS: tuple[Kind, ...] = (*DENSE, *SPARSELY, *LOOPED, *STATEFUL)
