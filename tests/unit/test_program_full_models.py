"""The examples at full size: published shapes, which are captured one at a time."""

from typing import NamedTuple

import numpy as np
import pytest

from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.graph import Program

pytestmark = pytest.mark.slow


class Full(NamedTuple):
    """The published facts of a model, or those that benchmarks fix: parameters and batch shapes."""

    parameters: int
    batch: tuple[tuple[int, ...], ...]


MODELS = {
    "gpt2": Full(124_439_808, ((4, 256),)),
    "llama": Full(110_709_504, ((4, 256),)),
    "bert": Full(109_514_298, ((8, 128), (8, 128))),
    "resnet": Full(23_528_522, ((16, 3, 224, 224), (16,))),
    "mobilenet": Full(2_236_682, ((16, 3, 224, 224), (16,))),
    "vit": Full(85_806_346, ((8, 3, 224, 224), (8,))),
    "whisper": Full(20_724_490, ((2, 80, 3000), (2,))),
    "mixtral": Full(123_490_816, ((4, 256),)),
    "t5": Full(222_903_552, ((4, 256),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_full_models_are_captured(name: str) -> None:
    """A full model has its parameters and batches; both its programs are captured and planned."""
    recipe = build(name, "full")
    assert isinstance(recipe, TrainingRecipe)
    assert sum(p.numel() for p in recipe.model.parameters()) == MODELS[name].parameters
    captured = capture(recipe, trust=True)  # steps of this size take minutes
    assert tuple(slot.shape for slot in captured.program.batch) == MODELS[name].batch
    assert captured.program.state[-1].name == "output.loss"
    plan_answers(captured.program)
    asked = capture(build(name, "full", inference=True), trust=True)
    assert asked.program.state[-1].name == "output.0"
    plan_answers(asked.program)


def plan_answers(program: Program) -> None:
    """Plan answers about drawn operators: what is joined in one of this size is in no tiny one."""
    rng, prepared, every = np.random.default_rng(3), Preparation(program), len(program.nodes)
    for count in rng.integers(every // 4, size=100).tolist():
        known = rng.choice(every, count, replace=False).tolist()
        prepared.prepare(rng.choice(every, 2).tolist(), known=known)


def test_full_models_learn_as_the_benchmarks_do() -> None:
    """GPT-2 learns by AdamW and ResNet by gradient descent with momentum."""
    gpt2, resnet = build("gpt2"), build("resnet")
    assert isinstance(gpt2, TrainingRecipe)
    assert isinstance(resnet, TrainingRecipe)
    assert isinstance(gpt2.optimizer, AdamW)
    assert resnet.optimizer == SGD(learning_rate=0.05, momentum=0.9)
