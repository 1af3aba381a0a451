"""The port of backends: another one, of numpy, has the bits of the first and of the definition."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.backends import table
from moot.offchain.backends.port import Backend
from moot.offchain.commitments.tensors import Array, compute_tensor_root, encode_elements
from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.native import emit
from moot.offchain.planning.roles import EXPRESSIBLE
from moot.offchain.programs.graph import Kind
from tests.fuzz.compare import define
from tests.fuzz.draws import draw_case
from tests.unit import numpy_backend
from tests.unit.numpy_backend import Held, Numpy

DRAWS, PART = 120, 30
MOST_LINES = 300


@pytest.fixture(autouse=True)
def _third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the backend: one row."""
    monkeypatch.setitem(table._BACKENDS, "numpy", Numpy)  # type: ignore[misc]  # a dict


def encode(arrays: list[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


@pytest.mark.parametrize("first", range(0, DRAWS, PART))
def test_drawn_programs_are_computed_as_they_are_defined(first: int) -> None:
    """Every operator of drawn programs, of all kinds and types, has the definition's bits."""
    for number in range(first, first + PART):
        case = draw_case(Random(number), is_matrix=number % 5 == 0)
        found: dict[int, Array] = {}
        executor = Executor(case.program, backend="numpy")
        executor.run(case.state, case.batch, case.step, observe=found.__setitem__)
        outputs = [found[index] for index in range(len(case.program.nodes))]
        assert encode(outputs) == encode(define(case)), number


def test_a_captured_program_has_the_same_roots() -> None:
    """Training has the same states on both backends, step by step, in whatever way it is run."""
    captured = capture(build("mlp"), trust=True)
    ours, theirs = Executor(captured.program), Executor(captured.program, backend="numpy")
    state = list(captured.initial_state)
    advanced = [array.copy() for array in state]
    for step in range(2):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        found = theirs.run(state, batch, step)
        theirs.advance(advanced, batch, step)
        roots = [compute_tensor_root(array) for array in expected]
        assert [compute_tensor_root(array) for array in found] == roots
        assert [compute_tensor_root(array) for array in advanced] == roots
        state = expected


def test_outputs_can_be_replaced_in_any_backend() -> None:
    """Who tampers with an output sees an array, and what becomes of it is what the others read."""
    captured = capture(build("mlp"), trust=True)
    nodes = captured.program.nodes
    index = next(i for i, node in enumerate(nodes) if node.kind is Kind.CONTRACT)
    results = []
    for backend in ("cpu", "numpy"):
        executor = Executor(captured.program, backend=backend)
        patch = {index: np.negative}
        found = executor.run(captured.initial_state, captured.batch(0), 0, patch=patch)
        results.append(encode(found))
    assert results[0] == results[1]
    honest = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    assert encode(honest) != results[0]


def test_a_wrong_backend_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sees folds that go the other way."""
    case = capture(build("mlp"), trust=True)
    expected = Executor(case.program).run(case.initial_state, case.batch(0), 0)
    forward = np.ndindex
    monkeypatch.setattr(numpy_backend.np, "ndindex", lambda shape: [*forward(shape)][::-1])
    found = Executor(case.program, backend="numpy").run(case.initial_state, case.batch(0), 0)
    assert encode(found) != encode(expected)


def test_unknown_backends_and_arithmetics_are_refused() -> None:
    """One line says which there are."""
    program = capture(build("mlp"), trust=True).program
    with pytest.raises(UsageError, match="cpu"):
        Executor(program, backend="gpu")
    exact = capture(build("mlp"), trust=True, arithmetic=EXACT).program
    with pytest.raises(UsageError, match="numpy does not compute exact, but ordered; choose"):
        Executor(exact, backend="numpy")


def test_only_the_backend_looks_into_its_tensors() -> None:
    """What the executor hands about is opaque: a tensor of this backend is no array."""
    backend: Backend = Numpy()
    held = backend.admit(np.arange(3))
    assert isinstance(held, Held)
    assert not hasattr(held, "dtype")
    assert backend.fetch(held).tolist() == [0, 1, 2]


def test_a_backend_is_small() -> None:
    """The third backend has fewer lines than an author reads in an hour."""
    assert len(Path(numpy_backend.__file__).read_text().splitlines()) < MOST_LINES


def test_planning_and_emitters_agree_on_what_can_be_in_a_kernel() -> None:
    """What planning lets be fused is what there is code for."""
    assert EXPRESSIBLE == emit.EXPRESSIBLE
