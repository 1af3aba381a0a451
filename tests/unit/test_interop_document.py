"""The code in the documentation of the transformers library's models runs as it is written."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from moot.offchain.frontend.recipe import TrainingRecipe

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "hugging-face.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def run_blocks(blocks: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Run blocks one after the other in a folder; return the names that they define."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own document
        if "recipe = " in block:
            assert isinstance(names["recipe"], TrainingRecipe)
            names["recipe"].batch(3)
    return names


def test_recipes_are_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All blocks but the last, which captures, run one after the other and make recipes."""
    *quick, last = BLOCKS
    assert "load_state_dict" in last
    run_blocks(quick, monkeypatch, tmp_path)


@pytest.mark.slow
def test_the_way_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last block puts a state back into the model, which has learned."""
    names = run_blocks(BLOCKS, monkeypatch, tmp_path)
    before = names["captured"].initial_state[0]
    weight = names["model"].transformer.wte.weight.detach()
    assert not torch.equal(weight, torch.from_numpy(before.copy()))
