"""Models whose weights are tensors of a class of somebody else's: torchao's, and one of our own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moot import CaptureError, InferenceRecipe, UsageError, capture, unwrap
from moot.offchain.arithmetic.functions import DType
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.graph import Kind


class Scaled(Tensor):
    """A tensor that is another one, plain or not, times a number for each row."""

    @staticmethod
    def __new__(cls: Any, inner: Tensor, scale: Tensor) -> Any:  # noqa: D102 - as torch has it
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=scale.dtype)

    def __init__(self, inner: Tensor, scale: Tensor) -> None:
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Tensor], *_: object) -> "Scaled":
        return cls(inner["inner"], inner["scale"])

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return args[0]
        args = [x.inner.to(x.scale.dtype) * x.scale if isinstance(x, Scaled) else x for x in args]
        return function(*args, **(kwargs or {}))


def make_model() -> nn.Module:
    """Return two layers with drawn weights."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16)).eval()


def scale_twice(model: nn.Module) -> None:
    """Make the first weight a tensor of a tensor of a tensor."""
    whole = torch.randint(-127, 128, (32, 64), dtype=torch.int8)
    weight: Tensor = Scaled(Scaled(whole, torch.rand(32, 1)), torch.rand(32, 1))
    model[0].weight = nn.Parameter(weight, requires_grad=False)


def quantize(config: str) -> Callable[[nn.Module], None]:
    """Return how torchao changes a model, if it is installed."""

    def change(model: nn.Module) -> None:
        ao = pytest.importorskip("torchao.quantization")
        ao.quantize_(model, getattr(ao, config)())

    return change


WAYS: dict[str, tuple[Callable[[nn.Module], None], int, int]] = {
    "weights": (quantize("Int8WeightOnlyConfig"), 0, 8),
    "activations": (quantize("Int8DynamicActivationInt8WeightConfig"), 2, 8),
    "nested": (scale_twice, 0, 6),
}
"""Ways to change a model; the products of integers, and the tensors of the state, afterwards."""


@pytest.mark.parametrize("way", WAYS)
def test_what_is_held_as_plain_tensors_is_captured(way: str) -> None:
    """The program has torch's results, and products of integers are exact ones."""
    change, products, tensors = WAYS[way]
    model, x = make_model(), torch.randn(5, 64)
    change(model)
    with torch.no_grad():
        wanted = model(x).numpy()
    recipe = InferenceRecipe(model, lambda model, x: model(x), lambda _: (x,))
    with pytest.raises(CaptureError, match=r"parameter\.0\.weight: a \w+; call moot\.unwrap"):
        capture(recipe)
    assert unwrap(model) is model
    with torch.no_grad():
        assert np.array_equal(model(x).numpy(), wanted)
    captured = capture(recipe)
    program = captured.program
    made = [n for n in program.nodes if n.kind is Kind.CONTRACT and n.dtype is DType.INT32]
    names = [slot.name for slot in program.state if slot.name.startswith("parameter.")]
    assert (len(made), len(names)) == (products, tensors)
    *_, found = Executor(program).run(captured.initial_state, captured.batch(0), 0)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_plain_models_stay_as_they_are() -> None:
    """Where there is nothing to do, nothing is done."""
    model = make_model()
    names = [*model.state_dict()]
    assert [*unwrap(model).state_dict()] == names


def test_what_wants_a_gradient_is_refused() -> None:
    """A tensor of integers can't be trained; the line says what to do."""
    model = make_model()
    weight = Scaled(torch.ones(32, 64), torch.ones(32, 1))
    model[0].weight = nn.Parameter(weight, requires_grad=True)
    with pytest.raises(UsageError, match=r"0\.weight: a Scaled that wants a gradient; train"):
        unwrap(model)
