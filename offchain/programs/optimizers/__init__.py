"""Optimizers as pure functions of tensors, so that an update is part of the captured step.

They follow `torch.optim`, with one difference: Adam's bias corrections come from running products
of the betas in float32, so that a step needs no power of its own number. An optimizer object of
torch is translated into one of these (`translation`).
"""

from offchain.programs.optimizers.adafactor import Adafactor
from offchain.programs.optimizers.adam import Adam, AdamW
from offchain.programs.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    everything,
    find_group,
)
from offchain.programs.optimizers.descent import SGD
from offchain.programs.optimizers.lion import Lion
from offchain.programs.optimizers.muon import Muon
from offchain.programs.optimizers.resilient import ASGD, Rprop
from offchain.programs.optimizers.squares import Adadelta, Adagrad, RMSprop
from offchain.programs.optimizers.variants import Adamax, NAdam, RAdam

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
