"""Programs that are kept by the content of what torch traced."""

from pathlib import Path

import pytest
import torch
from torch import nn

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import compute_tensor_root
from moot.offchain.frontend.capture import Captured, capture, known
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.encoding import encode_program
from tests.quick import every


class Model(nn.Module):
    """A layer, a constant table and a factor that is a plain number."""

    def __init__(self, factor: float = 2.0, first: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)
        self.factor = factor
        self.table = [first, 1.0, 2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return three numbers for each row."""
        found: torch.Tensor = self.layer(x) * self.factor + torch.tensor(self.table)
        return found


def make_recipe(model: nn.Module | None = None, rate: float = 0.1) -> TrainingRecipe:
    """Return a recipe that trains a model."""
    return TrainingRecipe(
        model or Model(),
        lambda model, x: model(x).square().mean(),
        SGD(rate),
        lambda step: (torch.full((2, 3), float(step)),),
    )


def describe(captured: Captured) -> tuple[bytes, list[bytes]]:
    """Return a program with names and lines, and the roots of its start."""
    return encode_program(captured.program), [*map(compute_tensor_root, captured.initial_state)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder in which programs are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "moot" / "programs"


def test_a_program_is_lowered_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second capture is the first one, to its names, lines and constants, without lowering."""
    first = describe(capture(make_recipe(), trust=True))
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(known, "make_draft", None)
    assert describe(capture(make_recipe(), trust=True)) == first
    assert first[0] == encode_program(capture(make_recipe()).program)  # which lowers it itself


def test_other_weights_are_the_same_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the weights begin with is no part of what a program is known by, but of its start."""
    first, model = describe(capture(make_recipe(), trust=True)), Model()
    with torch.no_grad():
        model.layer.weight.add_(1)
    monkeypatch.setattr(known, "make_draft", None)
    program, roots = describe(capture(make_recipe(model), trust=True))
    assert program == first[0]
    assert roots[0] != first[1][0]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "recipe",
    every(
        6,
        [
            make_recipe(Model(factor=3.0)),
            make_recipe(Model(first=0.5)),
            make_recipe(rate=0.2),
            make_recipe(nn.Linear(3, 3)),
        ],
    ),
)
def test_another_program_is_lowered(
    recipe: TrainingRecipe, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs in a number, in a constant's content or in an operator is not found."""
    capture(make_recipe(), trust=True)
    assert encode_program(capture(recipe, trust=True).program) == (
        encode_program(capture(recipe).program)
    )
    assert len(list(folder.iterdir())) == 2
    with monkeypatch.context() as patched:
        patched.setattr(known, "hash_sources", lambda: b"other sources")
        capture(recipe, trust=True)
    assert len(list(folder.iterdir())) == 3


def test_arithmetics_are_told_apart(folder: Path) -> None:
    """The same trace in another arithmetic is another program."""
    found = [capture(make_recipe(), trust=True, arithmetic=a) for a in (ORDERED, EXACT)]
    assert [c.program.arithmetic for c in found] == [ORDERED, EXACT]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("content", every(6, [b"", b"moot", None]))
def test_a_damaged_program_is_made_again(folder: Path, content: bytes | None) -> None:
    """A file that is cut off, empty or altered in one bit is replaced, and nobody notices."""
    first = describe(capture(make_recipe(), trust=True))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    for bad in (flipped, whole[:-1], content if content is not None else whole + b"x"):
        path.write_bytes(bad)
        assert describe(capture(make_recipe(), trust=True)) == first
        assert path.read_bytes() == whole


def test_no_place_to_keep_programs(folder: Path) -> None:
    """Where nothing can be written, programs are lowered every time."""
    folder.parent.mkdir()
    folder.write_text("a file in the place of the folder")
    assert describe(capture(make_recipe(), trust=True)) == (
        describe(capture(make_recipe(), trust=True))
    )


def test_old_programs_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more files are kept than the cache is told to keep."""
    monkeypatch.setattr(known._programs, "_most", 2)
    for rate in (0.1, 0.2, 0.3):
        capture(make_recipe(rate=rate), trust=True)
    assert len(list(folder.iterdir())) == 2
