"""LoRA: adapters that learn beside a frozen model."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.lora import adapt
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.training_helpers import (
    Perceptron,
    assert_trains_as,
    by_name,
    make_batch,
    make_model,
    square_loss,
)

RATE = 0.05


def make_adapted() -> tuple[Perceptron, list[str]]:
    """Return the perceptron with adapters of rank 2."""
    model = make_model()
    torch.manual_seed(1)
    return model, adapt(model, rank=2, alpha=3.0)


def is_adapter(name: str) -> bool:
    """Whether a slot belongs to an adapter."""
    return ".down." in name or ".up." in name


def test_training_is_torch_s() -> None:
    """The adapters learn as torch has them learn."""
    model, _ = make_adapted()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], RATE)

    def reference(model: nn.Module, step: int) -> float:
        optimizer.zero_grad()
        loss = square_loss(model, *make_batch(step))
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        optimizer.step()
        return loss.item()

    assert_trains_as(TrainingRecipe(model, square_loss, AdamW(RATE), make_batch), reference)


def test_only_adapters_change() -> None:
    """After some steps all adapters are others; the rest is not even copied, and has no moments."""
    model, names = make_adapted()
    assert names == ["first", "last"]
    captured = capture(TrainingRecipe(model, square_loss, AdamW(RATE), make_batch))
    executor = Executor(captured.program)
    state = captured.initial_state
    for step in range(3):
        state = executor.run(state, captured.batch(step), step)
    before, after = by_name(captured, captured.initial_state), by_name(captured, state)
    learned = [name for name in after if name.startswith("parameter.") and is_adapter(name)]
    assert len(learned) == 4
    for name in learned:
        assert (before[name] != after[name]).any()
    for name in set(after) - set(learned):
        if name.startswith("parameter."):
            assert np.shares_memory(before[name], after[name])
    moments = [name for name in after if name.startswith("optimizer.") and name.count(".") > 2]
    assert len(moments) == 2 * len(learned)
    assert all(map(is_adapter, moments))


def test_an_adapted_model_begins_as_it_was() -> None:
    """Before training, adapters change no output; then the outputs are those of merged weights."""
    model, _ = make_adapted()
    x, _ = make_batch(0)
    assert torch.equal(model(x), make_model()(x))
    layer: Any = model.first
    nn.init.ones_(layer.up.weight)
    merged = layer.layer.weight + 1.5 * layer.up.weight @ layer.down.weight
    expected = nn.functional.linear(x, merged, layer.layer.bias)
    torch.testing.assert_close(layer(x), expected)


def test_gpt2_has_layers_of_its_own_kind() -> None:
    """The transposed layers of the transformers library are adapted too, if they match."""
    import transformers as hf  # noqa: PLC0415 - heavy

    config = hf.GPT2Config(vocab_size=7, n_embd=8, n_layer=2, n_head=2, n_positions=4)
    model: Any = hf.GPT2LMHeadModel(config)
    tokens = torch.tensor([[1, 2, 3]])
    model.eval()
    before = model(tokens).logits
    names = adapt(model, rank=1, matches=lambda name: name.endswith("attn.c_attn"))
    assert names == [f"transformer.h.{layer}.attn.c_attn" for layer in range(2)]
    assert torch.equal(model(tokens).logits, before)
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters() if p.requires_grad}
    assert set(shapes.values()) == {(1, 8), (24, 1)}
    assert len(shapes) == 4


def test_a_layer_that_is_used_twice_has_one_adapter() -> None:
    """Wherever a shared layer is, its adapter takes its place."""
    shared = nn.Linear(3, 3)
    model: Any = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared))
    assert adapt(model, rank=1) == ["0"]
    assert model[0] is model[1][1]
    assert model[0].layer is shared


def test_nonsense_is_refused() -> None:
    """A predicate that picks nothing, and numbers that make no sense, are refused."""
    with pytest.raises(UsageError, match="no linear layer matches; choose one of first, last"):
        adapt(make_model(), matches=lambda name: name == "norm")
    with pytest.raises(UsageError, match="there are no linear layers to choose from"):
        adapt(nn.Sequential(nn.ReLU()))
    with pytest.raises(UsageError, match="the rank is 0; choose an integer of at least 1"):
        adapt(make_model(), rank=0)
    with pytest.raises(UsageError, match="alpha is nan"):
        adapt(make_model(), alpha=float("nan"))
    model = make_model()
    with pytest.raises(UsageError):
        adapt(model, matches=lambda _: False)
    assert all(parameter.requires_grad for parameter in model.parameters())
