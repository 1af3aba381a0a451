"""Whole layers of torch.nn, in training and in inference, against the same layers in float64."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.program_helpers import Record, assert_near, run_both, to_double
from tests.quick import every

SEQUENCE = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-2, 2, 48).reshape(1, 3, 4, 4).sin().square()
TOKENS = torch.tensor([[1, 0, 2], [3, 2, 1]])


class Attention(nn.Module):
    """Self-attention through torch's fused function."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return causal attention of x to itself."""
        q, k, v = self.project(x)[:, None].chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def self_attend(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return multi-head attention of x to itself."""
    result: torch.Tensor = module(x, x, x, need_weights=False)[0]
    return result


def first(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs of a recurrent layer."""
    result: torch.Tensor = module(x)[0]
    return result


def plain(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the module's output."""
    result: torch.Tensor = module(x)
    return result


Case = tuple[Callable[[], nn.Module], Callable[..., torch.Tensor], torch.Tensor]

MODULES: dict[str, Case] = {
    "attention": (Attention, plain, SEQUENCE),
    "multihead": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), self_attend, SEQUENCE),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 6, dropout=0, batch_first=True, norm_first=True),
        plain,
        SEQUENCE,
    ),
    "lstm": (lambda: nn.LSTM(4, 3, num_layers=2, batch_first=True), first, SEQUENCE),
    "gru": (lambda: nn.GRU(4, 3, bidirectional=True), first, SEQUENCE),
    "rnn": (lambda: nn.RNN(4, 3), first, SEQUENCE),
    "embedding": (lambda: nn.Embedding(5, 3, padding_idx=0), plain, TOKENS),
    "prelu": (lambda: nn.PReLU(3), plain, SEQUENCE),
    "glu": (lambda: nn.Sequential(nn.Linear(4, 6), nn.GLU()), plain, SEQUENCE),
    "batch norm": (lambda: nn.BatchNorm2d(3), plain, IMAGE),
    "cumulative batch norm": (lambda: nn.BatchNorm1d(3, momentum=0.3), plain, SEQUENCE),
    "group norm": (lambda: nn.GroupNorm(3, 3), plain, IMAGE),
    "nearest": (
        lambda: nn.Sequential(nn.Conv2d(3, 2, 1), nn.Upsample(scale_factor=2)),
        plain,
        IMAGE,
    ),
    "bilinear": (
        lambda: nn.Sequential(nn.Conv2d(3, 1, 1), nn.Upsample(size=(3, 5), mode="bilinear")),
        plain,
        IMAGE,
    ),
    "reflection": (lambda: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 1, 2)), plain, IMAGE),
}


def make(name: str) -> tuple[nn.Module, Callable[..., torch.Tensor], torch.Tensor]:
    """Return a module with fixed weights, how to call it, and its input."""
    build, call, x = MODULES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        return build(), call, x


@pytest.mark.parametrize("name", every(16, MODULES))
def test_trained_layers(name: str) -> None:
    """The loss of a layer in training, its gradients and its new buffers are torch's."""
    module, call, x = make(name)

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        result = call(m, x)
        return (result * result.detach().sin()).sum()

    captured = capture(TrainingRecipe(module, loss, Record(), lambda _: (x,)))
    state = run_both(captured.program, captured.initial_state, captured.batch(0))
    named = {s.name: a for s, a in zip(captured.program.state, state, strict=True)}
    reference = copy.deepcopy(module).double()
    value = loss(reference, to_double(x))
    parameters = dict(reference.named_parameters())
    gradients = torch.autograd.grad(value, list(parameters.values()))
    expected: dict[str, Any] = {"output.loss": value}
    expected |= {f"optimizer.{n}.gradient": g for n, g in zip(parameters, gradients, strict=True)}
    expected |= {f"buffer.{n}": b for n, b in reference.named_buffers()}
    assert_near([named[key] for key in expected], list(expected.values()))


@pytest.mark.parametrize("name", every(16, MODULES))
def test_asked_layers(name: str) -> None:
    """The output of a layer in evaluation is torch's."""
    module, call, x = make(name)
    module.eval()
    captured = capture(InferenceRecipe(module, call, lambda _: (x,)))
    state = run_both(captured.program, captured.initial_state, captured.batch(0))
    with torch.no_grad():
        expected = call(copy.deepcopy(module).double(), to_double(x))
    assert_near(state[-1:], [expected])
