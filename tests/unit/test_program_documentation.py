"""The examples in the documentation of training run, and their recipes are programs."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.quick import every

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "training.md"
PREAMBLE, *EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def run_example(code: str) -> list[TrainingRecipe | InferenceRecipe]:
    """Run an example after the document's first one; return the recipes that it makes itself."""
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    recipes = []
    for line in (PREAMBLE, *re.split(r"\n(?=recipe = )", code)):
        exec(compile(line, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own document
        recipes.append(names["recipe"])
    own = [recipe for recipe in recipes if recipe is not recipes[0]]
    return own or recipes


@pytest.mark.parametrize("code", every(16, ["", *EXAMPLES]), ids=lambda code: code.split("\n")[0])
def test_examples_run(code: str) -> None:
    """Every example gives recipes that are captured and run."""
    recipes = {id(recipe): recipe for recipe in run_example(code)}
    assert recipes
    for recipe in recipes.values():
        captured = capture(recipe)
        state = captured.initial_state
        for step in range(2):
            state = Executor(captured.program).run(state, captured.batch(step), step)
        assert len(state) == len(captured.program.state)
