"""Functions of torch.nn.functional, called as such."""

import torch
from torch import Tensor
from torch.nn import functional as f

from tests.corpus.rows import Row, ask, count, draw, learn, ramp

X = ramp(4, 6, low=-2, high=2)
Y = ramp(4, 6, low=-2, high=2, seed=1)
Z = ramp(4, 6, low=-2, high=2, seed=2)
CHANCE = ramp(4, 6, low=0.05, high=0.95)
BITS = (Y > 0).float()
SIGNS = BITS * 2 - 1
CLASSES = torch.tensor([1, 4, 0, 5])
LINE = ramp(2, 4, 9)
IMAGE = ramp(2, 4, 7, 6)
VOLUME = ramp(1, 2, 4, 5, 4)
TABLE = ramp(7, 3)
TOKENS = count(3, 4, high=7)

BY_ELEMENT = (
    *(f.celu, f.elu, f.gelu, f.hardshrink, f.hardsigmoid, f.hardswish, f.hardtanh, f.leaky_relu),
    *(f.logsigmoid, f.mish, f.relu, f.relu6, f.selu, f.sigmoid, f.silu, f.softplus, f.softshrink),
    *(f.softsign, f.tanh, f.tanhshrink, f.normalize, f.glu, f.rrelu, f.alpha_dropout),
)
IN_PLACE = (f.celu_, f.elu_, f.hardtanh_, f.leaky_relu_, f.relu_, f.selu_, f.rrelu_)

ACTIVATIONS: tuple[Row, ...] = (
    *(learn(function.__name__, function, X) for function in BY_ELEMENT),
    *(learn(function.__name__, lambda x, g=function: g(x * 1), X) for function in IN_PLACE),
    learn("threshold", lambda x: f.threshold(x, 0.5, -1.0), X),
    learn("threshold_", lambda x: f.threshold_(x * 1, 0.5, -1.0), X),
    learn("prelu", f.prelu, X, torch.tensor([0.2])),
    learn("softmax", lambda x: f.softmax(x, 0), X),
    learn("softmin", lambda x: f.softmin(x, -1), X),
    learn("log_softmax", lambda x: f.log_softmax(x, 1), X),
    learn("softmax without dim", f.softmax, X),
)


def _is_one_hot(outputs: list[Tensor]) -> bool:
    values = outputs[0]
    return bool((values.sum(-1) - 1).abs().max() < 1e-5 and values.max() > 0.999)


def _is_distribution(outputs: list[Tensor]) -> bool:
    values = outputs[0]
    return bool((values.sum(-1) - 1).abs().max() < 1e-5 and values.min() >= 0)


def _keeps(outputs: list[Tensor]) -> bool:
    """Whether about half of many ones survived, doubled."""
    return outputs[0].unique().tolist() == [0.0, 2.0] and abs(float(outputs[0].mean()) - 1) < 0.15


ONES = torch.ones(2, 600, 4)

DRAWN: tuple[Row, ...] = (
    draw("gumbel_softmax", lambda x: f.gumbel_softmax(x, 0.7), _is_distribution, X),
    draw("gumbel_softmax hard", lambda x: f.gumbel_softmax(x, hard=True), _is_one_hot, X),
    draw("dropout", f.dropout, _keeps, ONES),
    draw("dropout1d", f.dropout1d, _keeps, ONES),
    draw("dropout2d", f.dropout2d, _keeps, ONES[..., None]),
    draw("dropout3d", f.dropout3d, _keeps, ONES[..., None, None]),
    draw("dropout in place", lambda x: f.dropout(x * 1, inplace=True), _keeps, ONES),
    draw(
        "rrelu in training",
        lambda x: f.rrelu(x, 0.1, 0.3, training=True),
        lambda outputs: bool(((outputs[0] <= -0.1) & (outputs[0] >= -0.3)).all()),
        -ONES,
    ),
    draw(
        "feature_alpha_dropout",
        lambda x: f.feature_alpha_dropout(x, 0.3, training=True),
        lambda outputs: len(outputs[0].unique()) == 2,
        ONES,
    ),
    draw(
        "fractional_max_pool2d",
        lambda x: f.fractional_max_pool2d(x, 2, output_size=(3, 3)),
        lambda outputs: outputs[0].shape == (2, 4, 3, 3),
        IMAGE,
    ),
    draw(
        "fractional_max_pool3d",
        lambda x: f.fractional_max_pool3d(x, 2, output_ratio=0.5),
        lambda outputs: outputs[0].shape == (1, 2, 2, 2, 2),
        VOLUME,
    ),
    learn("feature_alpha_dropout in inference", f.feature_alpha_dropout, LINE),
)

DENSE: tuple[Row, ...] = (
    learn("linear", f.linear, X, ramp(5, 6), ramp(5)),
    learn("linear of a vector", f.linear, X, ramp(6)),
    learn("bilinear", f.bilinear, X, Y, ramp(3, 6, 6), ramp(3)),
    learn("conv1d", f.conv1d, LINE, ramp(3, 4, 3)),
    learn(
        "conv2d",
        lambda x, w: f.conv2d(x, w, stride=(2, 1), padding="valid"),
        IMAGE,
        ramp(3, 4, 3, 3),
    ),
    learn("conv3d", f.conv3d, VOLUME, ramp(3, 2, 2, 2, 2)),
    learn("conv_transpose1d", f.conv_transpose1d, LINE, ramp(4, 3, 3)),
    learn(
        "conv_transpose2d",
        lambda x, w: f.conv_transpose2d(x, w, None, 2, 1, 1),
        IMAGE,
        ramp(4, 3, 3, 3),
    ),
    learn("conv_transpose3d", f.conv_transpose3d, VOLUME, ramp(2, 3, 2, 2, 2)),
    learn("conv_tbc", f.conv_tbc, ramp(6, 2, 4), ramp(3, 4, 5), ramp(5)),
    learn("unfold", lambda x: f.unfold(x, 2), IMAGE),
    learn("fold", lambda x: f.fold(x, (4, 4), 2), ramp(1, 8, 9)),
    learn("embedding", f.embedding, TOKENS, TABLE),
    learn("embedding max_norm", lambda t, w: f.embedding(t, w * 1, max_norm=0.5), TOKENS, TABLE),
    learn("embedding_bag", f.embedding_bag, TOKENS, TABLE),
    learn("embedding_bag max", lambda t, w: f.embedding_bag(t, w, mode="max"), TOKENS, TABLE),
    ask("one_hot", lambda t: f.one_hot(t, 7), TOKENS),
    ask("one_hot of unknown classes", f.one_hot, TOKENS),
    learn(
        "grouped_mm",
        lambda x, w: f.grouped_mm(x, w, offs=torch.tensor([3, 8], dtype=torch.int32)),
        ramp(8, 4),
        ramp(2, 4, 4),
    ),
    learn(
        "scaled_dot_product_attention mask",
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, torch.ones(5, 5).tril().bool()),
        *(ramp(2, 2, 5, 4, seed=s) for s in range(3)),
    ),
    learn(
        "scaled_dot_product_attention bias",
        lambda q, k, v, b: f.scaled_dot_product_attention(q, k, v, b, scale=0.3),
        *(ramp(2, 2, 5, 4, seed=s) for s in range(3)),
        ramp(5, 5),
    ),
    learn(
        "multi_head_attention_forward",
        lambda x, w, b, o: f.multi_head_attention_forward(
            x, x, x, 8, 2, w, b, None, None, False, 0.0, o, None
        )[0],
        ramp(5, 2, 8),
        ramp(24, 8),
        ramp(24),
        ramp(8, 8),
    ),
)

NORMS: tuple[Row, ...] = (
    learn(
        "batch_norm",
        lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True),
        IMAGE,
        ramp(4),
        ramp(4, seed=1),
    ),
    learn("instance_norm", f.instance_norm, IMAGE),
    learn("group_norm", lambda x, w, b: f.group_norm(x, 2, w, b), IMAGE, ramp(4), ramp(4, seed=1)),
    learn("layer_norm", lambda x, w, b: f.layer_norm(x, (6,), w, b), X, ramp(6), ramp(6, seed=1)),
    learn("rms_norm", lambda x, w: f.rms_norm(x, (6,), w), X, ramp(6)),
    learn("local_response_norm", lambda x: f.local_response_norm(x, 3), IMAGE),
    learn("normalize p=1", lambda x: f.normalize(x, 1.0, 0), X),
)

POOLS: tuple[Row, ...] = (
    learn("avg_pool1d", lambda x: f.avg_pool1d(x, 2), LINE),
    learn("avg_pool2d", lambda x: f.avg_pool2d(x, (2, 3), ceil_mode=True), IMAGE),
    learn("avg_pool3d", lambda x: f.avg_pool3d(x, 2), VOLUME),
    learn("max_pool1d", lambda x: f.max_pool1d(x, 2), LINE),
    learn("max_pool2d", lambda x: f.max_pool2d(x, 3, 1, 1), IMAGE),
    learn("max_pool3d", lambda x: f.max_pool3d(x, 2), VOLUME),
    learn("max_pool1d_with_indices", lambda x: f.max_pool1d_with_indices(x, 2), LINE),
    learn("max_pool2d_with_indices", lambda x: f.max_pool2d_with_indices(x, 2), IMAGE),
    learn("max_pool3d_with_indices", lambda x: f.max_pool3d_with_indices(x, 2), VOLUME),
    learn("max_unpool1d", lambda x: f.max_unpool1d(*f.max_pool1d_with_indices(x, 2), 2), LINE),
    learn("max_unpool2d", lambda x: f.max_unpool2d(*f.max_pool2d_with_indices(x, 2), 2), IMAGE),
    learn(
        "max_unpool3d",
        lambda x: f.max_unpool3d(*f.max_pool3d_with_indices(x, 2), 2),
        VOLUME[:, :, :, :4],
    ),
    learn("adaptive_avg_pool1d", lambda x: f.adaptive_avg_pool1d(x, 4), LINE),
    learn("adaptive_avg_pool2d", lambda x: f.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    learn("adaptive_avg_pool3d", lambda x: f.adaptive_avg_pool3d(x, 3), VOLUME),
    learn("adaptive_max_pool1d", lambda x: f.adaptive_max_pool1d(x, 4), LINE),
    learn("adaptive_max_pool2d", lambda x: f.adaptive_max_pool2d(x, (3, 4)), IMAGE),
    learn("adaptive_max_pool3d", lambda x: f.adaptive_max_pool3d(x, 3), VOLUME),
    learn(
        "adaptive_max_pool2d_with_indices",
        lambda x: f.adaptive_max_pool2d_with_indices(x, 3),
        IMAGE,
    ),
    learn("lp_pool1d", lambda x: f.lp_pool1d(x + 2, 2.0, 3), LINE),
    learn("lp_pool2d", lambda x: f.lp_pool2d(x, 2.0, 2), IMAGE),
    learn("lp_pool3d", lambda x: f.lp_pool3d(x + 2, 3.0, 2), VOLUME),
    learn("pad", lambda x: f.pad(x, (1, 2, -1, 0)), IMAGE),
    learn("pad reflect", lambda x: f.pad(x, (1, 2), "reflect"), LINE),
    learn("pad replicate", lambda x: f.pad(x, (1, 2, 2, 1), "replicate"), IMAGE),
    learn("pad circular", lambda x: f.pad(x, (1, 2, 2, 1), "circular"), IMAGE),
    learn("upsample", lambda x: f.upsample(x, scale_factor=2, mode="bilinear"), IMAGE),
    learn("upsample_nearest", lambda x: f.upsample_nearest(x, scale_factor=2), IMAGE),
    learn("upsample_bilinear", lambda x: f.upsample_bilinear(x, size=(9, 8)), IMAGE),
    learn(
        "interpolate scale_factor",
        lambda x: f.interpolate(
            x, scale_factor=(1.5, 0.7), mode="bilinear", recompute_scale_factor=True
        ),
        IMAGE,
    ),
    learn(
        "interpolate bicubic scaled",
        lambda x: f.interpolate(x, scale_factor=1.3, mode="bicubic"),
        IMAGE,
    ),
    learn(
        "affine_grid 3d",
        lambda t: f.affine_grid(t, [1, 2, 3, 4, 2], align_corners=True),
        ramp(1, 3, 4),
    ),
    learn("pixel_shuffle", lambda x: f.pixel_shuffle(x, 2), IMAGE),
    learn("pixel_unshuffle", lambda x: f.pixel_unshuffle(x, 2), ramp(1, 2, 4, 6)),
    learn("channel_shuffle", lambda x: f.channel_shuffle(x, 2), IMAGE),
    ask("native_channel_shuffle", lambda x: f.native_channel_shuffle(x, 2), IMAGE),
)


def _judge_chances(x: Tensor, y: Tensor) -> Tensor:
    return f.binary_cross_entropy(x.sigmoid(), y)


LOSSES: tuple[Row, ...] = (
    learn("l1_loss", f.l1_loss, X, Y),
    learn("l1_loss weight", lambda x, y: f.l1_loss(x, y, weight=CHANCE), X, Y),
    learn("mse_loss", f.mse_loss, X, Y),
    learn("mse_loss weight", lambda x, y: f.mse_loss(x, y, weight=CHANCE), X, Y),
    learn("smooth_l1_loss", f.smooth_l1_loss, X, Y),
    learn("huber_loss", lambda x, y: f.huber_loss(x, y, "none", 0.7), X, Y),
    learn("huber_loss weight", lambda x, y: f.huber_loss(x, y, weight=CHANCE), X, Y),
    learn(
        "kl_div", lambda x, y: f.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), X, Y
    ),
    learn("poisson_nll_loss", lambda x, y: f.poisson_nll_loss(x, y.abs(), full=True), X, Y),
    learn("gaussian_nll_loss", f.gaussian_nll_loss, X, Y, CHANCE),
    learn("gaussian_nll_loss of one variance", lambda x, y: f.gaussian_nll_loss(x, y, 0.5), X, Y),
    learn("nll_loss", lambda x, t: f.nll_loss(x.log_softmax(1), t, ignore_index=4), X, CLASSES),
    learn("cross_entropy", lambda x, t: f.cross_entropy(x, t, label_smoothing=0.1), X, CLASSES),
    learn("linear_cross_entropy", f.linear_cross_entropy, X, ramp(9, 6), CLASSES),
    learn(
        "linear_cross_entropy options",
        lambda x, w, t: f.linear_cross_entropy(x, w, t, ignore_index=4, reduction="sum"),
        X,
        ramp(9, 6),
        CLASSES,
    ),
    learn("binary_cross_entropy", _judge_chances, X, BITS, given=(1,)),
    learn(
        "binary_cross_entropy weight",
        lambda x, y: f.binary_cross_entropy(x.sigmoid(), y, weight=CHANCE),
        X,
        BITS,
        given=(1,),
    ),
    learn(
        "binary_cross_entropy_with_logits",
        lambda x, y: f.binary_cross_entropy_with_logits(x, y, pos_weight=CHANCE[0]),
        X,
        BITS,
        given=(1,),
    ),
    learn("multi_margin_loss", f.multi_margin_loss, X, CLASSES),
    learn(
        "multilabel_margin_loss",
        f.multilabel_margin_loss,
        X,
        torch.tensor([[3, 0, -1, 1, 2, 0]] * 4),
    ),
    learn("multilabel_soft_margin_loss", f.multilabel_soft_margin_loss, X, BITS, given=(1,)),
    learn("soft_margin_loss", f.soft_margin_loss, X, SIGNS, given=(1,)),
    learn("hinge_embedding_loss", f.hinge_embedding_loss, X, SIGNS, given=(1,)),
    learn("margin_ranking_loss", f.margin_ranking_loss, X, Y, SIGNS, given=(2,)),
    learn("cosine_embedding_loss", f.cosine_embedding_loss, X, Y, SIGNS[:, 0], given=(2,)),
    learn("triplet_margin_loss", f.triplet_margin_loss, X, Y, Z),
    learn("triplet_margin_with_distance_loss", f.triplet_margin_with_distance_loss, X, Y, Z),
    learn("cosine_similarity", f.cosine_similarity, X, Y),
    learn("pairwise_distance", f.pairwise_distance, X, Y),
    learn("pdist p=1", lambda x: f.pdist(x, 1.0), X),
    learn(
        "ctc_loss of one sample",
        lambda x, t: f.ctc_loss(x.log_softmax(-1), t, torch.tensor(6), torch.tensor(2)),
        ramp(6, 5),
        torch.tensor([1, 3]),
    ),
    learn(
        "ctc_loss of padded targets",
        lambda x, t: f.ctc_loss(
            x.log_softmax(-1),
            t,
            torch.tensor([6, 5]),
            torch.tensor([2, 0]),
            blank=4,
            reduction="none",
        ),
        ramp(6, 2, 5),
        torch.tensor([[1, 3], [0, 0]]),
    ),
    learn(
        "ctc_loss of joined targets",
        lambda x, t: f.ctc_loss(x.log_softmax(-1), t, (6, 5), (2, 1)),
        ramp(6, 2, 5),
        torch.tensor([1, 3, 2]),
    ),
)

ROWS = (*ACTIVATIONS, *DRAWN, *DENSE, *NORMS, *POOLS, *LOSSES)
