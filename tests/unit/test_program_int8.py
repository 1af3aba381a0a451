"""Programs of int8 numbers: products by torch._int_mm, what is refused, and quantized models."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.commitments.tensors import encode_elements
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.generation.huggingface import CausalModel
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.quantization import Int8Linear, quantize
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Node
from moot.offchain.programs.semantics import compute_partials, get_fold
from tests.quick import every

INT8, INT32 = DType.INT8, DType.INT32


def draw(step: int, *shape: int) -> Tensor:
    """Int8 numbers of any size, those at both ends among them."""
    generator = torch.Generator().manual_seed(step)
    numbers = torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    numbers.view(-1)[:2] = torch.tensor([-128, 127], dtype=torch.int8)
    return numbers


def answer(function: Callable[..., Tensor], arithmetic: str = "ordered") -> Captured:
    """Return the program of a function of matrices of (5, 7) and (7, 4) int8 numbers."""
    recipe = InferenceRecipe(
        nn.Linear(1, 1),
        lambda _, x, y: function(x, y),
        lambda step: (draw(step, 5, 7), draw(step + 9, 7, 4)),
    )
    return capture(recipe, arithmetic=ARITHMETICS[arithmetic])


def find_products(captured: Captured) -> list[Node]:
    """Return the contractions of integers of a program."""
    return [node for node in captured.program.nodes if node.multiplies_integers]


@pytest.mark.parametrize("arithmetic", every(2, ARITHMETICS))
def test_products_mean_the_same_in_every_arithmetic(arithmetic: str) -> None:
    """One contraction of INT8 factors, which comes to torch's sums and has the defined partials."""
    captured = answer(torch._int_mm, arithmetic)
    program = captured.program
    assert decode_program(encode_program(program)) == program
    (product,) = find_products(captured)
    assert [operand.dtype for operand in product.operands] == [INT32, INT8, INT8]
    batch = [np.asarray(each) for each in captured.batch(3)]
    found = Executor(program).run(list(captured.initial_state), batch, 0)
    expected = torch._int_mm(*map(torch.from_numpy, batch)).numpy()
    assert any(np.array_equal(array, expected) for array in found)
    engine = get_engine(program.arithmetic)

    def fetch(place: int, _operand: object, index: int) -> int:
        return int(batch[place - 1].reshape(-1).view(np.uint8)[index])

    defined = compute_partials(program.arithmetic, product, 6, 0, fetch)
    partials = engine.list_partials(product, 6, [None, *batch])
    raw = encode_elements(partials) if partials.dtype == np.int32 else partials.view(np.uint8)
    width = len(raw) // len(defined)
    rows = [row.tobytes() for row in raw.reshape(-1, width)]
    assert [int.from_bytes(row, "little") for row in rows] == defined
    assert get_fold(program.arithmetic, product).width_bytes == 4


@pytest.mark.parametrize(
    ("function", "factor"),
    [
        (lambda x, y: x.int() @ y.int(), INT8),
        (lambda x, y: torch._int_mm(x.clone(), y.t().contiguous().t()), INT8),
        (lambda x, y: (x.int() + 1) @ y.int(), INT32),
        (lambda x, y: x.long() @ y.long(), DType.INT64),
        (lambda x, y: torch.addmm(y.int()[:5, :4], x.int(), y.int()), INT8),
    ],
    ids=["converted", "copied", "computed", "long", "added"],
)
def test_numbers_that_are_int8_are_multiplied_as_such(
    function: Callable[..., Tensor], factor: DType
) -> None:
    """Conversions and copies of INT8 numbers are seen through; others have their own products."""
    captured = answer(function)
    (product,) = find_products(captured)
    assert [operand.dtype for operand in product.operands[1:]] == [factor] * 2
    state, batch = list(captured.initial_state), captured.batch(1)
    found = Executor(captured.program).run(state, batch, 0)
    defined = run_step(captured.program, state, batch, 0)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in defined]


def test_sums_that_may_pass_their_type_are_refused() -> None:
    """The line says how many products are too many, and what to do."""
    recipe = InferenceRecipe(
        nn.Linear(1, 1),
        lambda _, x: torch._int_mm(x, x.t()),
        lambda _: (torch.ones(1, 131_072, dtype=torch.int8),),
    )
    with pytest.raises(CaptureError, match=r"131,072 products of int8 .* 131,071 are the most"):
        capture(recipe)


def make_model() -> nn.Sequential:
    """Return a small model whose second layer has no bias."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(12, 9), nn.GELU(), nn.Linear(9, 5, bias=False))


def test_quantized_layers_are_near_those_that_they_replace() -> None:
    """Weights are one byte each, results differ by about a hundredth, and the model stays."""
    model = make_model()
    twin = quantize(model)
    assert [type(it) for it in model] == [nn.Linear, nn.GELU, nn.Linear]
    assert [type(it) for it in twin] == [Int8Linear, nn.GELU, Int8Linear]
    assert twin[0].bias is model[0].bias
    x = torch.randn(3, 4, 12, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted, found = model(x), twin(x)
    assert found.shape == wanted.shape
    assert 0 < (found - wanted).abs().max() < 0.02 * wanted.abs().max()


def test_rows_of_zeros_have_a_scale() -> None:
    """Neither weights nor activations that are all zeros give anything but the bias."""
    layer = Int8Linear(torch.zeros(2, 3), torch.tensor([1.0, 2.0]))
    assert layer(torch.ones(1, 3)).tolist() == [[1.0, 2.0]]
    layer = Int8Linear(torch.ones(2, 3), None)
    assert layer(torch.zeros(1, 3)).tolist() == [[0.0, 0.0]]


def test_quantized_models_are_captured() -> None:
    """Each linear layer is one contraction, its weights one INT8 slot."""
    recipe = InferenceRecipe(make_model(), lambda m, x: m(x), lambda _: (torch.ones(4, 12),))
    captured = capture(set_precision(recipe, "int8"))
    assert len(find_products(captured)) == 2
    slots = [slot.name for slot in captured.program.state if slot.dtype is INT8]
    assert slots == ["buffer.0.weight", "buffer.2.weight"]


def test_what_int8_cannot_do_is_refused() -> None:
    """Integers have no gradients, and models without linear layers have nothing to gain."""
    loss = TrainingRecipe(make_model(), lambda m, x: m(x).mean(), SGD(0.1), lambda _: ())
    with pytest.raises(UsageError, match="int8 has no gradients; choose bf16 or fp32 to train"):
        set_precision(loss, "int8")
    recipe = InferenceRecipe(nn.GELU(), lambda m, x: m(x), lambda _: (torch.ones(3),))
    with pytest.raises(UsageError, match="no linear layer, so int8 brings nothing"):
        set_precision(recipe, "int8")


@pytest.mark.parametrize("caller", [CausalModel, Reader])
def test_models_that_round_are_tried_without_it(caller: Callable[[nn.Module], nn.Module]) -> None:
    """Deep quantized models are not taken for what asks for more than a cache, which is refused."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=24,
        num_attention_heads=4,
        vocab_size=99,
    )
    model = quantize(transformers.LlamaForCausalLM(config).eval())
    assert caller(copy.deepcopy(model)).limit == config.max_position_embeddings
    assert all(layer.rounds for layer in model.modules() if isinstance(layer, Int8Linear))
    model.register_forward_pre_hook(_read_others, with_kwargs=True)
    with pytest.raises(UsageError, match="needs more than tokens, positions and a mask"):
        caller(model)


def _read_others(
    _: nn.Module, arguments: tuple[object, ...], named: dict[str, Any]
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Read other tokens where there is no cache, as a model does that has a mode of its own."""
    is_alone = named.get("past_key_values") is None
    return arguments, {**named, "input_ids": named["input_ids"] + is_alone}


@pytest.mark.slow
def test_a_quantized_llama_generates() -> None:
    """Activations of 110 million weights round otherwise in the library's own call."""
    model = quantize(build("llama", "full", inference=True).model)
    assert CausalModel(model).limit
