"""torch's optimizers, given as objects, on a small network."""

from collections.abc import Callable
from typing import Any

from torch import nn, optim

from tests.corpus.rows import Row, layer, ramp

X = ramp(4, 6)


def _train(name: str, make: Callable[..., optim.Optimizer], **options: Any) -> Row:
    return layer(
        name,
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3, bias=False)),
        X,
        optimizer=lambda parameters: make(parameters, **options),
        given=(0,),
    )


def _grouped(parameters: Any) -> optim.Optimizer:
    """Return AdamW with a group that does not decay."""
    tensors = list(parameters)
    return optim.AdamW(
        [
            {"params": [p for p in tensors if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in tensors if p.ndim < 2], "weight_decay": 0.0, "lr": 1e-2},
        ],
        lr=1e-3,
    )


def _muon(parameters: Any) -> optim.Optimizer:
    return optim.Muon([p for p in parameters if p.ndim == 2])


ROWS: tuple[Row, ...] = (
    _train("SGD", optim.SGD, lr=0.1),
    _train("SGD momentum", optim.SGD, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    _train("SGD nesterov", optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    _train("SGD maximize", optim.SGD, lr=0.1, maximize=True),
    _train("Adam", optim.Adam),
    _train("Adam amsgrad", optim.Adam, lr=1e-2, amsgrad=True, weight_decay=0.01),
    _train("AdamW", optim.AdamW, lr=1e-2),
    _train("AdamW amsgrad", optim.AdamW, lr=1e-2, amsgrad=True),
    _train("AdamW groups", _grouped),
    _train("NAdam", optim.NAdam, weight_decay=0.01),
    _train("RAdam", optim.RAdam),
    _train("Adamax", optim.Adamax, lr=1e-2),
    _train("RMSprop", optim.RMSprop, lr=1e-2),
    _train("RMSprop centered", optim.RMSprop, lr=1e-2, centered=True, momentum=0.9),
    _train("Adagrad", optim.Adagrad, lr_decay=0.1, initial_accumulator_value=0.1),
    _train("Adadelta", optim.Adadelta),
    _train("Adafactor", optim.Adafactor),
    _train("Rprop", optim.Rprop),
    _train("ASGD", optim.ASGD),
    _train("Muon", _muon),
    _train("LBFGS", optim.LBFGS),
    _train("SparseAdam", optim.SparseAdam),
)
