"""The harm that a trainer does by its log: it is led away, and no auditor finds anything."""

from functools import partial
from pathlib import Path

import pytest

from moot.offchain.arithmetic.logged.band import OBEYED_WITHIN
from moot.offchain.errors import UsageError, WrongLog
from moot.offchain.programs.rounding.journals import Steering
from moot.offchain.replication import harm
from moot.offchain.replication.harm import Harm, steer

STEPS = 4
WIDE = """
import torch
from moot.offchain.frontend.recipe import TrainingRecipe

def build(seed):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(2_048, 64), torch.nn.Linear(64, 1, bias=False))
    with torch.no_grad():
        model[0].weight.zero_()
    return TrainingRecipe(
        model=model,
        loss=lambda it, x: (it(x) - 1).square().mean(),
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
        batch=batch,
    )

def batch(step):
    return (torch.randn(256, 2_048, generator=torch.Generator().manual_seed(step)),)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program with long sums, some of which are near a boundary in every step."""
    (tmp_path / "wide.py").write_text(WIDE)
    return f"{tmp_path}/wide.py:build"


def _steer(method: str, program: str, steps: int = STEPS) -> list[Harm]:
    return [*steer(method, program, "tiny", steps, lambda _: None)]


@pytest.mark.parametrize("method", ["proven", "published"])
def test_a_steered_training_is_another_and_passes(method: str, program: str) -> None:
    """Roundings are turned in every step, weights differ, and each step is audited on the way."""
    found = _steer(method, program)
    assert [it.step for it in found] == [1, 2, 3, 4]
    assert 0 < found[0].turned < found[-1].turned
    assert found[-1].differing > 0
    assert 0 < found[-1].distance < 0.1
    assert found[-1].honest_loss == pytest.approx(found[-1].steered_loss, rel=1e-3)


def test_who_steers_too_far_is_found(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries outside the band are void, so that an auditor comes to other bits."""
    far = 40 * OBEYED_WITHIN
    monkeypatch.setattr(harm, "Steering", partial(Steering, reach=far, within=far))
    with pytest.raises(WrongLog, match="an auditor finds"):
        _steer("proven", program)


def test_what_does_not_train_is_refused(tmp_path: Path) -> None:
    """An inference has no roundings to log."""
    (tmp_path / "answer.py").write_text(
        "import torch\nfrom moot.offchain.frontend.recipe import InferenceRecipe\n"
        "def build(seed):\n"
        "    return InferenceRecipe(torch.nn.Linear(2, 1), forward=lambda m, x: m(x),\n"
        "                           batch=lambda step: (torch.ones(1, 2),))\n"
    )
    with pytest.raises(UsageError, match="give a recipe that trains"):
        _steer("proven", f"{tmp_path}/answer.py:build")
