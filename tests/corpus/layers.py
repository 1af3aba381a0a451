"""Layers of torch.nn: dense, convolutional, embeddings, attention, re-parametrized ones."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from tests.corpus.rows import Row, count, draw, layer, learn, ramp

X = ramp(4, 6)
SEQUENCE = ramp(2, 5, 8)
LINE = ramp(2, 4, 9)
IMAGE = ramp(2, 4, 7, 6)
VOLUME = ramp(1, 2, 4, 5, 4)
TOKENS = count(3, 4, high=7)
OFFSETS = torch.tensor([0, 3, 5, 5])
BAGS = count(9, high=7)


def _normed(weight: str = "weight", dim: int | None = 0) -> nn.Module:
    return weight_norm(nn.Linear(6, 5), weight, dim)


def _attend(module: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = module(x, x, x)[0]
    return result


def _attend_masked(module: nn.Module, x: Tensor) -> list[Tensor]:
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    return list(module(x, x, x, key_padding_mask=padding, attn_mask=mask))


def _translate(module: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
    result: Tensor = module(source, target, tgt_mask=mask)
    return result


def _decode(module: nn.Module, target: Tensor, memory: Tensor) -> Tensor:
    result: Tensor = module(target, memory)
    return result


def _transformer() -> nn.Module:
    return nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True)


def _weighted_bag(module: nn.Module, tokens: Tensor, weights: Tensor) -> Tensor:
    result: Tensor = module(tokens, per_sample_weights=weights)
    return result


DENSE: tuple[Row, ...] = (
    layer("Linear", lambda: nn.Linear(6, 5), X),
    layer("Linear without bias", lambda: nn.Linear(6, 5, bias=False), X),
    layer("Bilinear", lambda: nn.Bilinear(6, 6, 3), X, ramp(4, 6, seed=1)),
    layer("Identity", nn.Identity, X),
    layer("Flatten", lambda: nn.Sequential(nn.Flatten(), nn.Linear(168, 2)), IMAGE),
    layer("Unflatten", lambda: nn.Unflatten(1, (2, 3)), X),
    layer(
        "AdaptiveLogSoftmaxWithLoss",
        lambda: nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7]),
        X,
        count(4, high=12),
    ),
)

CONVOLUTIONS: tuple[Row, ...] = (
    layer("Conv1d", lambda: nn.Conv1d(4, 3, 3), LINE),
    layer("Conv1d same", lambda: nn.Conv1d(4, 3, 3, padding="same"), LINE),
    layer("Conv2d", lambda: nn.Conv2d(4, 3, 3, padding=1), IMAGE),
    layer("Conv2d strided", lambda: nn.Conv2d(4, 3, 3, stride=2), IMAGE),
    layer("Conv2d dilated", lambda: nn.Conv2d(4, 3, 3, dilation=2), IMAGE),
    layer("Conv2d depthwise", lambda: nn.Conv2d(4, 8, 3, groups=4), IMAGE),
    layer(
        "Conv2d reflect",
        lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"),
        IMAGE,
    ),
    layer(
        "Conv2d circular",
        lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"),
        IMAGE,
    ),
    layer(
        "Conv2d replicate",
        lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate"),
        IMAGE,
    ),
    layer("Conv3d", lambda: nn.Conv3d(2, 3, 2), VOLUME),
    layer("ConvTranspose1d", lambda: nn.ConvTranspose1d(4, 3, 3, stride=2), LINE),
    layer(
        "ConvTranspose2d",
        lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        IMAGE,
    ),
    layer("ConvTranspose2d grouped", lambda: nn.ConvTranspose2d(4, 6, 2, groups=2), IMAGE),
    layer("ConvTranspose3d", lambda: nn.ConvTranspose3d(2, 3, 2), VOLUME),
    layer("Unfold", lambda: nn.Unfold(2, stride=2), IMAGE),
    layer("Fold", lambda: nn.Fold((4, 4), 2, stride=1), ramp(1, 8, 9)),
    layer("PixelShuffle", lambda: nn.PixelShuffle(2), IMAGE),
    layer("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), ramp(1, 2, 4, 6)),
    layer("ChannelShuffle", lambda: nn.ChannelShuffle(2), IMAGE),
)

EMBEDDINGS: tuple[Row, ...] = (
    layer("Embedding", lambda: nn.Embedding(7, 3), TOKENS),
    layer("Embedding padding_idx", lambda: nn.Embedding(7, 3, padding_idx=2), TOKENS),
    layer("Embedding max_norm", lambda: nn.Embedding(7, 3, max_norm=1.0), TOKENS),
    layer(
        "Embedding scale_grad_by_freq",
        lambda: nn.Embedding(7, 3, scale_grad_by_freq=True),
        TOKENS,
    ),
    layer("EmbeddingBag mean", lambda: nn.EmbeddingBag(7, 3), TOKENS),
    layer("EmbeddingBag sum", lambda: nn.EmbeddingBag(7, 3, mode="sum"), TOKENS),
    layer("EmbeddingBag max", lambda: nn.EmbeddingBag(7, 3, mode="max"), TOKENS),
    layer("EmbeddingBag offsets", lambda: nn.EmbeddingBag(7, 3), BAGS, OFFSETS),
    layer("EmbeddingBag offsets sum", lambda: nn.EmbeddingBag(7, 3, mode="sum"), BAGS, OFFSETS),
    layer(
        "EmbeddingBag include_last_offset",
        lambda: nn.EmbeddingBag(7, 3, include_last_offset=True),
        BAGS,
        torch.tensor([0, 3, 9]),
    ),
    layer(
        "EmbeddingBag weights",
        lambda: nn.EmbeddingBag(7, 3, mode="sum"),
        TOKENS,
        ramp(3, 4),
        call=_weighted_bag,
    ),
    layer("EmbeddingBag padding_idx", lambda: nn.EmbeddingBag(7, 3, padding_idx=2), TOKENS),
    learn(
        "functional.one_hot", lambda x, t: functional.one_hot(t, 7).float() @ x, ramp(7, 3), TOKENS
    ),
)

ATTENTION: tuple[Row, ...] = (
    layer(
        "MultiheadAttention",
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        SEQUENCE,
        call=_attend,
    ),
    layer(
        "MultiheadAttention masks",
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        SEQUENCE,
        call=_attend_masked,
    ),
    layer(
        "MultiheadAttention bias_kv",
        lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
        SEQUENCE,
        call=_attend,
    ),
    layer(
        "TransformerEncoderLayer",
        lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True),
        SEQUENCE,
    ),
    layer(
        "TransformerDecoderLayer",
        lambda: nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True),
        SEQUENCE,
        ramp(2, 3, 8),
        call=_decode,
    ),
    layer("Transformer", _transformer, SEQUENCE, ramp(2, 3, 8), call=_translate),
    learn(
        "scaled_dot_product_attention",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(ramp(2, 2, 5, 4, seed=s) for s in range(3)),
    ),
    learn(
        "scaled_dot_product_attention grouped",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        ramp(2, 4, 5, 4),
        ramp(2, 2, 5, 4, seed=1),
        ramp(2, 2, 5, 4, seed=2),
    ),
)

REPARAMETRIZED: tuple[Row, ...] = (
    layer("utils.weight_norm", _normed, X),
    layer("utils.weight_norm dim=None", lambda: _normed(dim=None), X),
    layer("utils.weight_norm Conv1d", lambda: weight_norm(nn.Conv1d(4, 3, 3)), LINE),
    layer(
        "parametrizations.weight_norm",
        lambda: parametrizations.weight_norm(nn.Linear(6, 5)),
        X,
    ),
    layer(
        "parametrizations.weight_norm Conv2d",
        lambda: parametrizations.weight_norm(nn.Conv2d(4, 3, 3)),
        IMAGE,
    ),
    layer("utils.spectral_norm", lambda: spectral_norm(nn.Linear(6, 5)), X),
    layer(
        "parametrizations.spectral_norm",
        lambda: parametrizations.spectral_norm(nn.Linear(6, 5)),
        X,
    ),
    layer(
        "parametrizations.orthogonal cayley",
        lambda: parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="cayley"),
        ramp(4, 5),
    ),
    layer(
        "parametrizations.orthogonal householder",
        lambda: parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="householder"),
        ramp(4, 5),
    ),
    layer(
        "parametrizations.orthogonal matrix_exp",
        lambda: parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="matrix_exp"),
        ramp(4, 5),
    ),
)


def _keeps(outputs: list[Tensor]) -> bool:
    """Whether about half of many ones survived, doubled."""
    values = outputs[0].unique()
    return values.tolist() == [0.0, 2.0] and abs(float(outputs[0].mean()) - 1) < 0.15


def _keeps_channels(outputs: list[Tensor]) -> bool:
    """Whether whole channels survived or not."""
    lines = outputs[0].flatten(2)
    return bool((lines == lines[..., :1]).all()) and _keeps(outputs)


def _keeps_moments(outputs: list[Tensor]) -> bool:
    """Whether the mean and the variance of many normal numbers are as before."""
    return abs(float(outputs[0].mean())) < 0.15 and abs(float(outputs[0].std()) - 1) < 0.15


ONES = torch.ones(2, 600, 4)
NORMAL = torch.randn(2, 1000, 2, generator=torch.Generator().manual_seed(1))

DROPOUT: tuple[Row, ...] = (
    draw("Dropout", nn.Dropout(0.5), _keeps, ONES),
    draw("Dropout1d", nn.Dropout1d(0.5), _keeps_channels, ONES),
    draw("Dropout2d", nn.Dropout2d(0.5), _keeps_channels, ONES[..., None]),
    draw("Dropout3d", nn.Dropout3d(0.5), _keeps_channels, ONES[..., None, None]),
    draw("AlphaDropout", nn.AlphaDropout(0.3), _keeps_moments, NORMAL),
    draw("FeatureAlphaDropout", nn.FeatureAlphaDropout(0.3), _keeps_moments, NORMAL),
    draw(
        "RReLU",
        nn.RReLU(0.1, 0.3),
        lambda outputs: bool(((outputs[0] <= -0.1) & (outputs[0] >= -0.3)).all()),
        -ONES,
    ),
)

ROWS = (*DENSE, *CONVOLUTIONS, *EMBEDDINGS, *ATTENTION, *REPARAMETRIZED, *DROPOUT)
