"""Helpers that capture functions of tensors, run the programs, and compare them with torch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Program

RELATIVE = 2e-5
ABSOLUTE = 2e-6


class Record:
    """An optimizer that leaves the parameters alone and keeps their gradients."""

    def make_moments(self, parameter: Any) -> Any:
        """Return the place of the gradient."""
        return {"gradient": torch.zeros_like(parameter)}

    def make_counters(self) -> Any:
        """Return nothing."""
        return {}

    def advance(self, counters: Any) -> Any:
        """Return the counters unchanged."""
        return counters

    def update(self, parameter: Any, gradient: Any, _moments: Any, _numbers: Any) -> Any:
        """Return the parameter unchanged, and its gradient as its moment."""
        return parameter, {"gradient": gradient}


class Inputs(torch.nn.Module):
    """A module whose parameters are the arguments of a function."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.inputs = torch.nn.ParameterList(inputs)


def capture_function(function: Callable[..., Any], *inputs: torch.Tensor) -> Captured:
    """Return the program of a function of batch tensors."""
    recipe = InferenceRecipe(
        torch.nn.Module(), lambda _, *batch: function(*batch), lambda _: inputs, seed=7
    )
    return capture(recipe, trust=True)  # `check_function` compares with torch in float64


def run_both(program: Program, state: Sequence[Array], batch: Sequence[Array]) -> list[Array]:
    """Return the state after step 0, on which the readable and the fast executor agree."""
    expected = run_step(program, state, batch, 0)
    found = Executor(program).run(state, batch, 0)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
    return found


def run_function(function: Callable[..., Any], *inputs: torch.Tensor) -> list[Array]:
    """Return the outputs of a function's program, which survives its own encoding."""
    captured = capture_function(function, *inputs)
    program = decode_program(encode_program(captured.program))
    assert program == captured.program
    state = run_both(program, captured.initial_state, captured.batch(0))
    slots = zip(program.state, state, strict=True)
    return [array for slot, array in slots if slot.name.startswith("output.")]


def run_gradients(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> list[Array]:
    """Return a scalar function's value and its gradients, as its program computes them."""
    model = Inputs([x.clone() for x in inputs])
    recipe = TrainingRecipe(model, lambda m: function(*m.inputs), Record(), lambda _: (), seed=7)
    captured = capture(recipe, trust=True)  # likewise `check_gradients`
    state = run_both(captured.program, captured.initial_state, [])
    slots = zip(captured.program.state, state, strict=True)
    named = {slot.name: array for slot, array in slots}
    found = [named[f"optimizer.inputs.{i}.gradient"] for i in range(len(inputs))]
    return [named["output.loss"], *found]


def to_double(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64 where it is in float32."""
    return value.double() if value.dtype == torch.float32 else value


def assert_close(
    found: Any, expected: Any, relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> None:
    """Assert equal shapes, and elements that agree to `relative` or `absolute` differences."""
    np.testing.assert_allclose(found, expected, rtol=relative, atol=absolute)


def assert_near(found: Sequence[Array], expected: Sequence[torch.Tensor]) -> None:
    """Assert equal shapes and types, equal integers, and floats that agree to single precision."""
    assert len(found) == len(expected)
    for array, tensor in zip(found, expected, strict=True):
        reference = tensor.detach().numpy()
        assert array.shape == reference.shape
        if reference.dtype != np.float64:
            assert array.dtype == reference.dtype
        assert_close(array, reference)


def check_function(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Assert that a function's program computes what torch computes in float64."""
    expected = function(*map(to_double, inputs))
    several = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    assert_near(run_function(function, *inputs), several)


def check_gradients(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Assert that a scalar function's program has torch's value and gradients in float64."""
    leaves = [x.detach().double().requires_grad_() for x in inputs]
    loss = function(*leaves)
    gradients = torch.autograd.grad(loss, leaves)
    assert_near(run_gradients(function, *inputs), [loss, *gradients])
