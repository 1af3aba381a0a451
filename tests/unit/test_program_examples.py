"""The examples: whole models against torch, their programs, their data, and how they are named."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend import data
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.recipe import InferenceRecipe

USER_FILE = Path(__file__).parents[2] / "examples" / "autoencoder.py"


@pytest.fixture(autouse=True)
def _single_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "name", ["cnn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "bert"))]
)
def test_examples_learn(name: str) -> None:
    """Training on one batch again and again lowers the loss, with the example's own optimizer."""
    captured = capture(build(name))
    executor = Executor(captured.program)
    state, losses = captured.initial_state, []
    for step in range(12):
        state = executor.run(state, captured.batch(0), step)
        losses.append(float(state[-1]))
    assert losses[-1] < losses[0]


def test_examples_depend_on_the_seed_alone() -> None:
    """The same seed gives the same weights and batches, another one gives others."""
    first, again, other = (capture(build("mlp", seed=seed)) for seed in (1, 1, 2))
    for x, y in zip(first.initial_state, again.initial_state, strict=True):
        assert x.tobytes() == y.tobytes()
    assert first.initial_state[0].tobytes() != other.initial_state[0].tobytes()
    assert [x.tobytes() for x in first.batch(5)] == [x.tobytes() for x in again.batch(5)]
    assert first.batch(5)[0].tobytes() != first.batch(6)[0].tobytes()
    assert first.batch(5)[0].tobytes() != other.batch(5)[0].tobytes()


def test_building_leaves_torch_s_seed_alone() -> None:
    """Drawing an example's weights does not disturb the caller's random numbers."""
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    build("mlp", seed=9)
    assert torch.rand(1) == expected


def test_text_comes_from_the_file(tmp_path: Path) -> None:
    """Language models learn from windows of the file's bytes."""
    path = tmp_path / "text"
    path.write_bytes(bytes(range(100)))
    (windows,) = data.text_batches(0, path, 3, 5)(2)
    assert windows.dtype == torch.int64
    assert windows.shape == (3, 5)
    assert (windows.diff(dim=1) == 1).all()


def test_masked_text() -> None:
    """Masked tokens are hidden and are the only ones with a label; every batch has one."""
    (text,) = data.text_batches(4, None, 4, 64)(7)
    hidden, labels = data.masked_batches(4, None, 4, 64)(7)
    is_masked = labels != data.IGNORED
    assert 10 < is_masked.sum() < 80
    assert (labels[is_masked] == text[is_masked]).all()
    assert (hidden[is_masked] == data.MASK_BYTE).all()
    assert (hidden[~is_masked] == text[~is_masked]).all()


def test_digits() -> None:
    """Digits are images in [0, 1] whose pixels are repeated to the scale, and labels below 10."""
    images, labels = data.digit_batches(0, 5, channels=3, scale=2)(0)
    assert images.shape == (5, 3, 16, 16)
    assert images.dtype == torch.float32
    assert (images[:, :, ::2, ::2] == images[:, :, 1::2, 1::2]).all()
    assert 0 <= images.min() < images.max() <= 1
    assert labels.dtype == torch.int64
    assert labels.max() < data.DIGIT_CLASSES


def test_the_user_example() -> None:
    """A function in a file of the user's gives a recipe that is captured and learns."""
    recipe = load_recipe(f"{USER_FILE}:build", seed=2)
    captured = capture(recipe)
    executor = Executor(captured.program)
    state, losses = captured.initial_state, []
    for step in range(30):
        state = executor.run(state, captured.batch(step), step)
        losses.append(float(state[-1]))
    assert losses[-1] < losses[0]
    assert any("autoencoder.py" in line for line in captured.program.lines)


def test_loading_an_example() -> None:
    """An example's name loads what it builds."""
    recipe = load_recipe("cnn", inference=True)
    assert isinstance(recipe, InferenceRecipe)
    assert isinstance(recipe.model[0], torch.nn.Conv2d)  # type: ignore[index]  # it is a Sequential


def test_programs_are_read_without_torch() -> None:
    """Whoever only reads or checks programs does not pay for importing torch."""
    code = (
        "import moot.offchain.programs.encoding, moot.offchain.programs.roots, sys\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert "moot.offchain.programs.graph" in result.stdout.split()
    assert "torch" not in result.stdout.split()


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    """Unknown examples, sizes, files and functions are refused with a suggestion."""
    with pytest.raises(UsageError, match="did you mean 'gpt2'"):
        load_recipe("gpt3")
    with pytest.raises(UsageError, match="did you mean 'small'"):
        load_recipe("mlp", "smal")
    with pytest.raises(UsageError, match="names no function"):
        load_recipe("model.py")
    with pytest.raises(UsageError, match=r"there is no file .*missing\.py"):
        load_recipe(f"{tmp_path}/missing.py:build")
    with pytest.raises(UsageError, match="is not a Python file"):
        load_recipe(f"{tmp_path}:build")
    with pytest.raises(UsageError, match="did you mean 'build'"):
        load_recipe(f"{USER_FILE}:built")
    with pytest.raises(UsageError, match="leave both options out"):
        load_recipe(f"{USER_FILE}:build", inference=True)
    with pytest.raises(UsageError, match="learns from digits"):
        load_recipe("mlp", data=tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        load_recipe("gpt2", data=tmp_path / "missing")
    path = tmp_path / "other.py"
    path.write_text("def build(seed):\n    return seed\n")
    with pytest.raises(UsageError, match="returns int"):
        load_recipe(f"{path}:build")
