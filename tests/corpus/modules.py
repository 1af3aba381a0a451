"""Modules of torch.nn beside those of the other files: other ranks, options and containers."""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from tests.corpus.rows import Row, ask, count, draw, layer, ramp

X = ramp(4, 6)
LINE = ramp(2, 4, 9)
IMAGE = ramp(2, 4, 7, 6)
VOLUME = ramp(1, 2, 4, 5, 4)
SEQUENCE = ramp(2, 5, 8)
MEMORY = ramp(2, 3, 8, seed=1)
TIMES = ramp(4, 2, 3)
TOKENS = count(3, 4, high=7)
CLASSES = torch.tensor([1, 4, 0, 2])


def _encoder(depth: int = 2, **options: bool) -> nn.Module:
    unit = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, **options)
    return nn.TransformerEncoder(unit, depth, enable_nested_tensor=False)


def _decoder() -> nn.Module:
    unit = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    return nn.TransformerDecoder(unit, 2, nn.LayerNorm(8))


def _pad(module: nn.Module, x: Tensor) -> Tensor:
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    result: Tensor = module(x, src_key_padding_mask=padding)
    return result


def _mask(module: nn.Module, x: Tensor) -> Tensor:
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    result: Tensor = module(x, mask=mask, is_causal=True)
    return result


def _attend(module: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    return list(module(x, y, y, need_weights=True, average_attn_weights=False))


def _attend_unweighted(module: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = module(x, x, x, need_weights=False)[0]
    return result


def _unpool(module: nn.Module, x: Tensor) -> Tensor:
    pool = {3: nn.MaxPool1d, 5: nn.MaxPool3d}[x.ndim](2, return_indices=True)
    values, places = pool(x)
    result: Tensor = module(values, places, output_size=x.shape)
    return result


def _continue(module: nn.Module, x: Tensor, state: Tensor) -> list[Tensor]:
    result, last = module(x, state)
    return [result, last]


def _continue_long(module: nn.Module, x: Tensor, state: Tensor, memory: Tensor) -> list[Tensor]:
    result, (last, kept) = module(x, (state, memory))
    return [result, last, kept]


def _log_probabilities(module: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = module.log_prob(x)  # type: ignore[operator]  # a method of its class
    return result


def _pruned() -> nn.Module:
    module = nn.Linear(6, 5)
    prune.l1_unstructured(module, "weight", amount=0.3)
    return module


def _pruned_rows() -> nn.Module:
    module = nn.Conv2d(4, 3, 3)
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    return module


class _Lists(nn.Module):
    """Layers in a list, in a dictionary, and parameters in both."""

    def __init__(self) -> None:
        super().__init__()
        self.list = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.scales = nn.ParameterList([nn.Parameter(ramp(6, seed=s)) for s in range(2)])
        self.shifts = nn.ParameterDict({"relu": nn.Parameter(ramp(6)), "tanh": nn.Parameter(X[0])})

    def forward(self, x: Tensor) -> Tensor:
        """Return x past all of them."""
        for linear, scale, name in zip(self.list, self.scales, self.named, strict=True):
            x = self.named[name](linear(x) * scale + self.shifts[name])
        return x


DENSE: tuple[Row, ...] = (
    layer("Sequential", lambda: nn.Sequential(OrderedDict(a=nn.Linear(6, 5), b=nn.ReLU())), X),
    layer("lists and dictionaries", _Lists, X),
    layer("Linear of one vector", lambda: nn.Linear(6, 5), X[0]),
    layer("Linear of a volume", lambda: nn.Linear(4, 5), VOLUME),
    layer("prune.l1_unstructured", _pruned, X),
    layer("prune.ln_structured", _pruned_rows, IMAGE),
    layer("Flatten some", lambda: nn.Flatten(1, 2), IMAGE),
    layer(
        "AdaptiveLogSoftmaxWithLoss.log_prob",
        lambda: nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7]),
        X,
        call=_log_probabilities,
    ),
    layer(
        "AdaptiveLogSoftmaxWithLoss head_bias",
        lambda: nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0, head_bias=True),
        X,
        count(4, high=12),
    ),
)

CONVOLUTIONS: tuple[Row, ...] = (
    layer("Conv1d of one sample", lambda: nn.Conv1d(4, 3, 3), LINE[0]),
    layer("Conv1d circular", lambda: nn.Conv1d(4, 3, 3, padding=1, padding_mode="circular"), LINE),
    layer("Conv2d of one sample", lambda: nn.Conv2d(4, 3, 3), IMAGE[0]),
    layer("Conv2d same", lambda: nn.Conv2d(4, 3, (2, 3), padding="same"), IMAGE),
    layer("Conv2d valid", lambda: nn.Conv2d(4, 3, 3, padding="valid", bias=False), IMAGE),
    layer("Conv2d 1x1", lambda: nn.Conv2d(4, 3, 1), IMAGE),
    layer(
        "Conv2d channels last",
        lambda: nn.Conv2d(4, 3, 3).to(memory_format=torch.channels_last),
        IMAGE.to(memory_format=torch.channels_last),
    ),
    layer("Conv3d strided", lambda: nn.Conv3d(2, 4, 2, stride=2, padding=1, groups=2), VOLUME),
    layer(
        "Conv3d replicate", lambda: nn.Conv3d(2, 3, 3, padding=1, padding_mode="replicate"), VOLUME
    ),
    layer("ConvTranspose1d dilated", lambda: nn.ConvTranspose1d(4, 3, 3, dilation=2), LINE),
    layer("ConvTranspose2d dilated", lambda: nn.ConvTranspose2d(4, 3, 2, 2, dilation=2), IMAGE),
    layer("ConvTranspose3d strided", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), VOLUME),
    layer("Unfold padded", lambda: nn.Unfold((2, 3), dilation=2, padding=1), IMAGE),
    layer("Fold strided", lambda: nn.Fold((5, 4), (2, 2), padding=1, stride=2), ramp(1, 8, 9)),
)

POOLS: tuple[Row, ...] = (
    layer("MaxPool1d indices", lambda: nn.MaxPool1d(2, return_indices=True), LINE),
    layer("MaxPool3d ceil", lambda: nn.MaxPool3d(3, 2, 1, ceil_mode=True), VOLUME),
    layer("MaxUnpool1d", lambda: nn.MaxUnpool1d(2), LINE, call=_unpool),
    layer("MaxUnpool3d", lambda: nn.MaxUnpool3d(2), VOLUME, call=_unpool),
    layer("AvgPool3d padded", lambda: nn.AvgPool3d(2, 1, 1), VOLUME),
    layer("LPPool3d", lambda: nn.LPPool3d(2, 2), VOLUME + 2),
    layer("AdaptiveMaxPool2d indices", lambda: nn.AdaptiveMaxPool2d(2, return_indices=True), IMAGE),
    layer("AdaptiveAvgPool2d None", lambda: nn.AdaptiveAvgPool2d((None, 3)), IMAGE),
    draw(
        "FractionalMaxPool2d ratio",
        nn.FractionalMaxPool2d(2, output_ratio=0.5),
        lambda outputs: outputs[0].shape == (2, 4, 3, 3),
        IMAGE,
    ),
    draw(
        "FractionalMaxPool3d",
        nn.FractionalMaxPool3d(2, output_size=2),
        lambda outputs: outputs[0].shape == (1, 2, 2, 2, 2),
        VOLUME,
    ),
)

PADS: tuple[Row, ...] = (
    layer("CircularPad1d", lambda: nn.CircularPad1d((1, 2)), LINE),
    layer("CircularPad3d", lambda: nn.CircularPad3d(1), VOLUME),
    layer("ConstantPad2d", lambda: nn.ConstantPad2d((1, 2, 0, 3), -1.0), IMAGE),
    layer("ConstantPad3d", lambda: nn.ConstantPad3d(1, 0.5), VOLUME),
    layer("ZeroPad1d", lambda: nn.ZeroPad1d(2), LINE),
    layer("ZeroPad3d", lambda: nn.ZeroPad3d((0, 1, 1, 0, 2, 1)), VOLUME),
    layer("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(size=(9, 4)), IMAGE),
    layer("Upsample 1d linear", lambda: nn.Upsample(scale_factor=1.5, mode="linear"), LINE),
    layer("Upsample 3d trilinear", lambda: nn.Upsample(size=(3, 7, 5), mode="trilinear"), VOLUME),
    layer(
        "Upsample bicubic aligned",
        lambda: nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True),
        IMAGE,
    ),
)

NORMS: tuple[Row, ...] = (
    layer("BatchNorm1d of rows", lambda: nn.BatchNorm1d(6), X),
    layer("BatchNorm2d momentum=0.5", lambda: nn.BatchNorm2d(4, momentum=0.5, eps=1e-3), IMAGE),
    layer("SyncBatchNorm", lambda: nn.SyncBatchNorm(4), IMAGE),
    layer("InstanceNorm1d of one sample", lambda: nn.InstanceNorm1d(4), LINE[0]),
    layer("GroupNorm of rows", lambda: nn.GroupNorm(3, 6), X),
    layer("LayerNorm without bias", lambda: nn.LayerNorm(6, bias=False), X),
    layer("LayerNorm not affine", lambda: nn.LayerNorm((7, 6), elementwise_affine=False), IMAGE),
    layer("RMSNorm 2d", lambda: nn.RMSNorm((7, 6), eps=1e-3), IMAGE),
    layer("CrossMapLRN2d options", lambda: nn.CrossMapLRN2d(2, 0.1, 0.5, 2), IMAGE),
)

ATTENTION: tuple[Row, ...] = (
    layer("TransformerEncoder", _encoder, SEQUENCE),
    layer("TransformerEncoder padded", _encoder, SEQUENCE, call=_pad),
    layer("TransformerEncoder causal", _encoder, SEQUENCE, call=_mask),
    layer("TransformerEncoder norm_first", lambda: _encoder(1, norm_first=True), SEQUENCE),
    layer(
        "TransformerEncoder nested",
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), 1
        ),
        SEQUENCE,
        call=_pad,
    ),
    layer("TransformerDecoder", _decoder, SEQUENCE, MEMORY),
    layer(
        "TransformerEncoderLayer gelu",
        lambda: nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=False),
        SEQUENCE,
    ),
    layer(
        "MultiheadAttention other widths",
        lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True),
        SEQUENCE,
        ramp(2, 3, 6),
        call=_attend,
    ),
    layer(
        "MultiheadAttention unweighted",
        lambda: nn.MultiheadAttention(8, 2, bias=False, batch_first=True),
        SEQUENCE,
        call=_attend_unweighted,
    ),
    layer(
        "MultiheadAttention of one sample",
        lambda: nn.MultiheadAttention(8, 2),
        SEQUENCE[0],
        call=_attend_unweighted,
    ),
)

RECURRENT: tuple[Row, ...] = (
    layer("RNN continued", lambda: nn.RNN(3, 4), TIMES, ramp(1, 2, 4), call=_continue),
    layer("GRU continued", lambda: nn.GRU(3, 4), TIMES, ramp(1, 2, 4), call=_continue),
    layer(
        "LSTM continued",
        lambda: nn.LSTM(3, 4),
        TIMES,
        ramp(1, 2, 4),
        ramp(1, 2, 4, seed=1),
        call=_continue_long,
    ),
    layer("RNN of one sample", lambda: nn.RNN(3, 4, batch_first=True), TIMES[:, 0]),
    layer("GRU two layers both ways", lambda: nn.GRU(3, 4, 2, bidirectional=True), TIMES),
    layer("LSTMCell without bias", lambda: nn.LSTMCell(3, 4, bias=False), ramp(2, 3)),
    layer("RNNCell relu", lambda: nn.RNNCell(3, 4, nonlinearity="relu"), ramp(2, 3)),
)

EMBEDDINGS: tuple[Row, ...] = (
    layer("Embedding sparse", lambda: nn.Embedding(7, 3, sparse=True), TOKENS),
    layer("Embedding of INT32", lambda: nn.Embedding(7, 3), TOKENS.int()),
    layer(
        "Embedding.from_pretrained",
        lambda: nn.Embedding.from_pretrained(ramp(7, 3), freeze=False),
        TOKENS,
    ),
    layer("EmbeddingBag max_norm", lambda: nn.EmbeddingBag(7, 3, max_norm=1.0), TOKENS),
    layer("EmbeddingBag sparse", lambda: nn.EmbeddingBag(7, 3, sparse=True), TOKENS),
    layer(
        "EmbeddingBag scale_grad_by_freq",
        lambda: nn.EmbeddingBag(7, 3, scale_grad_by_freq=True),
        TOKENS,
    ),
)

LOSSES: tuple[Row, ...] = (
    layer("NLLLoss2d", nn.NLLLoss2d, ramp(2, 5, 3, 4), count(2, 3, 4, high=5)),
    layer("CrossEntropyLoss of one sample", nn.CrossEntropyLoss, X[0], torch.tensor(2)),
    layer("CrossEntropyLoss sum", lambda: nn.CrossEntropyLoss(reduction="sum"), X, CLASSES),
    layer("CrossEntropyLoss none", lambda: nn.CrossEntropyLoss(reduction="none"), X, CLASSES),
    layer(
        "BCEWithLogitsLoss none",
        lambda: nn.BCEWithLogitsLoss(reduction="none"),
        X,
        (X > 0).float(),
        given=(1,),
    ),
    layer(
        "CTCLoss sum",
        lambda: nn.CTCLoss(reduction="sum"),
        ramp(9, 2, 5),
        count(2, 3, low=1, high=5),
        torch.tensor([9, 7]),
        torch.tensor([3, 2]),
    ),
    layer(
        "CTCLoss joined targets",
        nn.CTCLoss,
        ramp(9, 2, 5),
        count(5, low=1, high=5),
        torch.tensor([9, 7]),
        torch.tensor([3, 2]),
    ),
    layer(
        "MultiLabelSoftMarginLoss weight",
        lambda: nn.MultiLabelSoftMarginLoss(ramp(6).abs(), reduction="sum"),
        X,
        (X > 0).float(),
        given=(1,),
    ),
    layer("SmoothL1Loss beta=0", lambda: nn.SmoothL1Loss(beta=0.0), X, ramp(4, 6, seed=1)),
    layer(
        "TripletMarginLoss p=1",
        lambda: nn.TripletMarginLoss(p=1.0, margin=0.5),
        X,
        ramp(4, 6, seed=1),
        ramp(4, 6, seed=2),
    ),
    layer("CosineSimilarity dim=0", lambda: nn.CosineSimilarity(dim=0), X, ramp(4, 6, seed=1)),
    layer(
        "PairwiseDistance keepdim",
        lambda: nn.PairwiseDistance(3.0, keepdim=True),
        X,
        ramp(4, 6, seed=1),
    ),
)

DROPOUT: tuple[Row, ...] = (
    *(
        ask(f"{make.__name__} in inference", make().eval(), IMAGE[..., None])
        for make in (nn.Dropout, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    ),
    ask("Dropout1d in inference", nn.Dropout1d().eval(), LINE),
    ask("Dropout2d in inference", nn.Dropout2d().eval(), IMAGE),
    layer("Dropout p=0", lambda: nn.Dropout(0.0), X),
    layer("Dropout p=1", lambda: nn.Dropout(1.0), X),
    layer("RReLU of equal bounds", lambda: nn.RReLU(0.25, 0.25), X),
    layer("RReLU in inference", lambda: nn.RReLU().eval(), X),
)

OTHERS: tuple[Row, ...] = (
    *(
        layer(
            f"{make.__name__} inplace",
            lambda make=make: nn.Sequential(nn.Identity(), nn.Linear(6, 6), make(inplace=True)),
            X,
        )
        for make in (
            nn.ReLU,
            nn.ReLU6,
            nn.ELU,
            nn.CELU,
            nn.SELU,
            nn.LeakyReLU,
            nn.SiLU,
            nn.Mish,
            nn.Hardtanh,
            nn.Hardswish,
            nn.Hardsigmoid,
        )
    ),
    layer("GLU dim=0", lambda: nn.GLU(0), X),
    layer("Softplus beta", lambda: nn.Softplus(2.0, 3.0), X),
    layer("Hardshrink lambda", lambda: nn.Hardshrink(0.3), X),
    layer("Hardtanh bounds", lambda: nn.Hardtanh(-0.5, 0.25), X),
    layer("LeakyReLU slope", lambda: nn.LeakyReLU(0.3), X),
    layer("PixelShuffle of one sample", lambda: nn.PixelShuffle(2), IMAGE[0]),
)

ROWS = (
    *(*DENSE, *CONVOLUTIONS, *POOLS, *PADS, *NORMS, *ATTENTION, *RECURRENT),
    *(*EMBEDDINGS, *LOSSES, *DROPOUT, *OTHERS),
)
