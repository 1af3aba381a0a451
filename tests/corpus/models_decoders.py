"""Further decoders of the transformers library, and those that carry a state past each token."""

from typing import Any

from tests.corpus.models_kinds import Kind
from tests.corpus.models_language import EXPERTS, GROUPED, SIZES, decoder

SPARSE = GROUPED | {"num_experts_per_tok": 2, "num_local_experts": 4}
LATENT: dict[str, Any] = {
    "moe_intermediate_size": 8,
    "num_key_value_heads": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
}
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
    decoder("glm4", "Glm4", **GROUPED),
    decoder("nemotron", "Nemotron", **GROUPED),
    decoder("persimmon", "Persimmon", **SIZES),
    decoder("helium", "Helium", **GROUPED),
    decoder("exaone4", "Exaone4", **GROUPED, sliding_window=4),
    decoder("ernie4_5", "Ernie4_5", **GROUPED),
    decoder("diffllama", "DiffLlama", **SIZES, num_key_value_heads=2),
    decoder("mpt", "Mpt", **SIZES, n_heads=2, n_layers=2, max_seq_len=32),
    decoder("gpt_bigcode", "GPTBigCode", **SIZES),
    decoder("codegen", "CodeGen", **SIZES | {"num_attention_heads": 4}, rotary_dim=4, n_ctx=32),
    decoder("biogpt", "BioGpt", **SIZES),
    decoder("xglm", "XGLM", **SIZES, d_model=16, num_layers=2, attention_heads=2, ffn_dim=24),
)

SPARSELY = (
    decoder("granitemoe", "GraniteMoe", **SPARSE),
    decoder("phimoe", "Phimoe", **SPARSE),
    decoder("minimax", "MiniMax", **SPARSE, block_size=4),
    decoder("glm4_moe", "Glm4Moe", **SIZES, **LATENT, n_shared_experts=1),
    decoder("dots1", "Dots1", **SIZES, **LATENT, n_group=1, topk_group=1, n_shared_experts=1),
    decoder("ernie4_5_moe", "Ernie4_5_Moe", **GROUPED, moe_num_experts=4, moe_k=2),
    decoder("flex_olmo", "FlexOlmo", **EXPERTS, num_experts=4),
    decoder("jetmoe", "JetMoe", **SPARSE, kv_channels=8),
    decoder("deepseek_v2", "DeepseekV2", **SIZES, **LATENT, n_shared_experts=1),
)

STATEFUL = (
    decoder("qwen3_next", "Qwen3Next", **EXPERTS, **DELTA, num_experts=4, moe_intermediate_size=8),
    decoder("qwen3_5_text", "Qwen3_5", **GROUPED, **DELTA),
    decoder("falcon_mamba", "FalconMamba", **SIZES, state_size=4, time_step_rank=2),
    decoder(
        "jamba",
        "Jamba",
        **EXPERTS,
        **SCANNED,
        num_experts=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_dt_rank=2,
    ),
    decoder(
        "zamba",
        "Zamba",
        **SIZES,
        **SCANNED,
        num_key_value_heads=2,
        layers_block_type=["hybrid", "hybrid"],
        n_mamba_heads=2,
        mamba_dt_rank=2,
    ),
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
    decoder(
        "falcon_h1",
        "FalconH1",
        **GROUPED,
        **SCANNED,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_ssm=32,
        mamba_chunk_size=4,
    ),
    decoder("lfm2", "Lfm2", **SIZES, num_key_value_heads=1, layer_types=["conv", "full_attention"]),
    decoder("xlstm", "xLSTM", **SIZES | {"hidden_size": 128}, num_heads=2, chunk_size=3),
)

KINDS: tuple[Kind, ...] = (*DENSE, *SPARSELY, *STATEFUL)
