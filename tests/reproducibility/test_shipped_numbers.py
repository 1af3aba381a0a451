"""Faults by which others' numbers differed between machines, with a test that ours lack each."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step, to_bits
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.graph import Kind, Origin
from moot.offchain.programs.semantics import unravel
from tests import oracle
from tests.program_helpers import Inputs, capture_function, run_function

STEPS = 120
"""Others' runs parted at step 15; a hundred more leave time for what is rarer."""


def capture_gradients(
    parameters: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    clip: ClipNorm | None = None,
) -> Captured:
    """Return the program of AdamW on parameters whose gradients are the batch."""

    def loss(model: torch.nn.Module, *given: torch.Tensor) -> torch.Tensor:
        pairs = zip(model.parameters(), given, strict=True)
        return torch.stack([(parameter * gradient).sum() for parameter, gradient in pairs]).sum()

    batch = tuple(gradients)
    model = Inputs([parameter.clone() for parameter in parameters])
    return capture(TrainingRecipe(model, loss, AdamW(1e-2), lambda _: batch, clip=clip))


def draw(*sizes: int, scale: float = 1.0) -> list[torch.Tensor]:
    """Return random vectors."""
    generator = torch.Generator().manual_seed(len(sizes))
    return [torch.randn(size, generator=generator) * scale for size in sizes]


def run(captured: Captured, steps: int, threads: int = 1) -> dict[str, Array]:
    """Return the named tensors of the state after some steps."""
    executor, state = Executor(captured.program, threads), captured.initial_state
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
    return {slot.name: array for slot, array in zip(captured.program.state, state, strict=True)}


def run_readably(captured: Captured, steps: int) -> dict[str, Array]:
    """Return the named tensors of the state after some steps, by the definition."""
    state = captured.initial_state
    for step in range(steps):
        state = run_step(captured.program, state, captured.batch(step), step)
    return {slot.name: array for slot, array in zip(captured.program.state, state, strict=True)}


def same(left: dict[str, Array], right: dict[str, Array]) -> bool:
    """Whether two states have the same names and bits."""
    return {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}


def test_rope_tables_are_not_those_of_a_library() -> None:
    """Llama's sines and cosines are operators of the program, and each is correctly rounded."""
    captured = capture(build("llama"), trust=True)
    nodes = captured.program.nodes
    tables = [i for i, node in enumerate(nodes) if node.function in (Function.SIN, Function.COS)]
    assert {nodes[i].function for i in tables} == {Function.SIN, Function.COS}
    angles = {i: nodes[i].operands[0] for i in tables}
    assert all(operand.origin is Origin.NODE for operand in angles.values())
    wanted = {*tables, *(operand.reference for operand in angles.values())}
    state, batch = captured.initial_state, captured.batch(0)
    outputs = Executor(captured.program).outputs(state, batch, 0, wanted)
    for index in tables:
        angle, compute = angles[index], oracle.FLOAT[nodes[index].function.name.lower()]
        bits = np.array(to_bits(outputs[angle.reference]))
        places = [
            angle.index(unravel(element, nodes[index].shape))
            for element in range(nodes[index].elements)
        ]
        assert to_bits(outputs[index]) == [compute(int(bits[place])) for place in places]


def test_bias_correction_takes_no_power() -> None:
    """The powers of Adam's betas are running products that a hundred steps keep to the bit."""
    captured = capture_gradients(draw(40, 7), draw(40, 7))
    assert Function.POW not in {node.function for node in captured.program.nodes}
    states = [run(captured, STEPS, threads) for threads in (1, 5)]
    assert same(*states)
    for name, beta in (("beta1_power", 0.9), ("beta2_power", 0.999)):
        power = np.float32(1)
        for _ in range(STEPS):
            power *= np.float32(beta)
        assert states[0][f"optimizer.{name}"] == power


def test_adamw_gives_the_bits_of_its_definition() -> None:
    """From the same gradients the parameters are those of the readable definition, every one."""
    captured = capture_gradients(draw(1, 5, 33), draw(1, 5, 33))
    assert same(run(captured, 6), run_readably(captured, 6))


def test_adamw_does_not_depend_on_the_tensor_around_an_element() -> None:
    """Elements update alike in one long tensor and in many short ones, whatever their places."""
    sizes = (1, 3, 16, 31, 500, 4096)
    parameters, gradients = draw(*sizes), draw(*sizes, scale=0.1)
    apart = run(capture_gradients(parameters, gradients), 12)
    whole = run(capture_gradients([torch.cat(parameters)], [torch.cat(gradients)]), 12, 5)
    pieces = [apart[f"parameter.inputs.{i}"] for i in range(len(sizes))]
    assert np.concatenate(pieces).tobytes() == whole["parameter.inputs.0"].tobytes()


def test_the_gradient_norm_is_a_fold_in_a_fixed_order() -> None:
    """Clipping by the global norm takes no dot product, and any number of threads agrees on it."""
    sizes = (9_000, 1, 700)
    captured = capture_gradients(draw(*sizes), draw(*sizes), ClipNorm(0.5))
    assert Kind.CONTRACT not in {node.kind for node in captured.program.nodes}
    states = [run(captured, 3, threads) for threads in (1, 2, 5)]
    assert same(states[0], states[1])
    assert same(states[0], states[2])


def test_the_gradient_norm_is_that_of_the_definition() -> None:
    """Clipped updates are those of the readable definition."""
    sizes = (300, 1, 40)
    captured = capture_gradients(draw(*sizes), draw(*sizes), ClipNorm(0.5))
    assert same(run(captured, 2), run_readably(captured, 2))


def test_division_by_a_number_is_a_division() -> None:
    """A quotient by a constant is rounded once; a product with the reciprocal would be another."""
    x = torch.arange(1, 200, dtype=torch.float32)
    captured = capture_function(lambda x: x / 3, x)
    functions = [node.function for node in captured.program.nodes if node.kind is Kind.MAP]
    assert functions == [Function.DIV]
    (found,) = run_function(lambda x: x / 3, x)
    exact = [oracle.round_fraction(Fraction(int(value), 3)) for value in x]
    assert to_bits(found) == exact
    assert to_bits((x * torch.tensor(1 / 3)).numpy()) != exact
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    assert to_bits(state[-1]) == exact


@pytest.mark.parametrize("threads", [1, 5])
def test_subnormal_moments_are_kept(threads: int) -> None:
    """Moments below the least normal number are the definition's, on every thread."""
    size = 70
    captured = capture_gradients(draw(size), draw(size, scale=2e-20))
    found = run(captured, 5, threads)
    moments = found["optimizer.inputs.0.second_moment"].astype(np.float32)
    least_normal = np.finfo(np.float32).tiny
    assert ((moments > 0) & (moments < least_normal)).sum() > size // 2
    assert same(found, run_readably(captured, 5))


def test_subnormal_moments_are_kept_by_many_threads() -> None:
    """A tensor that several threads share has the subnormal moments that one thread computes."""
    size = 600_000
    captured = capture_gradients(draw(size), draw(size, scale=2e-20))
    assert same(run(captured, 2, 1), run(captured, 2, 5))
