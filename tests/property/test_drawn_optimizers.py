"""Optimizers that are drawn as users write them train in a program as they do in torch."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers.kept import list_kept
from moot.offchain.frontend.subject import Subject
from tests.corpus.practice import build, judge_program
from tests.property.drawn_optimizers import Draw, make_recipe
from tests.quick import every

SEEDS = range(36)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", every(72, SEEDS))
def test_a_drawn_optimizer_trains_as_in_torch(seed: int) -> None:
    """Four steps of the program are those of a loop with the user's own object."""
    judgement = judge_program(lambda: make_recipe(seed))
    assert judgement.outcome == "captured", (judgement, Draw(seed).describe())


@pytest.mark.parametrize("seed", every(24, SEEDS[6:18]))
def test_capture_leaves_a_drawn_optimizer_as_it_was(seed: int) -> None:
    """What it keeps, wherever it does, is what it was before."""
    recipe: Any = build(lambda: make_recipe(seed))
    kept = copy.deepcopy(list_kept([recipe.optimizer], Subject.of(recipe)))
    capture(recipe, trust=True)
    after = list_kept([recipe.optimizer], Subject.of(recipe))
    assert after.keys() == kept.keys()
    for name, value in kept.items():
        is_tensor = isinstance(value, Tensor)
        assert torch.equal(after[name], value) if is_tensor else after[name] == value, name
