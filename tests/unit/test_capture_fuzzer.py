"""Random small modules are captured as eager torch trains them.

Each has layers in a random order that share parameters, hold views and aliases of them, hooks,
buffers that change in place, dropout and checkpoints. `python -m tests.unit.test_capture_fuzzer
FIRST COUNT` tries the seeds from FIRST on and prints those that fail.
"""

import sys
from collections.abc import Callable
from random import Random

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers import SGD, AdamW, Optimizer
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.quick import every

WIDTH = 4

Part = Callable[["Patchwork", Tensor], Tensor]


class Patchwork(nn.Module):
    """A module of random parts.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        draws = Random(seed)
        torch.manual_seed(seed)
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.limit = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("table", torch.rand(3, WIDTH))
        weights = [linear.weight for linear in self.linears if isinstance(linear, nn.Linear)]
        self.listed = [*weights, self.scale]
        self.views = [weights[0].view(-1)[2 : 2 + WIDTH], weights[1].t(), weights[0][1:3].sum]
        self.aliases = [weights[1].detach(), self.scale.data]
        if draws.random() < 0.3:
            weights[0].register_hook(lambda gradient: gradient * 0.5)
        if draws.random() < 0.3:
            self.linears[1].register_full_backward_hook(lambda *_: None)
        if draws.random() < 0.2:
            self.scale.requires_grad_(requires_grad=False)
        names = [draws.choice(list(PARTS)) for _ in range(draws.randint(2, 5))]
        self.names = tuple(names)
        self.is_checkpointed = tuple(draws.random() < 0.3 for _ in names)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the input's shape."""
        for name, is_checkpointed in zip(self.names, self.is_checkpointed, strict=True):
            part = PARTS[name]
            if is_checkpointed and name not in CHANGING:
                x = checkpoint(part, self, x, use_reentrant=False)
            else:
                x = part(self, x)
        return x


def _keep_mean(m: Patchwork, x: Tensor) -> Tensor:
    mean = m.get_buffer("mean")
    mean.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
    return x - mean


def _write_row(m: Patchwork, x: Tensor) -> Tensor:
    table = m.get_buffer("table")
    table[1] = x.detach().amax(0)
    table.view(-1)[2:4].add_(0.25)
    return x * table[1:].mean(0)


def _assign(m: Patchwork, x: Tensor) -> Tensor:
    m.mean = m.get_buffer("mean") + x.detach()[0]
    return x + m.get_buffer("mean") * 0.1


def _shrink(m: Patchwork, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.limit.clamp_(max=1.0)
    return x * m.limit.clone()


def _write_copy(_: Patchwork, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 0] = y[:, 1] * 2
    y[1:].mul_(0.5)
    return y


PARTS: dict[str, Part] = {
    "linear 0": lambda m, x: m.linears[0](x),
    "linear 1": lambda m, x: m.linears[1](x).tanh(),
    "listed": lambda m, x: x @ m.listed[1].t() * m.listed[2],
    "flat view": lambda m, x: x + m.views[0],
    "turned view": lambda m, x: x @ m.views[1],
    "bound method": lambda m, x: x * m.views[2](0),
    "alias": lambda m, x: x @ m.aliases[0] + m.aliases[1],
    "dropout": lambda _, x: nn.functional.dropout(x, 0.4),
    "norm": lambda m, x: m.norm(x),
    "softmax": lambda _, x: x.softmax(-1) * x,
    "sorted": lambda _, x: x.sort(-1).values,
    "hooked": lambda _, x: _hook(x * 1.5),
    "mean": _keep_mean,
    "row": _write_row,
    "assign": _assign,
    "shrink": _shrink,
    "copy": _write_copy,
}
"""Name -> what is done."""

CHANGING = frozenset({"mean", "row", "assign", "shrink", "norm"})
"""Parts that change the state, which a checkpoint would do twice."""


def _hook(x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient.clamp(-0.05, 0.05))
    return x


def make_recipe(seed: int) -> TrainingRecipe:
    """Return a recipe that trains a random module."""
    draws = Random(f"recipe {seed}")
    optimizer: Optimizer = draws.choice([SGD(0.05, momentum=0.9), AdamW(1e-2), SGD(0.1)])

    def batch(step: int) -> tuple[Tensor, ...]:
        return (torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(step)),)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x.requires_grad_()) - 0.3).square().mean()

    model = Patchwork(seed)
    return TrainingRecipe(model, loss, optimizer, batch, seed, accumulate=draws.choice([1, 1, 2]))


@pytest.mark.parametrize("seed", every(12, range(6)))
def test_random_modules_train_as_in_eager_torch(seed: int) -> None:
    """The rehearsal accepts a random module, and its tensors are as they were."""
    recipe = make_recipe(seed)
    model = recipe.model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert capture(recipe).is_rehearsed
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def main() -> None:
    """Try the seeds that the command line names."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        try:
            capture(make_recipe(seed))
        except (CaptureError, RuntimeError) as error:
            print(seed, str(error)[:300], flush=True)  # noqa: T201 - a command
    print(f"{count} seeds from {first}")  # noqa: T201 - likewise


if __name__ == "__main__":
    main()
