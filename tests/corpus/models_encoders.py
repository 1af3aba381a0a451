"""Further encoders of the transformers library, and pairs of encoders and decoders."""

from functools import partial
from typing import Any

from tests.corpus.models_kinds import TOKENS, Kind, build
from tests.corpus.models_language import PAIR, SIZES, encoder, fill, pair, predict, translate

T5: dict[str, Any] = {
    "vocab_size": TOKENS,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}


ENCODERS = (
    encoder("fnet", "FNet", **SIZES),
    encoder(
        "funnel",
        "Funnel",
        vocab_size=TOKENS,
        d_model=16,
        n_head=2,
        d_head=8,
        d_inner=24,
        block_sizes=[1, 1],
    ),
    Kind(
        "xlnet",
        partial(
            build,
            "xlnet",
            "XLNetLMHeadModel",
            vocab_size=TOKENS,
            d_model=16,
            n_layer=2,
            n_head=2,
            d_inner=24,
        ),
        predict,
    ),
    Kind(
        "reformer",
        partial(
            build,
            "reformer",
            "ReformerModelWithLMHead",
            **SIZES,
            is_decoder=True,
            attn_layers=["local", "lsh"],
            feed_forward_size=24,
            attention_head_size=8,
            axial_pos_shape=[2, 4],
            axial_pos_embds_dim=[8, 8],
            local_attn_chunk_length=4,
            lsh_attn_chunk_length=4,
            num_buckets=2,
        ),
        partial(fill, length=8),
        refusal="would depend on data",
    ),
)

PAIRS = (
    pair("longt5", "LongT5", **T5, local_radius=3),
    pair("nllb-moe", "NllbMoe", **PAIR, num_experts=4, expert_capacity=8),
    Kind(
        "led",
        partial(
            build,
            "led",
            "LEDForConditionalGeneration",
            **PAIR,
            attention_window=4,
            max_encoder_position_embeddings=32,
            max_decoder_position_embeddings=32,
        ),
        translate,
    ),
)

KINDS: tuple[Kind, ...] = (*ENCODERS, *PAIRS)
