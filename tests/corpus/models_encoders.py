"""Further encoders of the transformers library, its pairs of both, and their other heads."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import TOKENS, Inputs, Kind, build, mean_square, tokens
from tests.corpus.models_language import PAIR, SIZES, encoder, fill, pair, predict, translate

CLASSES = 3
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


def _choose(generator: torch.Generator) -> Inputs:
    """Return texts and their classes."""
    return {
        "input_ids": tokens(generator),
        "labels": torch.randint(CLASSES, (2,), generator=generator),
    }


def _tag(generator: torch.Generator) -> Inputs:
    """Return texts and the class of each token."""
    return {
        "input_ids": tokens(generator),
        "labels": torch.randint(CLASSES, (2, 6), generator=generator),
    }


def _answer(generator: torch.Generator) -> Inputs:
    """Return texts, and where the answers in them begin and end."""
    places = torch.randint(6, (2, 2), generator=generator)
    start, end = places.sort().values.unbind(1)
    return {"input_ids": tokens(generator), "start_positions": start, "end_positions": end}


def _place(generator: torch.Generator) -> Inputs:
    """Return texts, labels, and the boxes of the words on a page."""
    corners = torch.randint(16, (2, 6, 2), generator=generator)
    return {**fill(generator), "bbox": torch.cat([corners, corners + 4], -1)}


def _head(name: str, model: str, suffix: str, make_inputs: Any, **settings: Any) -> Kind:
    make = partial(build, name, f"{model}For{suffix}", **SIZES, **settings, num_labels=CLASSES)
    return Kind(f"{name}-{suffix}", make, make_inputs)


ENCODERS = (
    encoder("camembert", "Camembert", **SIZES),
    encoder("roberta-prelayernorm", "RobertaPreLayerNorm", **SIZES),
    encoder("xlm-roberta-xl", "XLMRobertaXL", **SIZES),
    encoder("data2vec-text", "Data2VecText", **SIZES),
    encoder("ernie", "Ernie", **SIZES),
    encoder("megatron-bert", "MegatronBert", **SIZES),
    encoder("rembert", "RemBert", **SIZES, input_embedding_size=8, output_embedding_size=8),
    encoder("roformer", "RoFormer", **SIZES, embedding_size=16),
    encoder("mobilebert", "MobileBert", **SIZES, embedding_size=16, intra_bottleneck_size=16),
    encoder("squeezebert", "SqueezeBert", **SIZES, embedding_size=16),
    encoder("convbert", "ConvBert", **SIZES, embedding_size=16, head_ratio=1, conv_kernel_size=3),
    encoder("fnet", "FNet", **SIZES),
    Kind(
        "nystromformer",
        partial(
            build,
            "nystromformer",
            "NystromformerForMaskedLM",
            **SIZES,
            num_landmarks=3,
            segment_means_seq_len=6,
            conv_kernel_size=3,
        ),
        predict,
    ),
    encoder("esm", "Esm", **SIZES, mask_token_id=3),
    encoder("ibert", "IBert", **SIZES),
    Kind("xlm", partial(build, "xlm", "XLMWithLMHeadModel", **SIZES), fill),
    encoder("nomic_bert", "NomicBert", **SIZES),
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
    encoder("big_bird", "BigBird", 24, "", **SIZES, attention_type="original_full"),
    Kind(
        "layoutlm",
        partial(build, "layoutlm", "LayoutLMForMaskedLM", **SIZES, max_2d_position_embeddings=32),
        _place,
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
    ),
    Kind(
        "perceiver",
        partial(
            build,
            "perceiver",
            "PerceiverForMaskedLM",
            vocab_size=TOKENS,
            num_latents=4,
            d_latents=8,
            d_model=16,
            num_self_attends_per_block=1,
            num_self_attention_heads=2,
            num_cross_attention_heads=2,
            max_position_embeddings=6,
            qk_channels=8,
            v_channels=8,
        ),
        fill,
    ),
    Kind(
        "canine",
        partial(
            build,
            "canine",
            "CanineForSequenceClassification",
            **SIZES,
            num_labels=3,
            downsampling_rate=2,
            local_transformer_stride=4,
            upsampling_kernel_size=2,
            num_hash_buckets=8,
            num_hash_functions=2,
        ),
        partial(_choose),
    ),
)

HEADS = (
    _head("bert", "Bert", "SequenceClassification", _choose),
    _head("bert", "Bert", "TokenClassification", _tag),
    Kind(
        "bert-QuestionAnswering",
        partial(build, "bert", "BertForQuestionAnswering", **SIZES),
        _answer,
    ),
    _head("gpt2", "GPT2", "SequenceClassification", _choose),
    _head("llama", "Llama", "SequenceClassification", _choose, num_key_value_heads=1),
    Kind(
        "bert-Model",
        partial(build, "bert", "BertModel", **SIZES),
        lambda g: {"input_ids": tokens(g)},
        lambda o: mean_square(o.last_hidden_state) + mean_square(o.pooler_output),
    ),
)

PAIRS = (
    pair("mt5", "MT5", **T5),
    pair("umt5", "UMT5", **T5),
    pair(
        "switch_transformers",
        "SwitchTransformers",
        **T5,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        num_experts=2,
    ),
    pair("longt5", "LongT5", **T5, local_radius=3),
    pair("mbart", "MBart", **PAIR),
    pair("plbart", "PLBart", **PAIR),
    pair("blenderbot", "Blenderbot", **PAIR),
    pair("blenderbot-small", "BlenderbotSmall", **PAIR),
    pair("bigbird_pegasus", "BigBirdPegasus", **PAIR, attention_type="original_full"),
    pair("pegasus_x", "PegasusX", **PAIR, block_size=2, num_global_tokens=2),
    pair("nllb-moe", "NllbMoe", **PAIR, num_experts=4, expert_capacity=8),
    pair(
        "prophetnet",
        "ProphetNet",
        **{k: v for k, v in SIZES.items() if "hidden_layers" not in k},
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=2,
        num_decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        decoder_start_token_id=0,
    ),
    Kind("marian", partial(build, "marian", "MarianMTModel", **PAIR), translate),
    Kind(
        "fsmt",
        partial(
            build,
            "fsmt",
            "FSMTForConditionalGeneration",
            **PAIR,
            is_encoder_decoder=True,
            langs=["en", "de"],
            src_vocab_size=TOKENS,
            tgt_vocab_size=TOKENS,
        ),
        fill,
    ),
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
    pair(
        "t5gemma",
        "T5Gemma",
        vocab_size=TOKENS,
        encoder={**SIZES, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4},
        decoder={
            **SIZES,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "sliding_window": 4,
            "is_decoder": True,
        },
    ),
)

KINDS: tuple[Kind, ...] = (*ENCODERS, *HEADS, *PAIRS)
