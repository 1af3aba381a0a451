"""Language models of the transformers library: decoders, encoders, and pairs of both."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import TOKENS, Inputs, Kind, build, tokens

SIZES: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 8}
EXPERTS = GROUPED | {"num_experts_per_tok": 2, "output_router_logits": True}
SHARED = SIZES | {
    "num_key_value_heads": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
}
PAIR: dict[str, Any] = {
    "vocab_size": TOKENS,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": 1,
}


def predict(generator: torch.Generator) -> Inputs:
    """Return tokens whose next ones are to be predicted."""
    drawn = tokens(generator)
    return {"input_ids": drawn, "labels": drawn}


def fill(generator: torch.Generator, length: int = 6) -> Inputs:
    """Return tokens, the last of a sample hidden by the mask, and labels of some of them."""
    drawn = tokens(generator, length)
    mask = torch.ones_like(drawn)
    mask[0, -1] = 0
    labels = drawn.clone()
    labels[:, ::2] = -100
    return {"input_ids": drawn, "attention_mask": mask, "labels": labels}


def translate(generator: torch.Generator) -> Inputs:
    """Return source and target tokens."""
    return {"input_ids": tokens(generator), "labels": tokens(generator, 5)}


def decoder(name: str, head: str, refusal: str = "", **settings: Any) -> Kind:
    """Return a kind that predicts the next token."""
    make = partial(build, name, f"{head}ForCausalLM", **settings)
    return Kind(name, make, predict, refusal=refusal)


def encoder(name: str, head: str, length: int = 6, refusal: str = "", **settings: Any) -> Kind:
    """Return a kind that finds masked tokens."""
    make = partial(build, name, f"{head}ForMaskedLM", **settings)
    return Kind(name, make, partial(fill, length=length), refusal=refusal)


def pair(name: str, head: str, **settings: Any) -> Kind:
    """Return a kind that translates."""
    make = partial(build, name, f"{head}ForConditionalGeneration", **settings)
    return Kind(name, make, translate)


DECODERS = (
    Kind("gpt2", partial(build, "gpt2", "GPT2LMHeadModel", **SIZES), predict),
    decoder("llama", "Llama", **GROUPED),
    decoder("mistral", "Mistral", **GROUPED, sliding_window=4),
    decoder("mixtral", "Mixtral", **EXPERTS, num_local_experts=4),
    decoder("qwen2", "Qwen2", **SIZES, num_key_value_heads=1),
    decoder("qwen3", "Qwen3", **GROUPED),
    decoder("qwen2_moe", "Qwen2Moe", **SHARED),
    decoder("qwen3_moe", "Qwen3Moe", **EXPERTS, num_experts=4, moe_intermediate_size=8),
    decoder("gemma", "Gemma", **GROUPED),
    decoder("gemma2", "Gemma2", **GROUPED, sliding_window=4, query_pre_attn_scalar=8),
    decoder("gemma3_text", "Gemma3", **GROUPED, sliding_window=4, query_pre_attn_scalar=8),
    decoder("phi", "Phi", **SIZES),
    decoder("phi3", "Phi3", **SIZES, num_key_value_heads=1),
    decoder("falcon", "Falcon", **SIZES),
    decoder("opt", "OPT", **SIZES, ffn_dim=24, word_embed_proj_dim=16),
    decoder("bloom", "Bloom", **SIZES, n_layer=2, n_head=2),
    decoder("gpt_neox", "GPTNeoX", **SIZES),
    decoder("gptj", "GPTJ", **SIZES, rotary_dim=4),
    decoder(
        "gpt_neo",
        "GPTNeo",
        **SIZES,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    decoder("olmoe", "Olmoe", **EXPERTS, num_experts=4),
    decoder(
        "deepseek_v3",
        "DeepseekV3",
        **SIZES,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
    ),
    decoder("gpt_oss", "GptOss", **EXPERTS, num_local_experts=4, sliding_window=4),
    decoder(
        "llama4_text",
        "Llama4",
        **GROUPED,
        num_local_experts=4,
        num_experts_per_tok=1,
        intermediate_size_mlp=24,
        interleave_moe_layer_step=2,
        attention_chunk_size=4,
    ),
    decoder("mamba", "Mamba", **SIZES, state_size=4, time_step_rank=2),
    decoder(
        "mamba2",
        "Mamba2",
        **SIZES,
        state_size=4,
        num_heads=4,
        head_dim=8,
        n_groups=1,
        chunk_size=4,
    ),
    decoder("rwkv", "Rwkv", **SIZES, attention_hidden_size=16, context_length=16),
)

ENCODERS = (
    encoder("bert", "Bert", **SIZES),
    encoder("roberta", "Roberta", **SIZES),
    encoder(
        "deberta",
        "Deberta",
        **SIZES,
        relative_attention=True,
        max_relative_positions=8,
        pos_att_type=["c2p", "p2c"],
    ),
    encoder(
        "deberta-v2",
        "DebertaV2",
        **SIZES,
        relative_attention=True,
        position_buckets=4,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
    ),
    encoder("albert", "Albert", **SIZES, embedding_size=8),
    encoder("electra", "Electra", **SIZES, embedding_size=8),
    encoder("distilbert", "DistilBert", **SIZES, hidden_dim=24),
    encoder("xlm-roberta", "XLMRoberta", **SIZES),
    encoder("longformer", "Longformer", 8, "would depend on data", **SIZES, attention_window=4),
    encoder(
        "big_bird",
        "BigBird",
        24,
        **SIZES,
        attention_type="block_sparse",
        block_size=2,
        num_random_blocks=1,
        refusal="numpy's random",  # it draws the blocks that see each other anew in every step
    ),
    encoder("modernbert", "ModernBert", **SIZES, local_attention=4, global_attn_every_n_layers=2),
    encoder("mpnet", "MPNet", **SIZES),
)

PAIRS = (
    pair(
        "t5",
        "T5",
        vocab_size=TOKENS,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
    ),
    pair("bart", "Bart", **PAIR),
    pair("pegasus", "Pegasus", **PAIR),
    pair("m2m_100", "M2M100", **PAIR),
)

KINDS = (*DECODERS, *ENCODERS, *PAIRS)
