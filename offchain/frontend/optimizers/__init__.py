"""Optimizers as pure functions of tensors, so that an update is part of the captured step.

They follow `torch.optim`, with one difference: Adam's bias corrections come from running products
of the betas in float32, so that a step needs no power of its own number. An optimizer object of
torch is translated into one of these (`translation`).
"""

from moot.offchain.frontend.optimizers.adafactor import Adafactor
from moot.offchain.frontend.optimizers.adam import Adam, AdamW
from moot.offchain.frontend.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    everything,
    find_group,
)
from moot.offchain.frontend.optimizers.descent import SGD
from moot.offchain.frontend.optimizers.lion import Lion
from moot.offchain.frontend.optimizers.muon import Muon
from moot.offchain.frontend.optimizers.resilient import ASGD, Rprop
from moot.offchain.frontend.optimizers.squares import Adadelta, Adagrad, RMSprop
from moot.offchain.frontend.optimizers.variants import Adamax, NAdam, RAdam

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Group",
    "Lion",
    "Muon",
    "NAdam",
    "Numbers",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "everything",
    "find_group",
]
