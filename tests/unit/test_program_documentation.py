"""The examples in the documentation of training run, and their recipes are programs."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from offchain.execution.executor import Executor
from offchain.programs.capture import capture
from offchain.programs.recipe import InferenceRecipe, TrainingRecipe

DOCUMENT = Path(__file__).parents[2] / "docs" / "training.md"
PREAMBLE, *EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def run_example(code: str) -> list[TrainingRecipe | InferenceRecipe]:
    """Run an example after the document's first one; return all recipes that it makes."""
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(compile(PREAMBLE, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own document
    recipes = [names["recipe"]]
    for line in re.split(r"\n(?=recipe = )", code):
        exec(compile(line, str(DOCUMENT), "exec"), names)  # noqa: S102 - likewise
        recipes.append(names["recipe"])
    return recipes


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("\n")[0])
def test_examples_run(code: str) -> None:
    """Every example gives recipes that are captured and run."""
    recipes = {id(recipe): recipe for recipe in run_example(code)}
    assert len(recipes) > 1
    for recipe in recipes.values():
        captured = capture(recipe)
        state = captured.initial_state
        for step in range(2):
            state = Executor(captured.program).run(state, captured.batch(step), step)
        assert len(state) == len(captured.program.state)
