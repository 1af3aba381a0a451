"""Programs that are easy to capture wrong: each trains as in eager torch, or one line refuses it.

That a program is accepted says that the rehearsal agrees with it; `test_capture_rehearsal.py` shows
that the rehearsal finds programs that are wrong.
"""

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.quick import only


def make_batch(step: int) -> tuple[Tensor, ...]:
    """Return four points."""
    return (torch.randn(4, 3, generator=torch.Generator().manual_seed(step)),)


def make_recipe(
    model: nn.Module, loss: Callable[..., Tensor] | None = None, **options: Any
) -> TrainingRecipe:
    """Return a recipe whose loss is the mean square of what a model returns, unless given."""
    return TrainingRecipe(
        model, loss or (lambda m, x: m(x).square().mean()), SGD(0.1), make_batch, **options
    )


class Base(nn.Module):
    """A linear layer and whatever a subclass does beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.prepare()

    def prepare(self) -> None:
        """Set what else there is."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        result: Tensor = self.linear(x)
        return result


class Checkpointed(Base):
    """Computes a part again in the backward pass, dropout included."""

    reentrant = False

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""

        def part(y: Tensor) -> Tensor:
            return nn.functional.dropout(self.linear(y).tanh(), 0.5)

        x = nn.functional.dropout(x, 0.2).requires_grad_(self.reentrant)
        y: Tensor = checkpoint(part, x, use_reentrant=self.reentrant)
        return nn.functional.dropout(y + self.linear(y), 0.3)


class CheckpointedReentrant(Checkpointed):
    """Computes a part again by a backward pass within the backward pass."""

    reentrant = True


class Listed(Base):
    """Uses its parameter by a list that stands beside its registration."""

    def prepare(self) -> None:
        """Put the weight into a plain list."""
        self.weights = [self.linear.weight]

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) + x @ self.weights[0].t()


class Viewed(Base):
    """Uses views of its weight that were made with it, one of them transposed, one of a row."""

    def prepare(self) -> None:
        """Make the views."""
        self.flat = self.linear.weight.view(-1)
        self.turned = [self.linear.weight.t()]
        self.row = [self.linear.weight[1]]
        self.column = [self.linear.weight[:, 2]]

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        y = self.linear(x) + self.flat[2:5] * self.row[0]
        return y + x @ self.turned[0] + self.column[0]


class Aliased(Base):
    """Uses detached aliases of its weight, which change with it and have no gradient."""

    def prepare(self) -> None:
        """Make the aliases."""
        self.alias = self.linear.weight.detach()
        self.data = [self.linear.bias.data]

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) * self.alias.sum() + self.data[0]


class Tied(Base):
    """Has one parameter under two names."""

    def prepare(self) -> None:
        """Tie the weights."""
        self.other = nn.Linear(3, 3)
        self.other.weight = self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        result: Tensor = self.other(self.linear(x).tanh())
        return result


class Hooked(Base):
    """Changes gradients by hooks, on a parameter, on an activation and on a module."""

    def prepare(self) -> None:
        """Add the hooks."""
        self.linear.weight.register_hook(lambda gradient: gradient * 2)
        self.linear.register_full_backward_hook(lambda _, inputs, __: (inputs[0] * 3,))
        self.first = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        y = self.first(x)
        y.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        result: Tensor = self.linear(y)
        return result


class Accumulating(Base):
    """Halves a gradient after it was accumulated."""

    def prepare(self) -> None:
        """Add the hook."""

        def halve(parameter: Tensor) -> None:
            assert parameter.grad is not None
            parameter.grad.mul_(0.5)

        self.linear.weight.register_post_accumulate_grad_hook(halve)


class Decaying(Base):
    """Changes its weight in place in the forward pass, by two ways, and a buffer by a view."""

    def prepare(self) -> None:
        """Register the buffer."""
        self.register_buffer("seen", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        with torch.no_grad():
            self.linear.weight.mul_(0.9)
        self.linear.bias.data.add_(0.5)
        seen = self.get_buffer("seen")
        seen[1] = x.detach().mean(0)
        seen[0].add_(1)
        return self.linear(x) + seen.sum()


class Reassigning(Base):
    """Assigns a new tensor to a registered buffer."""

    def prepare(self) -> None:
        """Register the buffer."""
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.mean: Tensor = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return self.linear(x) - self.mean


class Caching(Base):
    """Makes a table at its first call and keeps it in a plain attribute."""

    def prepare(self) -> None:
        """Have no table yet."""
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        if self.table is None:
            self.table = torch.arange(3.0)
        return self.linear(x) + self.table


def make_closure() -> TrainingRecipe:
    """Return a recipe whose loss penalizes parameters that it has in a list of its own."""
    model = Base()
    parameters = list(model.parameters())
    return make_recipe(
        model, lambda m, x: m(x).square().mean() + sum(p.square().sum() for p in parameters)
    )


def make_margin() -> TrainingRecipe:
    """Return a recipe with a loss whose decomposition in torch is wrong."""
    labels = torch.tensor([[0, 2, -1], [1, -1, 0], [2, 1, 0], [-1, 0, 1]])
    return make_recipe(Base(), lambda m, x: nn.functional.multilabel_margin_loss(m(x), labels))


def make_checkpointing_library() -> TrainingRecipe:
    """Return a Llama of the transformers library that checkpoints its layers."""
    from moot.offchain.frontend.examples import build  # noqa: PLC0415 - heavy

    recipe = build("llama")
    assert isinstance(recipe, TrainingRecipe)
    model: Any = recipe.model
    with warnings.catch_warnings(action="ignore"):  # it is called otherwise from version 6 on
        model.gradient_checkpointing_enable()
    return recipe


RIGHT: dict[str, Callable[[], TrainingRecipe]] = {
    "gradient checkpointing": lambda: make_recipe(Checkpointed()),
    "reentrant gradient checkpointing": lambda: make_recipe(CheckpointedReentrant()),
    "gradient checkpointing of transformers": make_checkpointing_library,
    "a parameter in a list": lambda: make_recipe(Listed()),
    "parameters in a closure": make_closure,
    "views of a parameter": lambda: make_recipe(Viewed()),
    "detached aliases": lambda: make_recipe(Aliased()),
    "tied weights": lambda: make_recipe(Tied()),
    "gradient hooks": lambda: make_recipe(Hooked()),
    "hooks of accumulated gradients": lambda: make_recipe(Accumulating(), accumulate=2),
    "weights that forward changes": lambda: make_recipe(Decaying()),
    "a buffer that is assigned": lambda: make_recipe(Reassigning(), accumulate=2),
    "a table made at the first call": lambda: make_recipe(Caching()),
    "multilabel margin loss": make_margin,
}


DEAR = frozenset({"gradient checkpointing of transformers"})
"""What is left to the long suite."""


@pytest.mark.parametrize("name", only(set(RIGHT) - DEAR, RIGHT))
def test_it_trains_as_in_eager_torch(name: str) -> None:
    """Loss, gradients and state of the first steps are eager torch's."""
    torch.manual_seed(0)
    assert capture(RIGHT[name]()).is_rehearsed


class Counting(Base):
    """Divides by the number of its calls."""

    def prepare(self) -> None:
        """Begin to count."""
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.calls += 1
        return self.linear(x) / self.calls


class Averaging(Base):
    """Keeps a running mean in a plain attribute."""

    def prepare(self) -> None:
        """Begin with zeros."""
        self.mean = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return self.linear(x) - self.mean


class Accruing(Averaging):
    """Keeps a running mean in a plain attribute and changes it in place."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.linear(x) - self.mean


class Late(Base):
    """Registers a buffer as None and assigns it later."""

    def prepare(self) -> None:
        """Register nothing."""
        self.register_buffer("mean", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        new = x.detach().mean(0)
        self.mean: Tensor | None = new if self.mean is None else self.mean * 0.9 + new
        return self.linear(x) - self.mean


class Replacing(Base):
    """Replaces the data of its weight."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.linear.weight.data = self.linear.weight.data * 0.9
        return self.linear(x)


class Python(Base):
    """Scales by Python's random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) * random.random()


class Numpy(Base):
    """Scales by numpy's random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) * float(np.random.rand())  # noqa: NPY002 - likewise


class OwnGenerator(Base):
    """Scales by random numbers of a generator of its own."""

    def prepare(self) -> None:
        """Seed the generator."""
        self.generator = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) * float(self.generator.random())


class Shared(Base):
    """Has two parameters in one memory."""

    def prepare(self) -> None:
        """Make a parameter of the memory of another."""
        self.other = nn.Parameter(self.linear.weight.data.t())


class Listing(Base):
    """Reads the numbers of a parameter."""

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        return self.linear(x) + torch.tensor(self.linear.bias.tolist())


def make_changing_closure() -> TrainingRecipe:
    """Return a recipe whose loss counts its calls."""
    calls = [0]

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        calls[0] += 1
        result: Tensor = model(x).square().mean() / calls[0]
        return result

    return make_recipe(Base(), loss)


REFUSED: dict[str, tuple[Callable[[], TrainingRecipe], str]] = {
    "a call counter": (
        lambda: make_recipe(Counting()),
        r"^model\.calls: .* from 0 to \d.*register it as a buffer",
    ),
    "a running mean": (
        lambda: make_recipe(Averaging()),
        r"^model\.mean: .*register it as a buffer",
    ),
    "a running mean in place": (
        lambda: make_recipe(Accruing()),
        r"^aten\.add_.*: it changes a tensor .*register it as a buffer in .*self\.mean",
    ),
    "a late buffer": (lambda: make_recipe(Late()), r"^buffer mean: it appears during a step"),
    "another weight": (
        lambda: make_recipe(Replacing()),
        r"^parameter linear\.weight: its data .* in place",
    ),
    "Python's random numbers": (lambda: make_recipe(Python()), r"Python's random.*torch"),
    "numpy's random numbers": (lambda: make_recipe(Numpy()), r"numpy's random.*torch"),
    "a generator of its own": (lambda: make_recipe(OwnGenerator()), r"model\.generator: .*"),
    "a changing closure": (make_changing_closure, r"^loss\.calls\[0\]: .*register it as a buffer"),
    "parameters in one memory": (
        lambda: make_recipe(Shared()),
        r"^parameter linear\.weight: .* memory of parameter other",
    ),
    "the numbers of a parameter": (lambda: make_recipe(Listing()), r"tolist.* depend on data"),
}


@pytest.mark.parametrize("trust", [False, True], ids=["compared", "trusted"])
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name: str, trust: bool) -> None:  # noqa: FBT001 - pytest's
    """What cannot mean anything is refused, compared with torch or not, and says what to do."""
    torch.manual_seed(0)
    make, message = REFUSED[name]
    with pytest.raises(CaptureError, match=message) as refused:
        capture(make(), trust=trust)
    assert "\n" not in str(refused.value)


def test_the_model_is_as_it_was() -> None:
    """Capture leaves attributes, buffers, gradients, modes and generators as it found them."""
    torch.manual_seed(0)
    model = Caching()
    model.linear.weight.grad = torch.ones(3, 3)
    model.linear.bias.requires_grad_(requires_grad=False)
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parameters = dict(model.named_parameters())
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[union-attr, index]  # noqa: NPY002 - the global one
    capture(make_recipe(model))
    assert model.table is None
    assert model.linear.weight.grad is not None
    assert model.linear.weight.grad.tolist() == [[1.0] * 3] * 3
    assert all(dict(model.named_parameters())[name] is p for name, p in parameters.items())
    assert all(torch.equal(tensors[name], t) for name, t in model.state_dict().items())
    assert (model.training, model.linear.bias.requires_grad) == (True, False)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[union-attr, index]  # noqa: NPY002 - likewise
    assert torch.equal(states[0], after[0])
    assert states[1:] == after[1:]
