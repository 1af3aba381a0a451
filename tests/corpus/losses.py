"""Losses of torch.nn, with the options that change what they compute."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.corpus.rows import Row, count, layer, learn, ramp

X = ramp(4, 5, low=-2, high=2)
Y = ramp(4, 5, low=-2, high=2, seed=1)
Z = ramp(4, 5, low=-2, high=2, seed=2)
CHANCE = ramp(4, 5, low=0.05, high=0.95)
CLASSES = torch.tensor([1, 4, 0, 2])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0])
WEIGHTS = torch.tensor([0.5, 1.5, 1.0, 2.0, 0.25])
BITS = (ramp(4, 5, seed=4) > 0).float()
LOG = ramp(9, 2, 5, seed=5).log_softmax(-1)
LABELS = torch.tensor([[1, 2, 2], [3, 1, 4]])
LENGTHS = torch.tensor([9, 7])
COUNTS = torch.tensor([3, 2])


def _distance(x: Tensor, y: Tensor) -> Tensor:
    return 1 - functional.cosine_similarity(x, y)


def _ctc(log: Tensor, labels: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
    return functional.ctc_loss(log.log_softmax(-1), labels, lengths, counts)


def _ctc_fixed(log: Tensor, labels: Tensor) -> Tensor:
    return functional.ctc_loss(
        log.log_softmax(-1), labels, (9, 7), (3, 2), reduction="none", zero_infinity=True
    )


REGRESSION: tuple[Row, ...] = (
    layer("L1Loss", nn.L1Loss, X, Y),
    layer("MSELoss", nn.MSELoss, X, Y),
    layer("MSELoss none", lambda: nn.MSELoss(reduction="none"), X, Y),
    layer("HuberLoss", lambda: nn.HuberLoss(delta=0.7), X, Y),
    layer("SmoothL1Loss", lambda: nn.SmoothL1Loss(beta=0.7), X, Y),
    layer("PoissonNLLLoss", nn.PoissonNLLLoss, X, CHANCE, given=(1,)),
    layer("PoissonNLLLoss full", lambda: nn.PoissonNLLLoss(full=True), X, Y.abs(), given=(1,)),
    layer("GaussianNLLLoss", nn.GaussianNLLLoss, X, Y, CHANCE),
    layer("GaussianNLLLoss full", lambda: nn.GaussianNLLLoss(full=True), X, Y, CHANCE[:, :1]),
    layer("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), X, CHANCE),
    layer("KLDivLoss log_target", lambda: nn.KLDivLoss(reduction="sum", log_target=True), X, Y),
)

CLASSIFICATION: tuple[Row, ...] = (
    layer("CrossEntropyLoss", nn.CrossEntropyLoss, X, CLASSES),
    layer("CrossEntropyLoss weight", lambda: nn.CrossEntropyLoss(WEIGHTS), X, CLASSES),
    layer("CrossEntropyLoss ignore", lambda: nn.CrossEntropyLoss(ignore_index=4), X, CLASSES),
    layer(
        "CrossEntropyLoss smoothing",
        lambda: nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1),
        X,
        CLASSES,
    ),
    layer("CrossEntropyLoss probabilities", nn.CrossEntropyLoss, X, CHANCE),
    layer("CrossEntropyLoss image", nn.CrossEntropyLoss, ramp(2, 5, 3, 4), count(2, 3, 4, high=5)),
    layer("NLLLoss", nn.NLLLoss, X, CLASSES),
    layer("NLLLoss weight", lambda: nn.NLLLoss(WEIGHTS, reduction="sum"), X, CLASSES),
    layer("BCELoss", nn.BCELoss, CHANCE, BITS, given=(1,)),
    layer("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, X, BITS),
    layer(
        "BCEWithLogitsLoss pos_weight",
        lambda: nn.BCEWithLogitsLoss(pos_weight=WEIGHTS),
        X,
        BITS,
        given=(1,),
    ),
    layer("MultiMarginLoss", nn.MultiMarginLoss, X, CLASSES),
    layer("MultiMarginLoss p=2", lambda: nn.MultiMarginLoss(2, 0.5, WEIGHTS), X, CLASSES),
    layer(
        "MultiLabelMarginLoss",
        nn.MultiLabelMarginLoss,
        X,
        torch.tensor([[3, 0, -1, 1, 2], [1, -1, 0, 0, 0], [0, 1, 2, 3, 4], [-1, 0, 1, 2, 3]]),
    ),
    layer("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss, X, BITS, given=(1,)),
    layer("SoftMarginLoss", nn.SoftMarginLoss, X, BITS * 2 - 1, given=(1,)),
    layer("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, X[:, 0], SIGNS, given=(1,)),
    learn("CTCLoss", _ctc, LOG, LABELS, LENGTHS, COUNTS),
    learn("CTCLoss known lengths", _ctc_fixed, LOG, LABELS),
    layer(
        "LinearCrossEntropyLoss",
        lambda: nn.LinearCrossEntropyLoss(5, 6),
        X,
        CLASSES,
    ),
)

PAIRS: tuple[Row, ...] = (
    layer("MarginRankingLoss", nn.MarginRankingLoss, X[:, 0], Y[:, 0], SIGNS, given=(2,)),
    layer("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, X, Y, SIGNS, given=(2,)),
    layer("TripletMarginLoss", nn.TripletMarginLoss, X, Y, Z),
    layer("TripletMarginLoss swap", lambda: nn.TripletMarginLoss(swap=True), X, Y, Z),
    layer(
        "TripletMarginWithDistanceLoss",
        lambda: nn.TripletMarginWithDistanceLoss(distance_function=_distance),
        X,
        Y,
        Z,
    ),
    layer("CosineSimilarity", nn.CosineSimilarity, X, Y),
    layer("PairwiseDistance", nn.PairwiseDistance, X, Y),
    layer("PairwiseDistance p=1", lambda: nn.PairwiseDistance(1.0), X, Y),
    learn("pdist", functional.pdist, X),
    learn("cdist", torch.cdist, X, Y),
    learn("cdist p=1", lambda x, y: torch.cdist(x, y, 1.0), X, Y),
    learn("cdist p=inf", lambda x, y: torch.cdist(x, y, float("inf")), X, Y),
    learn("cdist of many", torch.cdist, ramp(30, 3), ramp(28, 3, seed=1)),
)

ROWS = (*REGRESSION, *CLASSIFICATION, *PAIRS)
