"""Further models of sound, of time series and of decisions of the transformers library."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import TOKENS, Inputs, Kind, build, mean_square, tokens
from tests.corpus.models_signals import _hear

SPEECH: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": 16,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_layers": 1,
    "decoder_ffn_dim": 24,
    "decoder_attention_heads": 2,
    "conv_dim": [8, 8],
    "conv_stride": [5, 4],
    "conv_kernel": [10, 4],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,
    "num_mel_bins": 8,
    "speech_decoder_prenet_units": 8,
    "speech_decoder_postnet_units": 8,
    "speaker_embedding_dim": 4,
    "decoder_start_token_id": 2,
    "pad_token_id": 1,
}


def _act(generator: torch.Generator) -> Inputs:
    """Return the states, actions and returns of games."""
    return {
        "states": torch.randn(2, 4, 3, generator=generator),
        "actions": torch.randn(2, 4, 2, generator=generator),
        "rewards": torch.randn(2, 4, 1, generator=generator),
        "returns_to_go": torch.randn(2, 4, 1, generator=generator),
        "timesteps": torch.arange(4).repeat(2, 1),
        "attention_mask": torch.ones(2, 4, dtype=torch.int64),
    }


def _speak(generator: torch.Generator) -> Inputs:
    return {
        "input_ids": tokens(generator),
        "labels": torch.randn(2, 8, 8, generator=generator),
    }


KINDS: tuple[Kind, ...] = (
    Kind(
        "speecht5-ForSpeechToText",
        partial(build, "speecht5", "SpeechT5ForSpeechToText", **SPEECH),
        _hear,
    ),
    Kind(
        "speecht5-ForTextToSpeech",
        partial(
            build, "speecht5", "SpeechT5ForTextToSpeech", **SPEECH, use_guided_attention_loss=False
        ),
        _speak,
    ),
    Kind(
        "timesfm",
        partial(
            build,
            "timesfm",
            "TimesFmModelForPrediction",
            patch_length=4,
            context_length=16,
            horizon_length=4,
            num_hidden_layers=1,
            hidden_size=16,
            intermediate_size=24,
            head_dim=8,
            num_attention_heads=2,
        ),
        lambda g: {
            "past_values": torch.randn(2, 16, generator=g),
            "freq": torch.zeros(2, dtype=torch.int64),
            "future_values": torch.randn(2, 4, generator=g),
        },
    ),
    Kind(
        "decision_transformer",
        partial(
            build,
            "decision_transformer",
            "DecisionTransformerModel",
            state_dim=3,
            act_dim=2,
            hidden_size=16,
            max_ep_len=8,
            n_layer=2,
            n_head=2,
        ),
        _act,
        lambda o: mean_square(o.action_preds) + mean_square(o.state_preds),
    ),
)
