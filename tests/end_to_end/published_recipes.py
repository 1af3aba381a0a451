"""Recipes at which the published method repairs a difference, and two at which it can't.

Their sums come so close to the middle of two roundings that another order of summation lies on the
other side of it. That is rare by chance, and easy to arrange.
"""

import numpy as np
import torch

from moot.offchain.frontend.data import make_generator
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe

TERMS, ROWS = 64, 64


def find_middle(near: float, bits: int) -> float:
    """Return a number in the middle between two neighbours of a grid, close to a number."""
    unit = 1 << (32 - bits)
    pattern = int(np.float32(near).view(np.uint32)) // unit * unit
    ends = np.array([pattern, pattern + unit], np.uint32).view(np.float32).astype(np.float64)
    return float(ends.mean())


def make_output_recipe(seed: int, near: float, bits: int) -> TrainingRecipe:
    """Return a layer whose first outputs lie next to the middle of two roundings."""
    draws = make_generator(seed, 0)
    weights = draws.uniform(0.5, 1, (2, TERMS)).astype(np.float32)
    inputs = draws.standard_normal((ROWS, TERMS))
    inputs[:, -1] = (find_middle(near, bits) - inputs[:, :-1] @ weights[0, :-1]) / weights[0, -1]
    return make_recipe(weights, inputs, lambda model, x: model(x).square().sum(), rate=0.01)


def make_gradient_recipe(seed: int) -> TrainingRecipe:
    """Return a layer whose first weights come next to the middle of two binary32 numbers."""
    draws = make_generator(seed, 0)
    weights = draws.uniform(0.5, 1, (2, TERMS)).astype(np.float32)
    inputs = draws.standard_normal((ROWS, TERMS))
    inputs[-1] = weights[0] - find_middle(1.5, 32) - inputs[:-1].sum(0)
    return make_recipe(weights, inputs, lambda model, x: model(x).sum(), rate=1)


def make_recipe(
    weights: np.ndarray, inputs: np.ndarray, loss: object, rate: float
) -> TrainingRecipe:
    """Return a linear layer that learns from one batch by gradient descent."""
    model = torch.nn.Linear(TERMS, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(weights))
    batch = (torch.from_numpy(inputs),)
    assert callable(loss)
    return TrainingRecipe(model, loss, SGD(rate), lambda _: batch, seed=0)


def above_one(seed: int) -> TrainingRecipe:
    """Outputs that the method repairs with 26 bits."""
    return make_output_recipe(seed, 1.5, 26)


def above_a_tenth(seed: int) -> TrainingRecipe:
    """Outputs between 0.1 and 0.125, where nothing is logged with 26 bits."""
    return make_output_recipe(seed, 0.11, 26)


def gradients(seed: int) -> TrainingRecipe:
    """Gradients of parameters that part, though every rounding agrees."""
    return make_gradient_recipe(seed)
