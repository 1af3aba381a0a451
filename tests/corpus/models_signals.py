"""Models of sound and of time series of the transformers library."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import TOKENS, Inputs, Kind, build, tokens

TRANSFORMER: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
WAVE = TRANSFORMER | {
    "vocab_size": TOKENS,
    "conv_dim": [8, 8],
    "conv_stride": [5, 4],
    "conv_kernel": [10, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,  # its masks come from numpy's own generator
}
WHISPER: dict[str, Any] = {
    "vocab_size": TOKENS,
    "num_mel_bins": 8,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_source_positions": 8,
    "max_target_positions": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "decoder_start_token_id": 0,
    "begin_suppress_tokens": None,
}
SERIES: dict[str, Any] = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 1,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
}
PAST = 10


def _hear(generator: torch.Generator) -> Inputs:
    return {
        "input_values": torch.randn(2, 200, generator=generator),
        "labels": tokens(generator, 3),
    }


def _recognize(generator: torch.Generator) -> Inputs:
    return {
        "input_values": torch.randn(2, 200, generator=generator),
        "labels": torch.randint(3, (2,), generator=generator),
    }


def _listener(name: str, head: str) -> Kind:
    make = partial(build, name, f"{head}ForSequenceClassification", **WAVE, num_labels=3)
    return Kind(name, make, _recognize)


def _aligner(name: str, head: str) -> Kind:
    """Return a kind whose labels have no places, but an order (CTC)."""
    return Kind(f"{name}-ctc", partial(build, name, f"{head}ForCTC", **WAVE), _hear)


def _transcribe(generator: torch.Generator) -> Inputs:
    return {
        "input_features": torch.randn(2, 8, 16, generator=generator),
        "labels": tokens(generator, 5),
    }


def _tag(generator: torch.Generator) -> Inputs:
    return {
        "input_values": torch.randn(2, 32, 16, generator=generator),
        "labels": torch.randint(3, (2,), generator=generator),
    }


def _forecast(generator: torch.Generator) -> Inputs:
    return {
        "past_values": torch.rand(2, PAST, generator=generator) + 1,
        "past_time_features": torch.randn(2, PAST, 1, generator=generator),
        "past_observed_mask": torch.ones(2, PAST),
        "future_values": torch.rand(2, 4, generator=generator) + 1,
        "future_time_features": torch.randn(2, 4, 1, generator=generator),
    }


def _forecast_patches(generator: torch.Generator) -> Inputs:
    return {
        "past_values": torch.randn(2, 8, 2, generator=generator),
        "future_values": torch.randn(2, 4, 2, generator=generator),
    }


def _series(name: str, head: str, refusal: str = "", **settings: Any) -> Kind:
    make = partial(build, name, f"{head}ForPrediction", **SERIES, **settings)
    return Kind(name, make, _forecast, refusal=refusal)


KINDS = (
    Kind(
        "whisper",
        partial(build, "whisper", "WhisperForConditionalGeneration", **WHISPER),
        _transcribe,
    ),
    _listener("wav2vec2", "Wav2Vec2"),
    _listener("hubert", "Hubert"),
    _aligner("wav2vec2", "Wav2Vec2"),
    _aligner("hubert", "Hubert"),
    _aligner("wavlm", "WavLM"),
    _aligner("data2vec-audio", "Data2VecAudio"),
    Kind(
        "audio-spectrogram-transformer",
        partial(
            build,
            "audio-spectrogram-transformer",
            "ASTForAudioClassification",
            **TRANSFORMER,
            num_labels=3,
            patch_size=8,
            frequency_stride=8,
            time_stride=8,
            max_length=32,
            num_mel_bins=16,
        ),
        _tag,
    ),
    _series("time_series_transformer", "TimeSeriesTransformer"),
    _series("informer", "Informer"),
    _series("autoformer", "Autoformer", "top_k_delays_index", moving_average=3, label_length=4),
    Kind(
        "patchtst",
        partial(
            build,
            "patchtst",
            "PatchTSTForPrediction",
            num_input_channels=2,
            context_length=8,
            patch_length=2,
            patch_stride=2,
            num_hidden_layers=1,
            d_model=16,
            num_attention_heads=2,
            ffn_dim=24,
            prediction_length=4,
        ),
        _forecast_patches,
    ),
)
