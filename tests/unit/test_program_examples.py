"""The examples: whole models against torch, their programs, their data, and how they are named."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from offchain.errors import UsageError
from offchain.execution.executor import Executor
from offchain.programs import data
from offchain.programs.capture import Captured, capture
from offchain.programs.encoding import MAX_NODE_BYTES, decode_program, encode_node, encode_program
from offchain.programs.examples import NAMES, build
from offchain.programs.graph import Kind
from offchain.programs.load import load_recipe
from offchain.programs.optimizers import SGD
from offchain.programs.recipe import InferenceRecipe, Recipe, TrainingRecipe
from tests.program_helpers import assert_close

USER_FILE = Path(__file__).parents[2] / "examples" / "autoencoder.py"


@cache
def train(name: str) -> Captured:
    """Return the tiny training program of an example, captured once for all tests."""
    return capture(build(name))


@cache
def ask(name: str) -> tuple[InferenceRecipe, Captured]:
    """Return the tiny inference of an example and its program, captured once for all tests."""
    recipe = build(name, inference=True)
    assert isinstance(recipe, InferenceRecipe)
    return recipe, capture(recipe)


@pytest.fixture(autouse=True)
def _single_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", NAMES)
def test_programs_survive_their_encoding(name: str) -> None:
    """Every example's programs decode to themselves, and no operator is longer than allowed."""
    for captured in (train(name), ask(name)[1]):
        program = captured.program
        decoded = decode_program(encode_program(program))
        assert decoded == program
        assert (decoded.names, decoded.lines) == (program.names, program.lines)
        assert max(len(encode_node(node)) for node in program.nodes) <= MAX_NODE_BYTES


def without_dropout(recipe: Recipe) -> Recipe:
    """Switch dropout off, which torch draws differently, but leave batch norm in training."""
    for module in recipe.model.modules():
        if not isinstance(module, torch.nn.BatchNorm2d):
            module.training = False
    return recipe


@pytest.mark.parametrize("name", NAMES)
def test_training_is_torch_s(name: str) -> None:
    """Two steps of plain gradient descent have torch's losses, parameters and buffers."""
    example = without_dropout(build(name))
    assert isinstance(example, TrainingRecipe)
    optimizer = SGD(0.1)
    recipe = TrainingRecipe(example.model, example.loss, optimizer, example.batch)
    captured = capture(recipe)
    executor = Executor(captured.program)
    reference = torch.optim.SGD(recipe.model.parameters(), optimizer.learning_rate)
    state = captured.initial_state
    for step in range(2):
        state = executor.run(state, captured.batch(step), step)
        named = {s.name: a for s, a in zip(captured.program.state, state, strict=True)}
        loss = recipe.loss(recipe.model, *recipe.batch(step))
        reference.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        reference.step()
        assert_close(named["output.loss"], loss.item())
        for key, tensor in recipe.model.state_dict(keep_vars=True).items():
            found = named.get(f"parameter.{key}", named.get(f"buffer.{key}"))
            if found is not None:
                assert_close(found, tensor.detach(), relative=1e-3, absolute=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_inference_is_torch_s(name: str) -> None:
    """An inference's logits are torch's."""
    recipe, captured = ask(name)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(3), 3)
    with torch.no_grad():
        logits = recipe.forward(recipe.model, *recipe.batch(3))
    assert captured.program.state[-1].name == "output.0"
    assert_close(state[-1], logits, relative=1e-4, absolute=1e-5)


def test_gpt2_keeps_its_dropout() -> None:
    """GPT-2's seven dropouts of two layers are random operators with streams of their own."""
    program = train("gpt2").program
    noise = [node for node in program.nodes if node.kind is Kind.RANDOM]
    assert [node.stream for node in noise] == list(range(7))
    assert {node.seed for node in noise} == {0}


def test_gpt2_has_the_operators_that_we_speak_of() -> None:
    """The tiny GPT-2 has about a thousand operators, mm_17 among them, and lines of its model."""
    program = train("gpt2").program
    assert 700 < len(program.nodes) < 1_300
    assert program.nodes[program.index_of("mm_17")].kind is Kind.CONTRACT
    assert "modeling_gpt2.py" in program.lines[program.index_of("_softmax_1.sum")]


@pytest.mark.parametrize("name", ["gpt2", "bert", "cnn"])
def test_examples_learn(name: str) -> None:
    """Training on one batch again and again lowers the loss, with the example's own optimizer."""
    captured = train(name)
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
    code = "import offchain.programs.encoding, offchain.programs.roots, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert "offchain.programs.graph" in result.stdout.split()
    assert "torch" not in result.stdout.split()


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    """Unknown examples, sizes, files and functions are refused with a suggestion."""
    with pytest.raises(UsageError, match="did you mean 'gpt2'"):
        load_recipe("gpt3")
    with pytest.raises(UsageError, match="did you mean 'small'"):
        load_recipe("mlp", "smal")
    with pytest.raises(UsageError, match="names no function"):
        load_recipe("model.py")
    with pytest.raises(UsageError, match="is not a Python file"):
        load_recipe(f"{tmp_path}/missing.py:build")
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
