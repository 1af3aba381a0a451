"""Faults of others' state hashes, checkpoints and receipts, with a test that ours lack each."""

import ast
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import (
    Array,
    compute_data_root,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.datastore.objects import MAGIC
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from tests.reproducibility.history import capture_named

ROOT = Path(__file__).parents[2]
PACKAGES = ("contracts", "offchain", "sim")
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def capture_dropout(seed: int) -> Captured:
    """Return the program of a perceptron with dropout that learns by AdamW."""
    generator = torch.Generator().manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Dropout(), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    inputs = torch.randn(4, 6, generator=generator)
    recipe = TrainingRecipe(
        model, lambda model, x: model(x).square().mean(), AdamW(), lambda _: (inputs,), seed=seed
    )
    return capture(recipe, trust=True)


def get_state_root(state: list[Array]) -> bytes:
    """Return the root of a state."""
    return compute_state_root([compute_tensor_root(array) for array in state])


def get_program_root(captured: Captured) -> bytes:
    """Return the root of a program."""
    return ProgramTree(captured.program).header.root


def test_the_state_root_covers_every_tensor() -> None:
    """One bit of any slot changes the root: parameters, moments, buffers and Adam's counters."""
    captured = capture_dropout(0)
    state, slots = captured.initial_state, captured.program.state
    assert {"optimizer.beta1_power", "optimizer.beta2_power"} <= {slot.name for slot in slots}
    known = [compute_tensor_root(array) for array in state]
    found = {compute_state_root(known)}
    for index, array in enumerate(state):
        flipped = array.reshape(-1).copy()
        flipped.view(np.uint8)[-1] ^= 1
        root = compute_tensor_root(flipped.reshape(array.shape))
        found.add(compute_state_root([*known[:index], root, *known[index + 1 :]]))
    assert len(found) == len(state) + 1


def test_there_is_no_hidden_generator() -> None:
    """Whoever draws random numbers between the steps, dropout's are those of seed and step."""
    captured = capture_dropout(1)
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(3):
        torch.manual_seed(step + 77)
        np.random.seed(step)  # noqa: NPY002 - what must not matter
        random.seed(step)
        state = executor.run(state, captured.batch(step), step)
    usual = captured.initial_state
    for step in range(3):
        usual = executor.run(usual, captured.batch(step), step)
    assert get_state_root(state) == get_state_root(usual)


def test_random_numbers_depend_on_seed_and_step() -> None:
    """The seed is in the program's root; the number of the step alone draws other numbers."""
    captured, other = capture_dropout(1), capture_dropout(2)
    assert get_program_root(captured) != get_program_root(other)
    assert get_state_root(captured.initial_state) == get_state_root(other.initial_state)
    executor = Executor(captured.program)
    state, batch = captured.initial_state, captured.batch(0)
    first, same, later = (get_state_root(executor.run(state, batch, step)) for step in (0, 0, 1))
    assert first == same
    assert first != later


def test_the_data_root_covers_the_position() -> None:
    """The same batches in another order are other data."""
    captured = capture_named("mlp")
    batches = [[compute_tensor_root(a) for a in captured.batch(step)] for step in range(3)]
    orders = [(0, 1, 2), (1, 0, 2), (0, 2, 1), (0, 0, 2)]
    found = {compute_data_root([root for i in order for root in batches[i]]) for order in orders}
    assert len(found) == len(orders)


def reload(recipe: Recipe, *, is_reversed: bool) -> Recipe:
    """Load a model's own tensors again, from a dictionary in this or that order."""
    items = list(recipe.model.state_dict().items())
    recipe.model.load_state_dict(dict(reversed(items) if is_reversed else items))
    return recipe


def test_the_digest_does_not_depend_on_a_dictionary() -> None:
    """Tensors that were saved and loaded in another order are in the order of the layout."""
    plain, turned = (
        capture(reload(build("cnn"), is_reversed=order), trust=True) for order in (False, True)
    )
    assert get_program_root(plain) == get_program_root(turned)
    assert get_state_root(plain.initial_state) == get_state_root(turned.initial_state)


def test_the_layout_fixes_the_order() -> None:
    """Two tensors that change places change the root, even where they have one shape."""
    state = capture_named("mlp").initial_state
    zeros = [i for i, array in enumerate(state) if array.shape == state[0].shape]
    assert len(zeros) > 1
    swapped = list(state)
    swapped[zeros[0]], swapped[zeros[1]] = state[zeros[1]], state[zeros[0]]
    assert get_state_root(swapped) != get_state_root(state)


def imports_of(tree: ast.AST) -> set[str]:
    """Return the top-level modules that a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def calls_of(tree: ast.AST) -> set[str]:
    """Return what a module calls, as it is written."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_nothing_is_unpickled() -> None:
    """No module of ours imports a pickler, or loads tensors by torch's or numpy's own."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        assert not imports_of(tree) & UNPICKLERS, path
        assert not calls_of(tree) & {"torch.load", "torch.save", "np.load", "np.save"}, path


def test_checkpoints_are_not_pickles(tmp_path: Path) -> None:
    """Every file of a run's store is JSON or an object's own bytes: neither runs code when read."""
    task = make_task(Setting(program="mlp", steps=2, checkpoint_every=1, seed=9))
    Run(task, Behaviour(), Store(tmp_path)).compute()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]
    assert files
    for path in files:
        content = path.read_bytes()
        is_list = path.parent.name == "states" and len(content) % 32 == 0
        assert is_list or content.startswith((b"{", b"[", MAGIC)), path


@pytest.mark.parametrize("other", [replace(ORDERED, version=2), replace(ORDERED, name="other")])
def test_receipts_are_bound_to_the_arithmetic(other: Arithmetic) -> None:
    """Under another arithmetic, or another version of it, the same program has another root."""
    program = capture_named("mlp").program
    assert program.arithmetic is ORDERED
    changed = replace(program, arithmetic=other)
    assert ProgramTree(changed).header.root != ProgramTree(program).header.root
