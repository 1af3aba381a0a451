"""The example models: captured once, run, and compared with torch and with the specification."""

import copy
from functools import cache
from random import Random

import torch

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import to_bits
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_node, encode_program
from moot.offchain.programs.graph import Operand, Origin
from moot.offchain.programs.limits import MAX_NODE_BYTES
from moot.offchain.programs.semantics import compute_element
from tests.program_helpers import assert_close

LEARNING_RATE = 0.01


def without_dropout(recipe: Recipe) -> Recipe:
    """Switch dropout off, which torch draws differently, but leave batch norm in training."""
    for module in recipe.model.modules():
        if not isinstance(module, torch.nn.BatchNorm2d):
            module.training = False
    return recipe


@cache
def get_plain(name: str) -> tuple[TrainingRecipe, Captured]:
    """Return the tiny example, learning without dropout by gradient descent, and its program."""
    example = without_dropout(build(name))
    assert isinstance(example, TrainingRecipe)
    recipe = TrainingRecipe(example.model, example.loss, SGD(LEARNING_RATE), example.batch)
    return recipe, capture(recipe, trust=True)  # `check_training` compares with torch


@cache
def get_inference(name: str) -> tuple[InferenceRecipe, Captured]:
    """Return the tiny example's inference and its program."""
    recipe = build(name, inference=True)
    assert isinstance(recipe, InferenceRecipe)
    return recipe, capture(recipe, trust=True)  # `check_inference` compares with torch


def check_training(name: str, steps: int = 3) -> None:
    """Assert that steps of plain gradient descent have torch's losses, parameters and buffers."""
    recipe, captured = get_plain(name)
    model = copy.deepcopy(recipe.model)
    reference = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    executor = Executor(captured.program)
    state = captured.initial_state
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
        named = {s.name: a for s, a in zip(captured.program.state, state, strict=True)}
        loss = recipe.loss(model, *recipe.batch(step))
        reference.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        reference.step()
        assert_close(named["output.loss"], loss.item())
        for key, tensor in model.state_dict(keep_vars=True).items():
            found = named.get(f"parameter.{key}", named.get(f"buffer.{key}"))
            if found is not None:
                assert_close(found, tensor.detach(), relative=1e-4, absolute=2e-6)


def check_inference(name: str) -> None:
    """Assert that an inference's logits are torch's."""
    recipe, captured = get_inference(name)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(3), 3)
    with torch.no_grad():
        logits = recipe.forward(recipe.model, *recipe.batch(3))
    assert captured.program.state[-1].name == "output.0"
    assert_close(state[-1], logits, relative=1e-4, absolute=1e-5)


def check_encoding(captured: Captured) -> None:
    """Assert that a program decodes to itself, and that no operator is longer than allowed."""
    program = captured.program
    decoded = decode_program(encode_program(program))
    assert decoded == program
    assert (decoded.names, decoded.lines) == (program.names, program.lines)
    assert max(len(encode_node(node)) for node in program.nodes) <= MAX_NODE_BYTES


def check_semantics(captured: Captured, each: int = 3) -> None:
    """Assert that some elements of every operator are, bit for bit, what the specification says.

    Each is computed from the inputs that the fast executor has; and its fused run ends in the same
    state.
    """
    program, draws = captured.program, Random(7)
    state, batch = captured.initial_state, captured.batch(0)
    found: dict[int, Array] = {}
    executor = Executor(program)
    final = executor.run(state, batch, 0, lambda i, output: found.update({i: output.copy()}))
    outputs = [found[index] for index in range(len(program.nodes))]
    pools = {Origin.NODE: outputs, Origin.STATE: state, Origin.BATCH: batch}

    def fetch(_: int, operand: Operand, index: int) -> int:
        return to_bits(pools[operand.origin][operand.reference].reshape(-1)[index : index + 1])[0]

    for node, output, name in zip(program.nodes, outputs, program.names, strict=True):
        for element in {draws.randrange(node.elements) for _ in range(each * bool(node.elements))}:
            expected = compute_element(ORDERED, node, element, 0, fetch)
            assert to_bits(output.reshape(-1)[element : element + 1]) == [expected], name
    fused = executor.run(state, batch, 0)
    assert [x.tobytes() for x in final] == [x.tobytes() for x in fused]
