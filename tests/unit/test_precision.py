"""Mixed precision: programs of autocast recipes, models of bfloat16, and what is refused."""

from dataclasses import replace

import pytest
import torch

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.exchange import to_array, to_tensor, zeros
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.programs.graph import Kind

BF16 = DType.BFLOAT16


def make_recipe(dtype: torch.dtype = torch.float32) -> TrainingRecipe:
    """Return a small model's training, with norms, a softmax and an embedding that is tied."""
    torch.manual_seed(3)
    table = torch.nn.Embedding(9, 6, dtype=dtype)
    layers = (torch.nn.Linear(6, 5, dtype=dtype), torch.nn.GELU(), torch.nn.LayerNorm(5))
    model = torch.nn.Sequential(table, *layers, torch.nn.Linear(5, 6, dtype=dtype)).to(dtype)

    def loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens) @ table.weight.t()
        return torch.nn.functional.cross_entropy(logits.float(), (tokens + 1) % 9)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        return (torch.randint(9, (7,), generator=torch.Generator().manual_seed(step)),)

    return TrainingRecipe(model, loss, AdamW(1e-2), batch)


def check_steps(captured: Captured) -> None:
    """Compare two steps of the executor with the definition, bit for bit."""
    executor, state = Executor(captured.program), list(captured.initial_state)
    for step in range(2):
        batch = captured.batch(step)
        defined = run_step(captured.program, state, batch, step)
        found = executor.run(state, batch, step)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in defined]
        state = found


def test_autocast_rounds_products_and_keeps_master_weights() -> None:
    """Products are of bfloat16 numbers; parameters and the optimizer's state stay float32."""
    captured = capture(set_precision(make_recipe(), "bf16"))
    assert not [slot for slot in captured.program.state if slot.dtype is BF16]
    rounded = [node for node in captured.program.nodes if node.dtype is BF16]
    assert len(rounded) > 5
    nodes = captured.program.nodes
    for node in nodes:
        if node.kind is Kind.CONTRACT:
            factors = [nodes[o.reference] for o in node.operands[1:] if o.reference]
            assert all(f.operands[0].dtype is BF16 for f in factors if f.kind is Kind.MAP)
    check_steps(captured)


def test_fp32_is_the_recipe_itself() -> None:
    """Without another precision a recipe stays what it is."""
    recipe = make_recipe()
    assert set_precision(recipe, "fp32") is recipe


def test_inference_runs_under_autocast() -> None:
    """A forward pass alone is rounded as well, and its results may be bfloat16 numbers."""
    model = torch.nn.Linear(3, 2)
    recipe = InferenceRecipe(model, lambda m, x: m(x), lambda _: (torch.ones(4, 3),))
    captured = capture(set_precision(recipe, "bf16"))
    assert captured.program.state[-1].dtype is BF16
    check_steps(captured)


def test_models_of_bfloat16_are_captured() -> None:
    """Parameters and moments that are bfloat16 themselves are rounded after every operator."""
    captured = capture(replace(make_recipe(torch.bfloat16), optimizer=SGD(0.1, momentum=0.9)))
    types = {slot.name.partition(".")[0]: slot.dtype for slot in captured.program.state}
    assert types["parameter"] is types["optimizer"] is BF16
    assert captured.initial_state[0].dtype == "uint16"
    check_steps(captured)


def test_nothing_but_conversions_and_choices_is_of_bfloat16() -> None:
    """Sums and products are of float32 numbers, and are rounded when they are done."""
    program = capture(make_recipe(torch.bfloat16)).program
    computed = {
        node.function
        for node in program.nodes
        if node.kind not in {Kind.SOURCE, Kind.SINK} and node.dtype is BF16
    }
    assert computed <= {Function.CONVERT, Function.COPY, Function.WHERE}


def test_a_matrix_and_its_transpose_are_widened_once() -> None:
    """A view is widened with the tensor that it is a view of."""
    weight = torch.nn.Parameter(torch.randn(4, 4).bfloat16())
    model = torch.nn.ParameterList([weight])
    recipe = InferenceRecipe(
        model, lambda m, x: (x @ m[0] @ m[0].t()).float(), lambda _: (torch.ones(4, 4).bfloat16(),)
    )
    nodes = capture(recipe).program.nodes
    widened = [n for n in nodes if n.function is Function.CONVERT and n.dtype is DType.FLOAT32]
    sources = {(n.operands[0].origin, n.operands[0].reference) for n in widened}
    assert len(widened) == len(sources)


def test_unknown_precisions_and_types_are_refused() -> None:
    """One line says which precisions and types there are."""
    with pytest.raises(UsageError, match="bf16"):
        set_precision(make_recipe(), "fp16")
    with pytest.raises(
        CaptureError, match=r"float16 is not part of the arithmetic; use .*bfloat16"
    ):
        capture(make_recipe(torch.float16))


def test_tensors_are_exchanged_without_a_copy() -> None:
    """A tensor and its array share memory, whatever the type is."""
    tensor = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    array = to_array(tensor)
    assert array.tolist() == [0x3F80, 0xC020]
    array[0] = 0x4000
    assert tensor[0] == 2
    assert to_tensor(array).dtype is torch.bfloat16
    assert to_tensor(to_array(torch.arange(3))).tolist() == [0, 1, 2]
    assert zeros((2, 3), torch.bfloat16).dtype is torch.bfloat16
