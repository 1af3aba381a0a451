"""The times of replicated steps, beside those of stock torch's own steps in two types.

All are taken in alternation in the processes that replicate, since other work on the machine slows
everything down alike.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import torch

from moot.offchain.commitments.tensors import Array
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe
from moot.offchain.replication.orders import Order
from moot.offchain.replication.published.training import Run

_TYPES = {"seconds_binary64": torch.float64, "seconds_binary32": torch.float32}


def make_stock(recipe: Recipe, start: Mapping[str, Array], order: Order) -> dict[str, Run]:
    """Return stock torch's own training, in two types, to be timed; none of what does not train."""
    if not isinstance(recipe, TrainingRecipe):
        return {}
    state = {name: torch.from_numpy(array.copy()) for name, array in start.items()}
    copies = {name: replace(recipe, model=deepcopy(recipe.model)) for name in _TYPES}
    return {name: Run(copies[name], state, _TYPES[name], order.seed) for name in _TYPES}
